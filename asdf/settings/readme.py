"""`python -m asdf.settings.readme`: bring the README's table of settings up to date."""

from __future__ import annotations

from pathlib import Path

from asdf.runs.files import write_text
from asdf.settings.listing import markdown_table

BEGIN = "<!-- settings: made by python -m asdf.settings.readme -->"
END = "<!-- end of settings -->"


def with_table(text: str) -> str:
    """`text` with the current table between the two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{markdown_table().strip()}\n\n{END}{after}"


if __name__ == "__main__":
    readme = Path(__file__).resolve().parents[2] / "README.md"
    write_text(readme, with_table(readme.read_text(encoding="utf-8")))
