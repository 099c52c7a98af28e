"""`python -m asdf.settings.page`: update the tables of docs/settings.md and docs/networks.md."""

from __future__ import annotations

from pathlib import Path

from asdf.runs.files import write_text
from asdf.settings.explaining import markdown_tables

DOCS = Path(__file__).resolve().parents[2] / "docs"

_SETTINGS = """# All settings

A config sets any of them (`network.max_epochs = 20`), and so does the command line
(`network.max_epochs=20`), which is read last. `python run.py CONFIG --explain` shows each value and
the line that set it. The sizes of back ends, and the settings of some front ends, are in
[networks](networks.md#sizes).

This page is made from the code by `python -m asdf.settings.page`.
"""

_NETWORKS = """## Sizes

These tables are made from the code by `python -m asdf.settings.page`.
"""


def pages() -> dict[Path, str]:
    """Return the texts of the pages that have tables of settings, by their paths."""
    networks = DOCS / "networks.md"
    written, _, _ = networks.read_text(encoding="utf-8").partition("## Sizes\n")
    return {
        DOCS / "settings.md": f"{_SETTINGS}\n{markdown_tables()}",
        networks: f"{written}{_NETWORKS}\n{markdown_tables(of_networks=True)}",
    }


if __name__ == "__main__":
    for path, text in pages().items():
        write_text(path, text)
