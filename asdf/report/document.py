"""A page of its own about something other than runs: sections of sentences, tables and plots.

Invariant: as the report: one file that fetches nothing, is readable without its script, and has the
same bytes for the same content. The look, the tables and the plots are those of the report.
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
    """A list of short texts with a title and advice; of many the first are shown.

    Attributes:
        more: Sentence on those that are left out; '' where all are shown.
    """

    title: str
    advice: str
    texts: Sequence[str]
    more: str = ""


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Attributes:
        anchor: Name in the page's address.
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
        alarms: Sentences that a reader must not miss.
        facts: Small print below the title, such as versions and the command.
        styles: Files of page/ with the looks of parts that the report does not have.
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
    # A file's name may hold bytes that are no text.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")
