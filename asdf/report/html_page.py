"""The page as one file that contains its style, script and data, and loads nothing.

Invariant: the same folders give the same bytes, and the page may run only its own script and style:
its policy lists their hashes and forbids everything else. The templates (page/*.html) escape all
text except the page's own style, script and JSON. A `Document` is a page about another subject with
the same style, tables and plots.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from asdf.metrics.detection import ASVSPOOF5
from asdf.report import result_tables, run_records
from asdf.report.drawing import (
    Figure,
    as_json,
    det_figure,
    histogram_figure,
    page_colours,
    page_data,
)
from asdf.report.effect_pictures import effect_section
from asdf.report.gathering import Gathered, fold_findings
from asdf.report.llr_pictures import llr_section
from asdf.report.result_tables import heat_maps, localisation_tables, source_sections
from asdf.tables.panels import Panel
from asdf.tables.renderers import PageTable
from asdf.tables.table import labels_of
from asdf.tasks.studies.generalisation import generalisation_table
from asdf.tasks.studies.left_out import left_out_tables
from asdf.tasks.studies.seed_results import seed_results_table, seed_sentences, seeds_table
from asdf.text import and_more

if TYPE_CHECKING:
    from jinja2 import Environment


_LABEL = 28
# Ordered by dependency.
_SCRIPTS = ("dom", "download", "figures", "tables", "settings")


def report_page(gathered: Gathered, title: str = "", command: str = "") -> str:
    """Return the report as HTML.

    Args:
        title: Title of the page; '' names the runs.
        command: Command that made the page, which is shown on it.
    """
    left_out = left_out_tables(gathered.left_out)
    sources = source_sections(gathered.tasks.traced)
    located = localisation_tables(gathered.tasks.located)
    contents: list[dict[str, Any]] = [_part("Results", "results")]
    if left_out:
        contents.append(_part("Left out of training", "left_out"))
    for index, name in enumerate(gathered.sets):
        content = _part(name, "set") | {
            # Not by its name, which may hold any characters.
            "anchor": f"set-{index}",
            "remarks": gathered.set_remarks(name),
            "results": result_tables.result_table(gathered, name),
            "over_seeds": seed_results_table(gathered.over_seeds, name),
            "det": det_figure(gathered, name),
            "histograms": histogram_figure(gathered, name),
            "det_table": result_tables.det_table(gathered, name),
            "heat_maps": heat_maps(gathered, name),
            "literature": result_tables.published_results(name, gathered.on(name)),
            "ratios": llr_section(gathered, name),
        }
        contents.append(content)
    if sources:
        contents.append(_part("Source tracing", "source_tracing"))
    if located:
        contents.append(_part("Localisation", "localisation"))
    contents += [_part(name, name.lower()) for name in ("Training", "Settings", "Environment")]
    known = gathered.generalisation
    # The last set is the one by which systems are sorted.
    of_sets = [result_tables.main_sentence(gathered, name) for name in gathered.sets]
    return _page(
        "page.html",
        title or f"Results of {and_more(labels_of(gathered.names, _LABEL), 3)}",
        _verdict(of_sets[-1], gathered) if of_sets else Verdict(),
        contents,
        facts=[run_records.when_and_how(gathered.runs), run_records.counts_of(gathered)],
        command=command,
        others=of_sets[:-1],
        findings=fold_findings(gathered.findings),
        left_out=left_out,
        sources=sources,
        localisation=located,
        overview=result_tables.overview(gathered),
        seeds=seeds_table(gathered.over_seeds, gathered.sets),
        seed_sentences=seed_sentences(gathered.over_seeds),
        generalisation=None if known is None else generalisation_table(known),
        effects=effect_section(gathered),
        shows_several_networks_of_a_run=result_tables.shows_several_networks_of_a_run(gathered),
        costs=ASVSPOOF5,
        training=run_records.training_section(gathered),
        differences=run_records.setting_differences(gathered),
        settings=run_records.settings_of_runs(gathered),
        environments=run_records.run_environments(gathered),
        data=as_json(page_data(gathered)),
    )


def _part(title: str, template: str) -> dict[str, Any]:
    """Return a section of the report; its template also names its anchor."""
    anchor = template.replace("_", "-")
    return {"anchor": anchor, "title": title, "template": f"{template}.html"}


@dataclass(frozen=True)
class Verdict:
    """What the top of a page says.

    Attributes:
        sentence: Conclusion, as the first heading; '' leaves the title there.
        css: Class of its colour: 'genuine', 'spoof', 'mixed', or '' for grey.
        facts: Numbers that it rests on, by name.
        lead: Further sentences.
        cannot: Limits of the numbers.
    """

    sentence: str = ""
    css: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    lead: Sequence[str] = ()
    cannot: str = ""


def _verdict(of_set: Mapping[str, Any], gathered: Gathered) -> Verdict:
    """Return the result on a set as the verdict of a report."""
    threshold = gathered.on(of_set["set"])[0].summary.result.eer_threshold
    facts = {
        "EER": f"{of_set['eer']} %",
        "95 % interval": of_set["interval"] and f"{of_set['interval']} %",
        "Threshold of the EER": f"{threshold:.4g}".replace("-", "−"),
        "Trials": f"{of_set['bona_fide']} bona fide, {of_set['spoof']} spoof",
        "Scored": of_set["scored"],
        "Hardest attack": of_set["hardest"] and f"{of_set['hardest']}: {of_set['hardest_eer']} %",
    }
    return Verdict(
        "On {set}, {system} has an EER of {eer}\u00a0%{rank}.".format_map(of_set),
        facts={name: text for name, text in facts.items() if text},
        lead=of_set["warnings"],
        cannot=(
            "An EER is of these trials, and its threshold was chosen on them. Attacks, channels "
            "and languages that are not among them can bring far more errors."
        ),
    )


def picture_svg(panels: Sequence[Panel], key: Sequence[str] = ()) -> str:
    """Return panels of equal size below each other as the content of an SVG file.

    Its colours are those of the pages, light or dark as the reader's screen. Cells of maps are
    areas with the class 'up' or 'down', and 'l1' to 'l10' for their strength.

    Args:
        key: Lines of text below the panels.
    """
    return render("picture.html", panels=panels, key=key, style=_plain_style())


@functools.cache
def _plain_style() -> str:
    """Return the style of pictures with its colours in place: few programs know variables."""
    light = dark = _read("plots.css")
    for name, (light_colour, dark_colour) in page_colours().items():
        light = light.replace(f"var(--{name})", light_colour)
        dark = dark.replace(f"var(--{name})", dark_colour)
    return f"{light}@media (prefers-color-scheme: dark) {{\n{dark}}}"


def render(template: str, **values: Any) -> str:
    """Return a template of page/ filled with plain data; all text in it is escaped."""
    return _templates().get_template(template).render(values)


@functools.cache
def _templates() -> Environment:
    # Imported here, so that only commands that write a page wait for it.
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("asdf.report", "page"),
        autoescape=True,
        # A misspelled name in a template raises an error instead of leaving a gap on the page.
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # As a text file, a page ends with a line end, on standard output too.
        keep_trailing_newline=True,
    )


@dataclass(frozen=True)
class Items:
    """A list of short texts with a title and advice; only the first of many are shown.

    Attributes:
        more: Sentence on the texts that are left out; '' if all are shown.
    """

    title: str
    advice: str
    texts: Sequence[str]
    more: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        anchor: Name of the section in the page's address.
        code: Lines to copy, such as those of a config.
        is_beside: Whether its figures stand before its tables, and beside them on a wide screen.
    """

    anchor: str
    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    figures: Sequence[Figure] = ()
    lists: Sequence[Items] = ()
    code: str = ""
    notes: Sequence[str] = ()
    is_beside: bool = False


@dataclass(frozen=True)
class Document:
    """A page.

    Attributes:
        alarms: Sentences that readers must not miss.
        facts: Facts in small print below the verdict, such as versions and the command.
    """

    title: str
    verdict: Verdict
    sections: Sequence[Section]
    alarms: Sequence[str] = ()
    facts: Sequence[str] = ()
    alarm_title: str = "What to look at first"


def document_page(document: Document) -> str:
    """Return the page as HTML."""
    return _page(
        "document.html",
        document.title,
        document.verdict,
        document.sections,
        facts=document.facts,
        kind="text",
        alarms=document.alarms,
        alarm_title=document.alarm_title,
    )


def _page(
    template: str,
    title: str,
    verdict: Verdict,
    contents: Sequence[Any],
    *,
    command: str = "",
    data: str = "{}",
    kind: str = "",
    **values: Any,
) -> str:
    """Return a page with its style and its scripts, and the policy that allows these alone."""
    style = _read("style.css") + _read("plots.css")
    theme = _read("theme.js")
    # In one function, so that their names stay local.
    joined = "\n".join(_read(f"{name}.js") for name in _SCRIPTS)
    script = f"(() => {{\n'use strict';\n{joined}}})();\n"
    # blob: a plot is saved as a PNG through an image that the page itself makes.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(theme)} "
        f"{_hash(script)}; img-src blob:; base-uri 'none'"
    )
    values |= {"policy": policy, "style": style, "theme": theme, "script": script, "kind": kind}
    values |= {"title": title, "verdict": verdict, "contents": contents}
    text = render(template, command=command, data=data, **values)
    # Names of files and folders may contain bytes that are not text.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _read(name: str) -> str:
    return (files("asdf.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
