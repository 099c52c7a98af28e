"""Tables for papers: LaTeX with the package booktabs.

Invariant: numbers are rounded as the field publishes them, and no table is wider than a page of the
class article: columns that do not fit go into another `tabular` below.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from asdf.tables.plain_text import group_columns, rows_of
from asdf.tables.table import Column, Table, Value

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
# Text width of the class article at 10 points, the narrowest page that a table must fit.
_WIDTH_PT = 340
_GAP_PT = 12.1
# Extra width of a bold number.
_BOLD_PT = 5.0
_NO_MARKUP = str.maketrans("", "", "\\{}")
# Each kind counts as its widest letter in Computer Modern, which overestimates the width.
_WIDE = "mwMW@%—…"
_NARROW = "ijlt.,;:'|!()[] -"


def as_latex(table: Table) -> str:
    """Return a table as one or more `tabular`, with an interval of each value in brackets."""
    columns = []
    for column, values in table.columns:
        if column.in_papers:
            heading = latex_text(column.heading) + column.paper_mark
            columns.append([heading, *(_cell(column, v) for v in values)])
    names = [table.row_heading, *map(latex_text, table.labels or table.rows)]
    widths = list(map(_column_width, columns))
    room = _WIDTH_PT - _column_width(names)
    parts = []
    for group in group_columns(widths, room):
        shown = [names]
        shown += [columns[index] for index in group]
        head, *body = rows_of(shown)
        alignment = "l" + "r" * (len(head) - 1)
        # \noindent: a paragraph's indent would push a full table over the margin.
        lines = [f"\\noindent\\begin{{tabular}}{{{alignment}}}", "\\toprule"]
        lines += [_latex_row(head), "\\midrule", *map(_latex_row, body)]
        parts.append("\n".join([*lines, "\\bottomrule", "\\end{tabular}"]))
    note = "\\par\n".join(f"{{\\footnotesize {latex_text(text)}}}" for text in table.notes)
    parts.append(f"{note}\\par\n")
    return "\n\\par\\medskip\n".join(parts)


def _cell(column: Column, value: Value) -> str:
    if value.text is not None:
        return latex_text(value.text)
    text = column.format(value.number, paper=True, absent="--")
    # Only the value is bold, not its interval or mark.
    if value.is_best:
        text = f"\\textbf{{{text}}}"
    over = bracketed(value)
    if value.deviation is not None:
        text += f" $\\pm$ {column.format(value.deviation, paper=True)}"
    elif over and value.number is not None:
        text += f" ({column.format_bounds(value.intervals[over], '--', paper=True)})"
    return text + value.paper_remark


def bracketed(value: Value) -> str:
    """Return what the interval in brackets is over: speakers, if they are known; '' if none is."""
    return next((over for over in ("speakers", "trials") if over in value.intervals), "")


def latex_text(text: str) -> str:
    """Return `text` with the special characters of LaTeX escaped."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _column_width(column: Sequence[str]) -> float:
    """Return the maximum width of a column, in points at a 10-point font, with its gap."""
    widths = []
    for cell in column:
        # Count each command such as \ldots{} as one wide character.
        visible = re.sub(r"\\[a-z]+\{\}", "m", cell.replace("\\textbf", ""))
        width = sum(map(_character_width, visible.translate(_NO_MARKUP)))
        widths.append(width + _BOLD_PT if "\\textbf" in cell else width)
    return max(widths) + _GAP_PT


def _character_width(character: str) -> float:
    if character in _WIDE:
        return 10.4
    if character in _NARROW:
        return 4.0
    if character.isdigit():
        return 5.1
    return 8.0 if character.isupper() else 5.8
