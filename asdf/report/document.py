"""A page about a subject other than runs: sections of sentences, tables and plots.

Invariant: as for the report, the page is one file that loads nothing, is readable without its
script, and has the same bytes for the same content. It shares the report's style, tables and plots.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from asdf.report.drawing import Figure
from asdf.report.html_page import read_page_text, render, script_of, security_policy
from asdf.tables.page_cells import PageTable

_SCRIPTS = ("dom", "download", "figures", "tables", "theme", "document")


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
    style = "".join(map(read_page_text, ("style.css", *document.styles)))
    script = script_of(_SCRIPTS)
    page = render(
        "document.html",
        policy=security_policy(style, script),
        document=document,
        style=style,
        script=script,
    )
    # The name of a file may contain bytes that are not text.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")
