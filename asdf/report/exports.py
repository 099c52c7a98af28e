"""Summaries for programs: JSON and CSV.

Invariant: both have all digits and EERs as fractions, and no text of a CSV is a formula to a
spreadsheet.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from asdf.metrics.bootstrap import Intervals
from asdf.metrics.catalogue import METRICS
from asdf.metrics.conditions import Condition
from asdf.metrics.summary import Summary
from asdf.text import csv_text
from asdf.trials.scored_length import UNKNOWN, described

_SYSTEM = ("system", "set", "kind", "column", "value", "against", "bona_fide", "spoof")
_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
_SPEAKER_BOUNDS = tuple(f"speaker_{name}" for name in _BOUNDS)
_SCORED = ("scored_length", "scoring_precision")
CSV_COLUMNS = (*_SYSTEM, *_RESULT, *_POOLED, *_BOUNDS, *_SPEAKER_BOUNDS, *_SCORED)


def to_json(summaries: Sequence[Summary]) -> str:
    """Return a list with a record for each summary."""
    return json.dumps(list(map(record, summaries)), indent=2, ensure_ascii=False) + "\n"


def record(summary: Summary) -> dict[str, Any]:
    """Return a summary without its scores, made of the types that JSON has."""
    return {
        "system": summary.name,
        "set": summary.set,
        **asdict(summary.result),
        "auc": summary.auc,
        "min_cllr": summary.min_cllr,
        "tandem": asdict(summary.tandem) if summary.tandem else None,
        "intervals_95": {
            "trials": _interval_record(summary.intervals),
            "speakers": _interval_record(summary.speaker_intervals),
        },
        "conditions": list(map(_condition_record, summary.conditions)),
        "means": {column: asdict(summary.average(column)) for column in summary.columns},
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
        }
        for row in [_pooled_row(summary), *_condition_rows(summary)]:
            writer.writerow({**common, **row})
    return text.getvalue()


def _pooled_row(summary: Summary) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": "pooled", **asdict(summary.result)}
    for metric in METRICS:
        row[metric.key] = metric.value(summary)
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
            row = {**_condition_record(condition), "kind": "condition"}
            row["column"] = csv_text(column)
            row["value"] = csv_text(condition.value)
            rows.append(row)
        mean = asdict(summary.average(column))
        against = conditions[0].bona_fide
        rows.append({"kind": "mean", "column": csv_text(column), "against": against, **mean})
    return rows


def _condition_record(condition: Condition) -> dict[str, Any]:
    return {
        "column": condition.column,
        "value": condition.value,
        "against": condition.bona_fide,
        **asdict(condition.result),
    }


def _interval_record(intervals: Intervals | None) -> dict[str, dict[str, float]] | None:
    if intervals is None:
        return None
    bounds = {}
    for name, interval in vars(intervals).items():
        bounds[name] = {"low": interval.low, "high": interval.high}
    return bounds


def _bounds(names: Sequence[str], intervals: Intervals | None) -> dict[str, float]:
    """Return the bounds of the EER and the minDCF by their columns; nothing without intervals."""
    if intervals is None:
        return {}
    eer = intervals.eer
    min_dcf = intervals.min_dcf
    return dict(zip(names, (eer.low, eer.high, min_dcf.low, min_dcf.high), strict=True))
