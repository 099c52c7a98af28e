"""Results of spoofing-robust speaker verification as text, JSON, CSV and LaTeX.

Invariant: all formats use one table of metrics. JSON and CSV have all digits, with rates as
fractions; text and LaTeX have rates in per cent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from asdf.metrics.tandem import TandemPath
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.plain_text import as_csv, as_json, as_lines, bounds_records
from asdf.tables.table import Column, Columns, Table, counts, each, rate
from asdf.tasks.sasv.sasv_measures import SasvCondition, SasvResult, SasvSummary
from asdf.text import as_facts

# Number of metrics in a row of 80 characters.
_IN_A_ROW = 6


_A_DCF = Column("a_dcf", "min a-DCF")
_UNRANKED: dict[str, Any] = {"in_papers": False, "lower_is_better": None}
# Each is a field of `SasvResult`.
_METRICS = (
    _A_DCF,
    Column("a_dcf_threshold", "a-DCF threshold", **_UNRANKED),
    Column("act_a_dcf", "act a-DCF"),
    rate("sasv_eer", "SASV-EER", 3, states_unit=True),
    rate("sv_eer", "SV-EER", 3, states_unit=True),
    rate("spf_eer", "SPF-EER", 3, states_unit=True),
    rate("t_eer", "t-EER", 3, states_unit=True),
    Column("t_eer_asv_threshold", "t-EER ASV threshold", **_UNRANKED),
    Column("t_eer_cm_threshold", "t-EER CM threshold", **_UNRANKED),
    Column("min_tdcf", "min t-DCF"),
    rate("asv_eer", "ASV EER", 3, states_unit=True),
    rate("cm_eer", "CM EER", 3, states_unit=True),
)


def sasv_text(summary: SasvSummary) -> str:
    """Return all results of one system, without a final line break."""
    known = summary.result
    total = known.target + known.nontarget + known.spoof
    drawn_of = {"trials": summary.intervals, "claimed speakers": summary.speaker_intervals}
    kinds = f"{known.target} target, {known.nontarget} nontarget, {known.spoof} spoof"
    rows = {"trials": f"{total}: {kinds}"}
    for metric in _METRICS:
        number = getattr(known, metric.key)
        if number is not None:
            # The unit follows the value here, as in tables of detection.
            unit = " %" if metric.percent else ""
            over = [(kind, of[metric.key]) for kind, of in drawn_of.items() if metric.key in of]
            intervals = {interval.describe_groups(kind): interval for kind, interval in over}
            shown = f"{metric.format(number)}{unit}"
            rows[metric.name] = shown + metric.format_intervals(intervals)
    lines = as_facts(summary.name, rows)
    for column in _conditions_of(summary):
        conditions = _of_column(summary, column)
        results = [*each(conditions, "result"), known]
        columns = _columns(results, [summary])[:_IN_A_ROW]
        columns.append(counts("spoof", each(results, "spoof")))
        table = Table([*each(conditions, "value"), "pooled"], columns, column)
        lines += ["", f"  by {column}:", *as_lines(table)]
    return "\n".join(lines)


def sasv_systems_text(summaries: Sequence[SasvSummary]) -> str:
    """Return systems in rows."""
    columns = _columns(each(summaries, "result"), summaries)[:_IN_A_ROW]
    # They form one block of any width.
    return "\n".join(as_lines(Table(each(summaries, "name"), columns)))


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
    names = each(summaries, "name")
    columns = _columns(each(summaries, "result"), summaries)
    parts = [as_latex(Table(names, columns, "System", ["rates in per cent"]))]
    by = dict.fromkeys(column for summary in summaries for column in _conditions_of(summary))
    for column in by:
        by_value: dict[str, list[float | None]] = {}
        for index, summary in enumerate(summaries):
            for condition in _of_column(summary, column):
                known = by_value.setdefault(condition.value, [None] * len(summaries))
                known[index] = condition.result.a_dcf
        by_value["pooled"] = each(summaries, "result.a_dcf")
        of_values = by_value.items()
        columns = [replace(_A_DCF, name=value).with_values(known) for value, known in of_values]
        parts.append(f"% min a-DCF by {column}\n{as_latex(Table(names, columns, 'System'))}")
    return PACKAGES + "\n".join(parts)


def _conditions_of(summary: SasvSummary) -> list[str]:
    return list(dict.fromkeys(each(summary.conditions, "column")))


def _of_column(summary: SasvSummary, column: str) -> list[SasvCondition]:
    return [condition for condition in summary.conditions if condition.column == column]


def _columns(results: Sequence[SasvResult], summaries: Sequence[SasvSummary]) -> Columns:
    """Return the values of some results by the metrics of tables that any system has."""
    columns: Columns = []
    for metric in _METRICS:
        is_known = set(each(summaries, f"result.{metric.key}")) != {None}
        if metric.in_papers and is_known:
            columns.append(metric.with_values(each(results, metric.key)))
    return columns


def path_csv(curve: TandemPath) -> str:
    """Return the t-EER path: pairs of thresholds with equal tandem rates, and the rate."""
    keys = ("asv_threshold", "cm_threshold", "tandem_eer")
    # At an ASV threshold that rejects all impostors there is no pair.
    exists = np.isfinite(curve.gaps)
    rows = np.stack([curve.asv_thresholds, curve.cm_thresholds, curve.rates], axis=1)[exists]
    return as_csv(keys, [dict(zip(keys, row, strict=True)) for row in rows.tolist()])
