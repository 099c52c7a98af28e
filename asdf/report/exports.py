"""Summaries in JSON and CSV, for programs.

Invariant: both have all digits, with EERs as fractions, and no text in a CSV is read as a formula
by a spreadsheet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from types import SimpleNamespace
from typing import Any

from asdf.metrics.decisions import DECISION_METRICS, Decisions
from asdf.metrics.metric_columns import METRICS
from asdf.metrics.results import Condition
from asdf.metrics.summary import Summary, Tandem
from asdf.tables.comma_separated import as_csv
from asdf.tables.plain_json import bounds_records
from asdf.trials.how_scored import UNKNOWN, described, role_record

_SYSTEM = ("system", "set", "kind", "column", "value", "against", "bona_fide", "spoof")
_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_ELSEWHERE = {*DECISION_METRICS, "threshold", *(field.name for field in fields(Tandem))}
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
_SPEAKER_BOUNDS = tuple(f"speaker_{name}" for name in _BOUNDS)
_NO_INTERVALS = SimpleNamespace()
_SCORED = ("scored_length", "scoring_precision", "trained_on", "chose_network")
CSV_COLUMNS = (*_SYSTEM, *_RESULT, *_POOLED, *_BOUNDS, *_SPEAKER_BOUNDS, *_SCORED)


def record(summary: Summary) -> dict[str, Any]:
    """Return a summary without its scores, as types that JSON has."""
    metrics: dict[str, Any] = asdict(summary.result)
    # The order is that of earlier versions.
    metrics["auc"] = None
    for metric in METRICS:
        # Metrics of decisions and of an ASV system have their own records below.
        if metric.key not in _ELSEWHERE:
            metrics[metric.key] = metric.of(summary)
    return {
        "system": summary.name,
        "set": summary.set,
        **metrics,
        "decisions": _decisions_record(summary.decisions),
        "tandem": asdict(summary.tandem) if summary.tandem else None,
        "intervals_95": {
            "trials": bounds_records(vars(summary.intervals or _NO_INTERVALS)),
            "speakers": bounds_records(vars(summary.speaker_intervals or _NO_INTERVALS)),
        },
        "conditions": [_condition_record(c, summary.is_hard) for c in summary.conditions],
        "means": {column: _means(summary, column) for column in summary.columns},
        **summary.scored.record(),
        "warnings": [finding.message for finding in summary.findings],
    }


def to_csv(summaries: Sequence[Summary]) -> str:
    """Return a row for each system and each of its conditions.

    `kind` is pooled, condition or mean; a column that does not apply to a kind is empty.
    """
    rows = []
    for summary in summaries:
        common = {
            "system": summary.name,
            "set": summary.set,
            "scored_length": described(summary.scored.length),
            "scoring_precision": summary.scored.precision or UNKNOWN,
            **role_record(summary.scored.role),
        }
        pooled: dict[str, Any] = {"kind": "pooled", **asdict(summary.result)}
        for metric in METRICS:
            pooled[metric.key] = metric.of(summary)
        for prefix, drawn in (("", summary.intervals), ("speaker_", summary.speaker_intervals)):
            for key, interval in vars(drawn or _NO_INTERVALS).items():
                pooled[f"{prefix}{key}_low"] = interval.low
                pooled[f"{prefix}{key}_high"] = interval.high
        rows += [{**common, **row} for row in (pooled, *_condition_rows(summary))]
    return as_csv(CSV_COLUMNS, rows)


def _condition_rows(summary: Summary) -> list[dict[str, Any]]:
    """Return a row for each condition of each column, and one of the column's means."""
    rows: list[dict[str, Any]] = []
    for column in summary.columns:
        conditions = summary.of_column(column)
        for condition in conditions:
            row = {**_condition_record(condition, summary.is_hard), "kind": "condition"}
            # A CSV has no nested records.
            decided = row.pop("decisions", None) or {}
            rows.append({**row, **decided})
        against = conditions[0].bona_fide
        means = _means(summary, column)
        rows.append({"kind": "mean", "column": column, "against": against, **means})
    return rows


def _condition_record(condition: Condition, is_hard: bool) -> dict[str, Any]:
    record = {
        "column": condition.column,
        "value": condition.value,
        "against": condition.bona_fide,
        **asdict(condition.result),
    }
    # Decisions have no threshold to vary, so metrics of scores mean nothing.
    if is_hard:
        record.update(dict.fromkeys(_RESULT))
    if condition.decisions is not None:
        record["decisions"] = condition.decisions.values()
    return record


def _means(summary: Summary, column: str) -> dict[str, Any]:
    """Return the means over the conditions of a column, by the name of the metric."""
    means: dict[str, Any] = asdict(summary.average(column))
    if summary.is_hard:
        means = {}
    return {**means, **summary.average_decisions(column)}


def _decisions_record(decisions: Decisions | None) -> dict[str, Any] | None:
    if decisions is None:
        return None
    return {
        "threshold": decisions.threshold.value,
        "threshold_source": decisions.threshold.source,
        **asdict(decisions.confusion),
        **decisions.confusion.values(),
        "intervals_95": {
            "trials": bounds_records(decisions.intervals),
            "speakers": bounds_records(decisions.speaker_intervals),
        },
    }
