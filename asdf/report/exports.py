"""Summaries for programs: JSON and CSV.

Invariant: both have all digits and EERs as fractions, and no text of a CSV is a formula to a
spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from asdf.metrics.bootstrap import Interval, Intervals
from asdf.metrics.catalogue import METRICS
from asdf.metrics.conditions import Condition
from asdf.metrics.decisions import DECISION_METRICS, Decisions
from asdf.metrics.summary import Summary, Tandem
from asdf.text import csv_text
from asdf.trials.scored_length import UNKNOWN, described
from asdf.trials.set_roles import role_record

_SYSTEM = ("system", "set", "kind", "column", "value", "against", "bona_fide", "spoof")
_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_ELSEWHERE = {*DECISION_METRICS, "threshold", *(field.name for field in fields(Tandem))}
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
_SPEAKER_BOUNDS = tuple(f"speaker_{name}" for name in _BOUNDS)
_SCORED = ("scored_length", "scoring_precision", "trained_on", "chose_network")
CSV_COLUMNS = (*_SYSTEM, *_RESULT, *_POOLED, *_BOUNDS, *_SPEAKER_BOUNDS, *_SCORED)


def to_json(summaries: Sequence[Summary]) -> str:
    """Return a list with a record for each summary."""
    return json.dumps(list(map(record, summaries)), indent=2, ensure_ascii=False) + "\n"


def record(summary: Summary) -> dict[str, Any]:
    """Return a summary without its scores, made of the types that JSON has."""
    metrics: dict[str, Any] = asdict(summary.result)
    # The order of earlier versions.
    metrics["auc"] = None
    for metric in METRICS:
        # Those of decisions and of an ASV system have records of their own below.
        if metric.key not in _ELSEWHERE:
            metrics[metric.key] = metric.of(summary)
    return {
        "system": summary.name,
        "set": summary.set,
        **metrics,
        "decisions": _decisions_record(summary.decisions),
        "tandem": asdict(summary.tandem) if summary.tandem else None,
        "intervals_95": {
            "trials": _interval_record(summary.intervals),
            "speakers": _interval_record(summary.speaker_intervals),
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
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        common = {
            "system": csv_text(summary.name),
            "set": csv_text(summary.set),
            "scored_length": described(summary.scored.length),
            "scoring_precision": summary.scored.precision or UNKNOWN,
            **role_record(summary.scored.role),
        }
        for row in [_pooled_row(summary), *_condition_rows(summary)]:
            writer.writerow({**common, **row})
    return text.getvalue()


def _pooled_row(summary: Summary) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "pooled", **asdict(summary.result)}
    for metric in METRICS:
        row[metric.key] = metric.of(summary)
    row.update(_bounds(_BOUNDS, summary.intervals))
    row.update(_bounds(_SPEAKER_BOUNDS, summary.speaker_intervals))
    return row


def _condition_rows(summary: Summary) -> list[dict[str, Any]]:
    """Return a row for each condition of each column, and one of the column's means."""
    rows: list[dict[str, Any]] = []
    for column in summary.columns:
        conditions = summary.of_column(column)
        for condition in conditions:
            # Names come from files: none of them may be a formula.
            row = {**_condition_record(condition, summary.is_hard), "kind": "condition"}
            row.update(row.pop("decisions", None) or {})
            row["column"] = csv_text(column)
            row["value"] = csv_text(condition.value)
            rows.append(row)
        mean = _means(summary, column)
        against = conditions[0].bona_fide
        rows.append({"kind": "mean", "column": csv_text(column), "against": against, **mean})
    return rows


def _condition_record(condition: Condition, is_hard: bool) -> dict[str, Any]:
    record = {
        "column": condition.column,
        "value": condition.value,
        "against": condition.bona_fide,
        **asdict(condition.result),
    }
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
            "trials": _bounds_by_name(decisions.intervals),
            "speakers": _bounds_by_name(decisions.speaker_intervals),
        },
    }


def bounds_record(interval: Interval) -> dict[str, float]:
    """Return the bounds of an interval, and of how many speakers it is where these were drawn."""
    bounds = {"low": interval.low, "high": interval.high}
    if interval.groups is not None:
        bounds["groups"] = interval.groups
    return bounds


def _bounds_by_name(intervals: Mapping[str, Interval]) -> dict[str, dict[str, float]] | None:
    if not intervals:
        return None
    return {name: bounds_record(interval) for name, interval in intervals.items()}


def _interval_record(intervals: Intervals | None) -> dict[str, dict[str, float]] | None:
    if intervals is None:
        return None
    return _bounds_by_name(vars(intervals))


def _bounds(names: Sequence[str], intervals: Intervals | None) -> dict[str, float]:
    """Return the bounds of the EER and the minDCF by their columns; nothing without intervals."""
    if intervals is None:
        return {}
    eer = intervals.eer
    min_dcf = intervals.min_dcf
    return dict(zip(names, (eer.low, eer.high, min_dcf.low, min_dcf.high), strict=True))
