"""Results of spoofing-robust speaker verification as text, JSON, CSV and LaTeX.

Invariant: all of them draw on one table of metrics; JSON and CSV have all digits and rates as
fractions, text and LaTeX rates in per cent.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from asdf.metrics.sasv import SasvCondition, SasvResult, SasvSummary
from asdf.report.exports import bounds_record
from asdf.tables.latex import latex_text, tabulars
from asdf.text import aligned, csv_text


@dataclass(frozen=True)
class _Metric:
    """A metric's key in `SasvResult`, its name in text, and whether it is shown in per cent."""

    key: str
    heading: str
    percent: bool = False
    in_tables: bool = True

    def text(self, result: SasvResult, digits: int) -> str:
        """Return the value; '-' where it is not defined."""
        value = getattr(result, self.key)
        if value is None:
            return "-"
        return f"{100 * value if self.percent else value:.{digits}f}"


_METRICS = (
    _Metric("a_dcf", "min a-DCF"),
    _Metric("a_dcf_threshold", "a-DCF threshold", in_tables=False),
    _Metric("act_a_dcf", "act a-DCF"),
    _Metric("sasv_eer", "SASV-EER", percent=True),
    _Metric("sv_eer", "SV-EER", percent=True),
    _Metric("spf_eer", "SPF-EER", percent=True),
    _Metric("t_eer", "t-EER", percent=True),
    _Metric("t_eer_asv_threshold", "t-EER ASV threshold", in_tables=False),
    _Metric("t_eer_cm_threshold", "t-EER CM threshold", in_tables=False),
    _Metric("min_tdcf", "min t-DCF"),
    _Metric("asv_eer", "ASV EER", percent=True),
    _Metric("cm_eer", "CM EER", percent=True),
)
# A row of 80 characters holds six metrics.
_IN_A_ROW = 6
_DIGITS = {True: 3, False: 4}
_PAPER_DIGITS = {True: 2, False: 4}


def sasv_text(summary: SasvSummary) -> str:
    """Return everything of one system; it ends without a line break."""
    rows = {"trials": _count_text(summary.result)}
    for metric in _METRICS:
        value = metric.text(summary.result, _DIGITS[metric.percent])
        if value != "-":
            unit = " %" if metric.percent else ""
            rows[metric.heading] = f"{value}{unit}{_interval_text(metric, summary)}"
    width = max(map(len, rows))
    lines = [summary.name]
    for name, value in rows.items():
        lines.append(f"  {name:<{width}}  {value}")
    for column in _columns(summary):
        lines += ["", f"  by {column}:", *_condition_lines(summary, column)]
    return "\n".join(lines)


def sasv_systems_text(summaries: Sequence[SasvSummary]) -> str:
    """Return systems one below the other."""
    rows = [["", *_headings(summaries)]]
    for summary in summaries:
        rows.append([summary.name, *_cells(summary.result, summaries)])
    return "\n".join(_table(rows))


def sasv_json(summaries: Sequence[SasvSummary]) -> str:
    """Return a list with a record for each system."""
    return json.dumps(list(map(_record, summaries)), indent=2, ensure_ascii=False) + "\n"


def sasv_csv(summaries: Sequence[SasvSummary]) -> str:
    """Return a row for each system and each of its conditions."""
    text = io.StringIO()
    names = ["system", "column", "value", *asdict(SasvResult(0, 0, 0))]
    writer = csv.DictWriter(text, names, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        system = csv_text(summary.name)
        writer.writerow({"system": system, **asdict(summary.result)})
        for condition in summary.conditions:
            row = {"column": csv_text(condition.column), "value": csv_text(condition.value)}
            writer.writerow({"system": system, **row, **asdict(condition.result)})
    return text.getvalue()


def sasv_latex(summaries: Sequence[SasvSummary]) -> str:
    """Return tables of systems by metric and, for each column, of a-DCFs by condition."""
    names = ["System", *(latex_text(summary.name) for summary in summaries)]
    columns = []
    for metric in _shown(summaries):
        heading = f"{metric.heading} %" if metric.percent else metric.heading
        cells = [metric.text(s.result, _PAPER_DIGITS[metric.percent]) for s in summaries]
        columns.append([latex_text(heading), *(_latex_cell(cell) for cell in cells)])
    parts = [tabulars(names, columns, ["rates in per cent"])]
    columns_by_name: dict[str, None] = {}
    for summary in summaries:
        columns_by_name.update(dict.fromkeys(_columns(summary)))
    for column in columns_by_name:
        table = tabulars(names, _a_dcf_columns(summaries, column), [])
        parts.append(f"% min a-DCF by {column}\n{table}")
    return "% \\usepackage{booktabs}\n" + "\n".join(parts)


def _a_dcf_columns(summaries: Sequence[SasvSummary], column: str) -> list[list[str]]:
    values: dict[str, None] = {}
    for summary in summaries:
        values.update(dict.fromkeys(c.value for c in _of_column(summary, column)))
    columns = []
    for value in values:
        cells = [latex_text(value)]
        for summary in summaries:
            text = "-"
            for condition in _of_column(summary, column):
                if condition.value == value:
                    text = _METRICS[0].text(condition.result, 4)
            cells.append(_latex_cell(text))
        columns.append(cells)
    pooled = [_latex_cell(_METRICS[0].text(summary.result, 4)) for summary in summaries]
    return [*columns, ["pooled", *pooled]]


def _latex_cell(text: str) -> str:
    return "--" if text == "-" else text


def _record(summary: SasvSummary) -> dict[str, Any]:
    conditions = []
    for condition in summary.conditions:
        names = {"column": condition.column, "value": condition.value}
        conditions.append({**names, **asdict(condition.result)})
    intervals = {}
    for kind, drawn in (
        ("trials", summary.intervals),
        ("speakers", summary.speaker_intervals),
    ):
        bounds = {name: bounds_record(interval) for name, interval in drawn.items()}
        intervals[kind] = bounds or None
    return {
        "system": summary.name,
        **asdict(summary.result),
        "cost": asdict(summary.cost),
        "intervals_95": intervals,
        "conditions": conditions,
    }


def _count_text(result: SasvResult) -> str:
    total = result.target + result.nontarget + result.spoof
    return f"{total}: {result.target} target, {result.nontarget} nontarget, {result.spoof} spoof"


def _interval_text(metric: _Metric, summary: SasvSummary) -> str:
    unit = 100 if metric.percent else 1
    digits = _DIGITS[metric.percent]
    texts = []
    for kind, drawn in (
        ("trials", summary.intervals),
        ("claimed speakers", summary.speaker_intervals),
    ):
        interval = drawn.get(metric.key)
        if interval is not None:
            low = f"{unit * interval.low:.{digits}f}"
            high = f"{unit * interval.high:.{digits}f}"
            texts.append(f"{low} .. {high} over {interval.describe_groups(kind)}")
    return f"   95 %: {', '.join(texts)}" if texts else ""


def _columns(summary: SasvSummary) -> list[str]:
    return list(dict.fromkeys(condition.column for condition in summary.conditions))


def _of_column(summary: SasvSummary, column: str) -> list[SasvCondition]:
    return [condition for condition in summary.conditions if condition.column == column]


def _condition_lines(summary: SasvSummary, column: str) -> list[str]:
    rows = [[column, *_headings([summary]), "spoof"]]
    for condition in _of_column(summary, column):
        result = condition.result
        rows.append([condition.value, *_cells(result, [summary]), str(result.spoof)])
    pooled = summary.result
    rows.append(["pooled", *_cells(pooled, [summary]), str(pooled.spoof)])
    return _table(rows)


def _shown(summaries: Sequence[SasvSummary]) -> list[_Metric]:
    """Return the metrics of tables that any system has."""
    shown = []
    for metric in _METRICS:
        values = [getattr(summary.result, metric.key) for summary in summaries]
        if metric.in_tables and any(value is not None for value in values):
            shown.append(metric)
    return shown


def _headings(summaries: Sequence[SasvSummary]) -> list[str]:
    headings = []
    for metric in _shown(summaries)[:_IN_A_ROW]:
        headings.append(f"{metric.heading} %" if metric.percent else metric.heading)
    return headings


def _cells(result: SasvResult, summaries: Sequence[SasvSummary]) -> list[str]:
    shown = _shown(summaries)[:_IN_A_ROW]
    return [metric.text(result, _DIGITS[metric.percent]) for metric in shown]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    columns = len(rows[0])
    return aligned(rows, right=range(1, columns))
