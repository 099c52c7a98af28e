"""The page put together: one file with its style, script and data inside, which asks the network for nothing.

Invariant: the same folders give the same bytes, and the page may run its own script and style only: its policy names
their hashes and forbids everything else.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from importlib.resources import files

from asdf.report import conditions, drawing, results, runs
from asdf.report.data import as_json, page_data
from asdf.report.gathering import Gathered
from asdf.report.markup import Html, join, markup, tag
from asdf.report.names import labels_of
from asdf.report.seeds import seeds_table
from asdf.text import and_more

# In the order in which they build on each other.
SCRIPTS = (
    "dom",
    "looks",
    "axes",
    "readout",
    "download",
    "det",
    "histograms",
    "training",
    "tables",
    "settings",
    "theme",
    "start",
)


_LABEL = 28
_FEW = 6


def report_page(gathered: Gathered, title: str = "", command: str = "") -> str:
    """The report as HTML.

    Args:
        title: of the page; '' names the runs.
        command: what made the page, to be shown on it.
    """
    style, script = _text("style.css"), _script()
    sections = [(f"set-{number}", name) for number, name in enumerate(gathered.sets)]
    contents = [("results", "Results"), *sections]
    contents += [("training", "Training"), ("settings", "Settings"), ("environment", "Environment")]
    parts = {
        "policy": Html(
            f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            "img-src blob:; base-uri 'none'"
        ),
        "title": markup(title or _title(gathered)),
        "when": markup(runs.when_and_how(gathered.runs)),
        "counts": markup(runs.counts_of(gathered)),
        "command": tag("p", tag("code", command), class_="when") if command else Html(),
        "summary": markup(*(tag("p", sentence) for sentence in results.main_sentences(gathered))),
        "findings": results.findings(gathered),
        "contents": join(tag("li", tag("a", name, href=f"#{place}")) for place, name in contents),
        "results": _results(gathered),
        "sets": markup(*(_set(gathered, place, name) for place, name in sections)),
        "training": _training(gathered),
        "settings": _settings(gathered),
        "environment": markup(
            *(
                runs.environment_of(name, run, opened=len(gathered.runs) <= 3)
                for name, run in zip(gathered.names, gathered.runs, strict=True)
            )
        ),
        "data": Html(as_json(page_data(gathered))),
        "style": Html(style),
        "script": Html(script),
    }
    # One pass, so that what is filled in is never searched for names of parts.
    page = re.sub(r"\{\{(\w+)\}\}", lambda found: str(parts[found[1]]), _text("page.html"))
    # A folder's name may hold bytes that are no text.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def _title(gathered: Gathered) -> str:
    return f"Results of {and_more(labels_of(gathered.names, _LABEL), 3)}"


def _results(gathered: Gathered) -> Html:
    if not gathered.measurements:
        return tag("p", "No scores yet: score the sets first (stage 2).")
    note = tag("p", results.costs_note(), class_="note")
    seeds = seeds_table(gathered)
    tables = [tag("div", one) for one in (results.overview(gathered), seeds) if one is not None]
    return markup(tag("div", *tables, class_="heats"), results.selection_note(gathered), note)


def _set(gathered: Gathered, place: str, name: str) -> Html:
    measured = gathered.on(name)
    words = "Both axes are normal deviates of the rates; marks are the EERs."
    det = _figure("det", name, "DET curves", words, [drawing.det(gathered, name)])
    words = (
        "Share of each class; the upright line is the threshold of the EER, the outermost bars "
        "hold all beyond them."
    )
    drawn = drawing.histograms(gathered, name)
    histograms = _figure("histograms", name, "Scores", words, drawn)
    maps = conditions.heat_maps(gathered, name)
    # Few conditions are a small table, for which there is room next to the DET curves.
    narrow = all(
        len(one.summary.of_column(column)) <= _FEW
        for one in measured
        for column in one.summary.columns
    )
    inside = [
        tag("h2", name),
        results.result_table(gathered, name),
        tag("div", det, tag("div", histograms, maps if narrow else None), class_="pair"),
        tag(
            "details",
            tag("summary", "The DET curves as a table"),
            results.det_table(gathered, name),
        ),
        None if narrow else maps,
        results.published(name, measured),
    ]
    return tag("section", *inside, id=place)


def _figure(kind: str, name: str | None, title: str, text: str, drawn: Sequence[Html]) -> Html:
    caption = tag("figcaption", tag("h3", title), tag("p", text))
    many = "canvas" if kind == "det" else "canvas many"
    canvas = tag("div", *drawn, class_=many)
    return tag("figure", caption, canvas, class_="plot", data_plot=kind, data_set=name)


def _training(gathered: Gathered) -> Html:
    if not any(run.training() for run in gathered.runs):
        return tag("p", "The runs kept no record of a training.")
    words = "By epoch; filled marks are the networks whose results are shown."
    plot = _figure("training", None, "Course", words, drawing.training(gathered))
    folded = tag(
        "details", tag("summary", "The evaluations as a table"), runs.training_table(gathered)
    )
    return markup(runs.ends(gathered), plot, folded)


def _settings(gathered: Gathered) -> Html:
    return markup(runs.differences(gathered), runs.settings_of(gathered))


def _script() -> str:
    """All scripts in one function, so that their names are their own."""
    inside = "\n".join(_text(f"{name}.js") for name in SCRIPTS)
    return f"(() => {{\n'use strict';\n{inside}}})();\n"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _text(name: str) -> str:
    return (files("asdf.report") / "page" / name).read_text(encoding="utf-8")
