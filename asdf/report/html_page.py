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
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from asdf.metrics.detection import ASVSPOOF5
from asdf.report import result_tables, run_records
from asdf.report.drawing import Figure, as_json, det_figure, histogram_figure, page_data
from asdf.report.effect_pictures import effect_section
from asdf.report.gathering import Gathered, fold_findings
from asdf.report.llr_pictures import llr_section
from asdf.report.result_tables import heat_maps
from asdf.report.task_results import localisation_tables, source_sections
from asdf.tables.page_cells import PageTable
from asdf.tables.panels import Panel
from asdf.tables.table import labels_of
from asdf.tasks.studies.generalisation import generalisation_table
from asdf.tasks.studies.left_out import left_out_tables
from asdf.tasks.studies.seed_results import seed_results_table, seed_sentences, seeds_table
from asdf.text import and_more

if TYPE_CHECKING:
    from jinja2 import Environment


_LABEL = 28
# Ordered by dependency.
_PAGE_SCRIPTS = ("dom", "download", "figures", "tables", "settings", "theme", "start")
_SCRIPTS = ("dom", "download", "figures", "tables", "theme", "document")


def report_page(gathered: Gathered, title: str = "", command: str = "") -> str:
    """Return the report as HTML.

    Args:
        title: Title of the page; '' names the runs.
        command: Command that made the page, which is shown on it.
    """
    left_out = left_out_tables(gathered.left_out)
    sources = source_sections(gathered.tasks.traced)
    located = localisation_tables(gathered.tasks.located)
    sections = []
    for index, name in enumerate(gathered.sets):
        content: dict[str, Any] = {
            # Not by its name, which may hold any characters.
            "anchor": f"set-{index}",
            "name": name,
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
        sections.append(content)
    links = {"results": "Results", **({"left-out": "Left out"} if left_out else {})}
    links |= {section["anchor"]: section["name"] for section in sections}
    parts = {"Source tracing": sources, "Localisation": located}
    names = [name for name, part in parts.items() if part]
    for name in (*names, "Training", "Settings", "Environment"):
        links[name.lower().replace(" ", "-")] = name
    known = gathered.generalisation
    return _page(
        "page.html",
        # Pages without sources keep their bytes.
        ("style.css", "matrix.css") if sources else ("style.css",),
        _PAGE_SCRIPTS,
        title=title or f"Results of {and_more(labels_of(gathered.names, _LABEL), 3)}",
        when=run_records.when_and_how(gathered.runs),
        counts=run_records.counts_of(gathered),
        command=command,
        sentences=[result_tables.main_sentence(gathered, name) for name in gathered.sets],
        findings=fold_findings(gathered.findings),
        contents=[{"anchor": anchor, "name": name} for anchor, name in links.items()],
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
        sections=sections,
        training=run_records.training_section(gathered),
        differences=run_records.setting_differences(gathered),
        settings=run_records.settings_of_runs(gathered),
        environments=run_records.run_environments(gathered),
        data=as_json(page_data(gathered)),
    )


def picture_svg(panel: Panel, key: Sequence[str] = ()) -> str:
    """Return a panel as the content of an SVG file.

    Args:
        key: Texts below the panel, at its left and right end.
    """
    return render("picture.html", panel=panel, key=key)


def heat_maps_svg(panels: Sequence[Panel], key: Sequence[str]) -> str:
    """Return maps over time and frequency bands, equally sized and stacked, as an SVG file.

    Cells are areas with the class 'up' or 'down', and 'l1' to 'l10' for their strength.

    Args:
        key: Lines of text below them.
    """
    height = sum(panel.height for panel in panels) + 18 * len(key) + 8
    width = panels[0].width
    return render("heat_maps.html", panels=panels, key=key, width=width, height=height)


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
    """

    anchor: str
    title: str
    sentences: Sequence[str] = ()
    tables: Sequence[PageTable] = ()
    figures: Sequence[Figure] = ()
    lists: Sequence[Items] = ()
    code: str = ""
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Document:
    """A page.

    Attributes:
        lead: Sentences at the top.
        alarms: Sentences that readers must not miss.
        facts: Facts in small print below the title, such as versions and the command.
        styles: Files in page/ with the styles of elements that the report does not have.
    """

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    alarms: Sequence[str] = ()
    facts: Sequence[str] = ()
    alarm_title: str = field(default="What to look at first")
    styles: Sequence[str] = ()


def document_page(document: Document) -> str:
    """Return the page as HTML."""
    styles = ("style.css", *document.styles)
    return _page("document.html", styles, _SCRIPTS, document=document)


def _page(template: str, styles: Sequence[str], scripts: Sequence[str], **values: Any) -> str:
    """Return a page with its styles and its scripts, and the policy that allows these alone."""
    style = "".join(map(_read, styles))
    # In one function, so that their names stay local.
    joined = "\n".join(_read(f"{name}.js") for name in scripts)
    script = f"(() => {{\n'use strict';\n{joined}}})();\n"
    # blob: a plot is saved as a PNG through an image that the page itself makes.
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
        "img-src blob:; base-uri 'none'"
    )
    text = render(template, policy=policy, style=style, script=script, **values)
    # Names of files and folders may contain bytes that are not text.
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _read(name: str) -> str:
    return (files("asdf.report") / "page" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
