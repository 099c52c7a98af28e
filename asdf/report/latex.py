"""Tables of results for papers: LaTeX with the package booktabs.

Invariant: numbers are rounded as the field publishes them, and no table is wider than a page of the
class article: columns that do not fit go into another `tabular` below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from asdf.metrics.bootstrap import Interval
from asdf.metrics.catalogue import Metric, defined, intervals_of
from asdf.metrics.summary import Summary
from asdf.report.by_condition import columns_of, condition_table
from asdf.report.names import labels_of
from asdf.report.tables import LEADS, group_columns, rows_of, value_heading

_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "…": r"\ldots{}",
}
_LABEL = 24
# The text width of article in 10 points, the narrowest page that a table has to fit.
_WIDTH_PT = 340
_GAP_PT = 12.1
# How much wider a bold number is.
_BOLD_PT = 5.0
_NO_MARKUP = str.maketrans("", "", "\\{}")
# Each kind counts as its widest letter in Computer Modern: too wide is safe, too narrow is not.
_WIDE = "mwMW@%—…"
_NARROW = "ijlt.,;:'|!()[] -"


def to_latex(summaries: Sequence[Summary], leading: Mapping[str, int] | None = None) -> str:
    """Return a table of systems by metric and, for each column, one of their EERs by condition.

    Args:
        leading: metric -> index of the system that is significantly the best by it (see
            `leading.leaders`), whose value is bold.
    """
    leading = leading or {}
    labels = labels_of([summary.name for summary in summaries], _LABEL)
    names = ["System", *map(latex_text, labels)]
    columns = _metric_columns(summaries, leading)
    lengths = [summary.scored.describe() for summary in summaries]
    if len(set(lengths)) > 1:
        columns.append(["Scored", *lengths])
    scored = f"scored: {'; '.join(dict.fromkeys(lengths))}"
    notes = [scored]
    if any(map(_has_intervals, summaries)):
        notes.append("in brackets: 95 % intervals over trials")
    if leading:
        notes.append(f"bold: {LEADS}")
    parts = [tabulars(names, columns, notes)]
    for column in columns_of(summaries):
        if not all(summary.is_hard for summary in summaries):
            table = tabulars(names, _eer_columns(summaries, column), [scored])
            parts.append(f"% EER in per cent by {column}\n{table}")
        if any(summary.decisions for summary in summaries):
            table = tabulars(names, _macro_f1_columns(summaries, column), [scored])
            parts.append(f"% macro-F1 in per cent by {column}\n{table}")
    return "% \\usepackage{booktabs}\n" + "\n".join(parts)


def _metric_columns(summaries: Sequence[Summary], leading: Mapping[str, int]) -> list[list[str]]:
    columns = []
    for metric in defined(summaries):
        if not metric.ranked:
            continue
        best = leading.get(metric.key)
        column = [latex_text(metric.heading)]
        for index, summary in enumerate(summaries):
            column.append(_metric_cell(metric, summary, is_best=index == best))
        columns.append(column)
    return columns


def _eer_columns(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    """Return a column for each value, and one of the pooled EERs; a row for each system."""
    conditions = condition_table(summaries, column)
    labels = labels_of(conditions.values, _LABEL)
    columns = []
    for value, label in zip(conditions.values, labels, strict=True):
        heading = latex_text(value_heading(label))
        eers = conditions.eers(value)
        columns.append([heading, *map(_percent, eers)])
    pooled = ["pooled"]
    for summary in summaries:
        # Next to nothing else in its row, the pooled EER would look like that of the conditions.
        eer = summary.result.eer if column in summary.columns else None
        pooled.append(_percent(eer))
    columns.append(pooled)
    return columns


def _macro_f1_columns(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    """Return a column for each value, and those of mean and pooled macro-F1s."""
    values = condition_table(summaries, column).values
    columns = []
    for value, label in zip(values, labels_of(values, _LABEL), strict=True):
        cells = [latex_text(value_heading(label))]
        for summary in summaries:
            cells.append(_percent(_macro_f1(summary, column, value)))
        columns.append(cells)
    means = ["mean"]
    pooled = ["pooled"]
    for summary in summaries:
        means.append(_percent(summary.average_decisions(column).get("macro_f1")))
        decisions = summary.decisions
        pooled.append(_percent(decisions.value("macro_f1") if decisions else None))
    return [*columns, means, pooled]


def _macro_f1(summary: Summary, column: str, value: str) -> float | None:
    for condition in summary.of_column(column):
        if condition.value == value and condition.decisions is not None:
            return condition.decisions.values()["macro_f1"]
    return None


def _has_intervals(summary: Summary) -> bool:
    decisions = summary.decisions
    return summary.intervals is not None or bool(decisions and decisions.intervals)


def _percent(rate: float | None) -> str:
    return "--" if rate is None else f"{100 * rate:.2f}"


def _metric_cell(metric: Metric, summary: Summary, *, is_best: bool) -> str:
    text = metric.text(summary, paper=True)
    if text == "-":
        return "--"
    # The interval behind the value stays light, so that bold is the value alone.
    if is_best:
        text = f"\\textbf{{{text}}}"
    interval = intervals_of(metric, summary).trials
    if interval is None:
        return text
    return f"{text} {_bounds(interval, metric)}"


def _bounds(interval: Interval, metric: Metric) -> str:
    unit = 100 if metric.percent else 1
    low = f"{unit * interval.low:.{metric.paper_digits}f}"
    high = f"{unit * interval.high:.{metric.paper_digits}f}"
    return f"({low}--{high})"


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
