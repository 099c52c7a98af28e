"""`python -m asdf.settings.page`: update docs/settings.md."""

from __future__ import annotations

from pathlib import Path

from asdf.runs.files import write_text
from asdf.settings.explaining import markdown_tables

PAGE = Path(__file__).resolve().parents[2] / "docs" / "settings.md"

_START = """# All settings

A config sets any of them (`network.max_epochs = 20`), and so does the command line
(`network.max_epochs=20`), which is read last. `python run.py CONFIG --explain` shows each value and
the line that set it.

This page is made from the code by `python -m asdf.settings.page`.
"""


def settings_page() -> str:
    """Return the text of docs/settings.md, with a table for each section."""
    return f"{_START}\n{markdown_tables()}"


if __name__ == "__main__":
    write_text(PAGE, settings_page())
