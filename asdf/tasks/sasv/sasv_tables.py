"""Results of spoofing-robust speaker verification as text, JSON, CSV and LaTeX.

Invariant: all formats use one table of metrics. JSON and CSV have all digits, with rates as
fractions; text and LaTeX have rates in per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.plain_text import as_csv, as_json, as_lines, bounds_records
from asdf.tables.table import Column, Columns, Table, counts
from asdf.tasks.sasv.sasv_measures import SasvCondition, SasvResult, SasvSummary
from asdf.text import as_facts

# Number of metrics in a row of 80 characters.
_IN_A_ROW = 6


@dataclass(frozen=True, kw_only=True)
class _Metric(Column):
    """A metric of `SasvResult`, in the field named by its key."""

    def of(self, result: SasvResult) -> float | None:
        """Return the value; None if it is not defined."""
        value: float | None = getattr(result, self.key)
        return value


def _rate(key: str, name: str) -> _Metric:
    return _Metric(key=key, name=name, percent=True, digits=3, paper_digits=2)


def _threshold(key: str, name: str) -> _Metric:
    return _Metric(key=key, name=name, in_papers=False, lower_is_better=None)


_A_DCF = _Metric(key="a_dcf", name="min a-DCF")
_METRICS = (
    _A_DCF,
    _threshold("a_dcf_threshold", "a-DCF threshold"),
    _Metric(key="act_a_dcf", name="act a-DCF"),
    _rate("sasv_eer", "SASV-EER"),
    _rate("sv_eer", "SV-EER"),
    _rate("spf_eer", "SPF-EER"),
    _rate("t_eer", "t-EER"),
    _threshold("t_eer_asv_threshold", "t-EER ASV threshold"),
    _threshold("t_eer_cm_threshold", "t-EER CM threshold"),
    _Metric(key="min_tdcf", name="min t-DCF"),
    _rate("asv_eer", "ASV EER"),
    _rate("cm_eer", "CM EER"),
)


def sasv_text(summary: SasvSummary) -> str:
    """Return all results of one system, without a final line break."""
    known = summary.result
    total = known.target + known.nontarget + known.spoof
    drawn_of = {"trials": summary.intervals, "claimed speakers": summary.speaker_intervals}
    kinds = f"{known.target} target, {known.nontarget} nontarget, {known.spoof} spoof"
    rows = {"trials": f"{total}: {kinds}"}
    for metric in _METRICS:
        number = metric.of(summary.result)
        if number is not None:
            # The unit follows the value here, as in tables of detection.
            unit = " %" if metric.percent else ""
            intervals = {}
            for kind, drawn in drawn_of.items():
                if metric.key in drawn:
                    interval = drawn[metric.key]
                    intervals[interval.describe_groups(kind)] = interval
            shown = f"{metric.format(number)}{unit}"
            rows[metric.name] = shown + metric.format_intervals(intervals)
    lines = as_facts(summary.name, rows)
    for column in _conditions_of(summary):
        lines += ["", f"  by {column}:", *_condition_lines(summary, column)]
    return "\n".join(lines)


def sasv_systems_text(summaries: Sequence[SasvSummary]) -> str:
    """Return systems in rows."""
    columns = _columns([summary.result for summary in summaries], summaries)[:_IN_A_ROW]
    # They form one block of any width.
    return "\n".join(as_lines(Table([summary.name for summary in summaries], columns)))


def sasv_json(summaries: Sequence[SasvSummary]) -> str:
    """Return a list with a record for each system."""
    return as_json(
        [
            {
                "system": summary.name,
                **asdict(summary.result),
                "cost": asdict(summary.cost),
                "intervals_95": {
                    "trials": bounds_records(summary.intervals),
                    "speakers": bounds_records(summary.speaker_intervals),
                },
                "conditions": list(map(_condition_record, summary.conditions)),
            }
            for summary in summaries
        ]
    )


def sasv_csv(summaries: Sequence[SasvSummary]) -> str:
    """Return a row for each system and each of its conditions."""
    rows = []
    for summary in summaries:
        known = [asdict(summary.result), *map(_condition_record, summary.conditions)]
        rows += [{"system": summary.name, **record} for record in known]
    # All metrics have a column, including those that no system of this table has.
    return as_csv(["system", "column", "value", *asdict(SasvResult(0, 0, 0))], rows)


def _condition_record(condition: SasvCondition) -> dict[str, Any]:
    return {"column": condition.column, "value": condition.value, **asdict(condition.result)}


def sasv_latex(summaries: Sequence[SasvSummary]) -> str:
    """Return tables of systems by metric and, for each column, of a-DCFs by condition."""
    names = [summary.name for summary in summaries]
    columns = _columns([summary.result for summary in summaries], summaries)
    parts = [as_latex(Table(names, columns, "System", ["rates in per cent"]))]
    by = dict.fromkeys(column for summary in summaries for column in _conditions_of(summary))
    for column in by:
        by_value: dict[str, list[float | None]] = {}
        for index, summary in enumerate(summaries):
            for condition in _of_column(summary, column):
                known = by_value.setdefault(condition.value, [None] * len(summaries))
                known[index] = condition.result.a_dcf
        by_value["pooled"] = [summary.result.a_dcf for summary in summaries]
        named = [(replace(_A_DCF, name=value), numbers) for value, numbers in by_value.items()]
        columns = [column.with_values(numbers) for column, numbers in named]
        parts.append(f"% min a-DCF by {column}\n{as_latex(Table(names, columns, 'System'))}")
    return PACKAGES + "\n".join(parts)


def _conditions_of(summary: SasvSummary) -> list[str]:
    return list(dict.fromkeys(condition.column for condition in summary.conditions))


def _of_column(summary: SasvSummary, column: str) -> list[SasvCondition]:
    return [condition for condition in summary.conditions if condition.column == column]


def _condition_lines(summary: SasvSummary, column: str) -> list[str]:
    conditions = _of_column(summary, column)
    results = [*(condition.result for condition in conditions), summary.result]
    columns = _columns(results, [summary])[:_IN_A_ROW]
    columns.append(counts("spoof", [result.spoof for result in results]))
    names = [*(condition.value for condition in conditions), "pooled"]
    return as_lines(Table(names, columns, column))


def _columns(results: Sequence[SasvResult], summaries: Sequence[SasvSummary]) -> Columns:
    """Return the values of some results by the metrics of tables that any system has."""
    columns: Columns = []
    for metric in _METRICS:
        is_known = any(metric.of(summary.result) is not None for summary in summaries)
        if metric.in_papers and is_known:
            columns.append(metric.with_values(map(metric.of, results)))
    return columns
