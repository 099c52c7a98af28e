"""Rows as an aligned table on the screen, and in Markdown."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from asdf.text import aligned
from benchmarks.rows import Row

HEADINGS = ("what", "unit", "ASDF", "peer", "against", "target", "ratio", "quartiles", "")
_RIGHT = {2, 3, 5, 6, 7}


def cells(row: Row) -> tuple[str, ...]:
    """Return the texts of a row, one per column of `HEADINGS`."""
    met = {True: "met", False: "MISSED", None: ""}[row.met]
    spread = (
        "" if row.low is None or row.high is None else f"{number(row.low)} .. {number(row.high)}"
    )
    target = "" if row.target is None else f">= {row.target:g}"
    if row.asdf is None:
        met = row.note
    return (
        row.what,
        row.unit,
        number(row.asdf),
        number(row.peer),
        row.against,
        target,
        number(row.ratio),
        spread,
        met,
    )


def number(value: float | None) -> str:
    """Return a number with three digits, or a placeholder for None."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:#.3g}".rstrip(".")


def for_screen(rows: Sequence[Row]) -> str:
    """Return the table for a terminal, with the notes below it."""
    text = aligned([HEADINGS, *map(cells, rows)], _RIGHT)
    return "\n".join([*text, *(f"  {row.what}: {row.note}" for row in _noted(rows))])


def markdown(rows: Sequence[Row]) -> str:
    """Return the table for a README, with the notes below it."""
    table = markdown_table(HEADINGS, map(cells, rows), _RIGHT)
    notes = "\n".join(f"- {row.what}: {row.note}" for row in _noted(rows))
    return f"{table}\n\n{notes}".rstrip()


def markdown_table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], right: Collection[int]
) -> str:
    """Return a table in Markdown; the columns `right` contain numbers."""
    rule = "|".join("---:" if column in right else "---" for column in range(len(heads)))
    lines = ["| " + " | ".join(line) + " |" for line in [heads, *rows]]
    return "\n".join([lines[0], f"|{rule}|", *lines[1:]])


def _noted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that were measured and have notes."""
    return [row for row in rows if row.note and row.asdf is not None]
