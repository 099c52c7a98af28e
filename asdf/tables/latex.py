"""Tables for papers: LaTeX with the package booktabs.

Invariant: numbers are rounded as the field publishes them, and no table is wider than a page of the
class article: columns that do not fit go into another `tabular` below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from asdf.tables.table import Column, Table, Value
from asdf.tables.text import group_columns, rows_of

PACKAGES = "% \\usepackage{booktabs}\n"
"""Begins a file of such tables."""

_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "…": r"\ldots{}",
}
# The text width of article in 10 points, the narrowest page that a table has to fit.
_WIDTH_PT = 340
_GAP_PT = 12.1
# How much wider a bold number is.
_BOLD_PT = 5.0
_NO_MARKUP = str.maketrans("", "", "\\{}")
# Each kind counts as its widest letter in Computer Modern: too wide is safe, too narrow is not.
_WIDE = "mwMW@%—…"
_NARROW = "ijlt.,;:'|!()[] -"


def as_latex(table: Table) -> str:
    """Return a table as `tabular`s, with the intervals over trials in brackets behind values."""
    columns = []
    for column, values in table.columns:
        if column.in_papers:
            columns.append([latex_text(column.heading), *(_cell(column, v) for v in values)])
    names = [table.row_heading, *map(latex_text, table.rows)]
    return tabulars(names, columns, table.notes)


def _cell(column: Column, value: Value) -> str:
    if value.text is not None:
        return value.text
    text = column.format(value.number, paper=True, absent="--")
    # The interval behind the value stays light, so that bold is the value alone.
    if value.is_best:
        text = f"\\textbf{{{text}}}"
    bounds = value.intervals.get("trials")
    if bounds is None or value.number is None:
        return text
    return f"{text} ({column.format_bounds(bounds, '--', paper=True)})"


def latex_text(text: str) -> str:
    """Return `text` with every character escaped that LaTeX would take for a command."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def tabulars(names: Sequence[str], columns: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """Return as many `tabular` as the columns need, the names in each, and the notes below."""
    widths = list(map(_column_width, columns))
    room = _WIDTH_PT - _column_width(names)
    parts = []
    for group in group_columns(widths, room):
        shown = [names]
        shown += [columns[index] for index in group]
        parts.append(_tabular(rows_of(shown)))
    note = "\\par\n".join(map(_footnote, notes))
    parts.append(f"{note}\\par\n")
    return "\n\\par\\medskip\n".join(parts)


def _footnote(text: str) -> str:
    return f"{{\\footnotesize {latex_text(text)}}}"


def _tabular(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    # \noindent: the indent of a paragraph would push a full table over the margin.
    alignment = "l" + "r" * (len(head) - 1)
    lines = [f"\\noindent\\begin{{tabular}}{{{alignment}}}", "\\toprule"]
    lines += [_latex_row(head), "\\midrule", *map(_latex_row, body)]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _column_width(column: Sequence[str]) -> float:
    """Return the width of a column at most, in points of a 10 point font, with its gap."""
    return max(map(_cell_width, column)) + _GAP_PT


def _cell_width(cell: str) -> float:
    width = sum(map(_character_width, _visible_text(cell)))
    if "\\textbf" in cell:
        width += _BOLD_PT
    return width


def _visible_text(cell: str) -> str:
    """Return the characters that are set, with a wide one for each command such as \\ldots{}."""
    without_bold = cell.replace("\\textbf", "")
    return re.sub(r"\\[a-z]+\{\}", "m", without_bold).translate(_NO_MARKUP)


def _character_width(character: str) -> float:
    if character in _WIDE:
        return 10.4
    if character in _NARROW:
        return 4.0
    if character.isdigit():
        return 5.1
    if character.isupper():
        return 8.0
    return 5.8
