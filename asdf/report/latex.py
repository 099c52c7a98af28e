"""Tables of results for papers: LaTeX with the package booktabs.

Invariant: numbers are rounded as the field publishes them, and no table is wider than a page of the
class article: columns that do not fit go into another `tabular` below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from asdf.metrics.bootstrap import Interval
from asdf.metrics.catalogue import Metric, defined
from asdf.metrics.summary import Summary
from asdf.report.names import labels_of
from asdf.report.tables import LEADS, value_heading

_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "…": r"\ldots{}",
}
_LABEL = 24
# Of article in 10 points, the narrowest that a table over the whole page has to fit.
_WIDTH_PT = 340
_GAP_PT = 12.1
_NO_MARKUP = str.maketrans("", "", "\\{}")
_WIDE, _NARROW = "mwMW@%—…", "ijlt.,;:'|!()[] -"


def to_latex(summaries: Sequence[Summary], leading: Mapping[str, int] | None = None) -> str:
    """A table of systems by metric and, for each column, one of their EERs by condition.

    A metric's value is bold where a system is significantly the best by it (`leading`, see
    `leading.leaders`).
    """
    leading = leading or {}
    names = ["System", *map(latex_text, labels_of([one.name for one in summaries], _LABEL))]
    metrics = [metric for metric in defined(summaries) if metric.ranked]
    columns = []
    for metric in metrics:
        best = leading.get(metric.key)
        cells = [_cell(metric, one, index == best) for index, one in enumerate(summaries)]
        columns.append([latex_text(metric.heading), *cells])
    lengths = [summary.scored.describe() for summary in summaries]
    if len(set(lengths)) > 1:
        columns.append(["Scored", *lengths])
    scored = f"scored: {'; '.join(dict.fromkeys(lengths))}"
    notes = [scored]
    if any(summary.intervals for summary in summaries):
        notes.append("in brackets: 95 % intervals over trials")
    if leading:
        notes.append(f"bold: {LEADS}")
    parts = [_tabulars(names, columns, notes)]
    for column in dict.fromkeys(column for summary in summaries for column in summary.columns):
        table = _tabulars(names, _eer_columns(summaries, column), [scored])
        parts.append(f"% EER in per cent by {column}\n{table}")
    return "% \\usepackage{booktabs}\n" + "\n".join(parts)


def _eer_columns(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    eers = [{one.value: one.result.eer for one in s.of_column(column)} for s in summaries]
    values = sorted({value for known in eers for value in known})
    columns = []
    for value, heading in zip(values, labels_of(values, _LABEL), strict=True):
        rates = [_percent(known.get(value)) for known in eers]
        columns.append([latex_text(value_heading(heading)), *rates])
    pooled = [s.result.eer if known else None for s, known in zip(summaries, eers, strict=True)]
    return [*columns, ["pooled", *map(_percent, pooled)]]


def _percent(rate: float | None) -> str:
    return "--" if rate is None else f"{100 * rate:.2f}"


def _cell(metric: Metric, summary: Summary, best: bool) -> str:
    text = metric.text(summary, paper=True)
    if text == "-":
        return "--"
    text = f"\\textbf{{{text}}}" if best else text
    interval = getattr(summary.intervals, metric.key, None)
    return f"{text} {_bounds(interval, metric)}" if interval else text


def _bounds(interval: Interval, metric: Metric) -> str:
    unit = 100 if metric.percent else 1
    low, high = (f"{unit * end:.{metric.paper_digits}f}" for end in (interval.low, interval.high))
    return f"({low}--{high})"


def latex_text(text: str) -> str:
    """`text` with what LaTeX would take for commands escaped."""
    return "".join(_ESCAPED.get(character, character) for character in text)


def _tabulars(names: Sequence[str], columns: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    """As many `tabular` as the columns need, each beginning with the names, and the notes below the last."""
    groups: list[list[Sequence[str]]] = []
    room = 0.0
    for column in columns:
        if not groups or _width(column) > room:
            groups.append([names])
            room = _WIDTH_PT - _width(names)
        groups[-1].append(column)
        room -= _width(column)
    tables = [_tabular(list(zip(*group, strict=True))) for group in groups]
    note = "\\par\n".join(f"{{\\footnotesize {note}}}" for note in map(latex_text, notes))
    return "\n\\par\\medskip\n".join([*tables, f"{note}\\par\n"])


def _tabular(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [
        f"\\noindent\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}",
        "\\toprule",
        " & ".join(head) + r" \\",
        "\\midrule",
    ]
    lines += [" & ".join(row) + r" \\" for row in body]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"])


def _width(column: Sequence[str]) -> float:
    """At most how wide a column is, in points of a font of 10 points, with the gap between columns."""
    return max(map(_cell_width, column)) + _GAP_PT


def _cell_width(cell: str) -> float:
    bold = 5.0 if "\\textbf" in cell else 0.0
    return bold + sum(map(_character_width, _plain(cell)))


def _plain(cell: str) -> str:
    return re.sub(r"\\[a-z]+\{\}", "m", cell.replace("\\textbf", "")).translate(_NO_MARKUP)


def _character_width(character: str) -> float:
    if character in _WIDE:
        return 10.4
    if character in _NARROW:
        return 4.0
    if character.isdigit():
        return 5.1
    return 8.0 if character.isupper() else 5.8
