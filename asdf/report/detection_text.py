"""Summaries as aligned text: all results of one system, or systems in rows.

Invariant: numbers are rounded as in the catalogue of metrics, and each is shown with the trials
that it is computed from.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from asdf.metrics.metric_columns import METRICS, intervals_of, metric_columns
from asdf.metrics.summary import Summary
from asdf.report.by_condition import columns_of, eer_columns, value_heading
from asdf.tables.labels import labels_of
from asdf.tables.plain_text import BEST, as_lines, as_text
from asdf.tables.table import Columns, Table, each, rate, texts
from asdf.text import as_facts

LEADS = "significantly better than the next one (paired bootstrap, p < 0.05)"
_LABEL = 24
_UNITS = {"cllr": "bits", "min_cllr": "bits"}
_AGAINST = {
    "all": "spoofs of each value against all bona fide trials",
    "same": "trials of each value among themselves",
}
# Columns that fit into a row of 80 characters.
_DECISION_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "macro_f1": "macro-F1",
    "f1_bona_fide": "F1 bona fide",
    "f1_spoof": "F1 spoof",
}


def summary_text(summary: Summary) -> str:
    """Return all results of one system on one set, without a final line break."""
    rows = _metric_rows(summary)
    # The set may have no name.
    lines = as_facts(f"{summary.name} on {summary.set}" if summary.set else summary.name, rows)
    for column in summary.columns:
        against = _AGAINST[summary.of_column(column)[0].bona_fide]
        lines += ["", f"  by {column}: {against}"]
        # Not indented, so that the table fits into 80 characters.
        if not summary.is_hard:
            lines += _condition_lines(summary, column)
        if summary.decisions:
            lines += ["", *_decision_lines(summary, column)]
    return "\n".join(lines)


def _metric_rows(summary: Summary) -> dict[str, str]:
    """Return the results on pooled trials, by the names of their rows."""
    result = summary.result
    trials = result.bona_fide + result.spoof
    rows = {
        "trials": f"{trials}: {result.bona_fide} bona fide, {result.spoof} spoof",
        "scored": summary.scored.describe(),
    }
    for metric in METRICS:
        number = metric.of(summary)
        if number is None:
            continue
        unit = "%" if metric.percent else _UNITS.get(metric.key, "")
        # The unit follows the value here, not the name.
        value = f"{metric.format(number)} {unit}".rstrip()
        intervals = {}
        for kind, interval in intervals_of(metric, summary).items():
            over = interval.describe_groups(kind) if kind == "speakers" else kind
            intervals[over] = interval
        rows[metric.name] = value + metric.format_intervals(intervals)
        if metric.key == "threshold" and summary.decisions:
            rows[metric.name] += f"   {summary.decisions.threshold.source}"
    if summary.tandem is not None:
        rows["ASV EER"] = f"{100 * summary.tandem.asv_eer:.3f} %"
        rows["ASV threshold"] = f"{summary.tandem.asv_threshold:.4f}"
    return rows


def systems_text(summaries: Sequence[Summary], leading: Mapping[str, int]) -> str:
    """Return systems in rows, in blocks of columns that fit into 80 characters.

    Args:
        leading: Index of the system that is significantly the best, by metric (see
            `several_systems.leaders`).
    """
    names = labels_of(each(summaries, "name"), _LABEL)
    lengths = [summary.scored.describe() for summary in summaries]
    columns: Columns = [*metric_columns(summaries, leading)]
    # Values that all systems share are stated in a line below the table.
    if len(set(lengths)) > 1:
        columns.append(texts("scored", lengths))
    parts = as_text(Table(names, columns))
    if len(set(lengths)) == 1:
        parts.append(f"scored: {lengths[0]}")
    soft = [summary for summary in summaries if not summary.is_hard]
    for column in columns_of(soft):
        eers = as_text(Table(names, eer_columns(summaries, column, "mean")))
        parts.append("\n\n".join([f"EER % by {column}", *eers]))
    if leading:
        parts.append(f"{BEST} {LEADS}")
    return "\n\n".join(parts)


def _condition_lines(summary: Summary, column: str) -> list[str]:
    conditions = summary.of_column(column)
    results = each(conditions, "result")
    rows = [*results, summary.average(column), summary.result]
    columns: Columns = []
    for metric in METRICS:
        # Only metrics with a mean over conditions; no test says which condition is the best.
        if hasattr(rows[-2], metric.key):
            columns.append(replace(metric, marked=False).with_values(each(rows, metric.key)))
    for name, key in (("bona fide", "bona_fide"), ("spoof", "spoof")):
        numbers = [str(getattr(row, key, "")) for row in rows]
        columns.append(texts(name, numbers))
    names = [value_heading(condition.value) for condition in conditions]
    return as_lines(Table([*names, "mean", "pooled"], columns, column))


def _decision_lines(summary: Summary, column: str) -> list[str]:
    """Return the metrics of the decisions about each value of a column, in per cent."""
    rows: dict[str, Mapping[str, float]] = {}
    for condition in summary.of_column(column):
        if condition.decisions is not None:
            rows[value_heading(condition.value)] = condition.decisions.values()
    rows["mean"] = summary.average_decisions(column)
    if summary.decisions is not None:
        rows["pooled"] = summary.decisions.confusion.values()
    columns: Columns = []
    for metric in METRICS:
        if metric.key in _DECISION_NAMES:
            heading = _DECISION_NAMES[metric.key]
            shown = rate(metric.key, heading, states_unit=not heading.startswith("F1"))
            columns.append(shown.with_values(values[metric.key] for values in rows.values()))
    return as_lines(Table(list(rows), columns, column))
