"""Summaries for programs: JSON and CSV.

Invariant: both keep all digits and have EERs as fractions, and no text of a CSV is a formula to a spreadsheet.
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
from asdf.metrics.summary import Summary
from asdf.text import csv_text
from asdf.trials.scored_length import UNKNOWN, described

_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
CSV_COLUMNS = (
    *(
        "system",
        "set",
        "kind",
        "column",
        "value",
        "against",
        "bona_fide",
        "spoof",
        *_RESULT,
        *_POOLED,
    ),
    *_BOUNDS,
    *(f"speaker_{name}" for name in _BOUNDS),
    "scored_length",
    "scoring_precision",
)


def to_json(summaries: Sequence[Summary]) -> str:
    """A list with a record for each summary."""
    return (
        json.dumps([record(summary) for summary in summaries], indent=2, ensure_ascii=False) + "\n"
    )


def record(summary: Summary) -> dict[str, Any]:
    """A summary without its scores, made of what JSON has."""
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
        "conditions": [
            {
                "column": one.column,
                "value": one.value,
                "against": one.bona_fide,
                **asdict(one.result),
            }
            for one in summary.conditions
        ],
        "means": {column: asdict(summary.average(column)) for column in summary.columns},
        **summary.scored.record(),
        "warnings": [finding.message for finding in summary.findings],
    }


def to_csv(summaries: Sequence[Summary]) -> str:
    """A row for each system and condition; `kind` is pooled, condition or mean, and what a kind has not is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        both = {
            "system": csv_text(summary.name),
            "set": csv_text(summary.set),
            "scored_length": described(summary.scored.length),
            "scoring_precision": summary.scored.precision or UNKNOWN,
        }
        pooled = {metric.key: metric.value(summary) for metric in METRICS}
        bounds = _bounds(summary.intervals, "") | _bounds(summary.speaker_intervals, "speaker_")
        writer.writerow({**both, "kind": "pooled", **asdict(summary.result), **pooled, **bounds})
        for column in summary.columns:
            conditions = summary.of_column(column)
            for one in conditions:
                named = {
                    "kind": "condition",
                    "column": csv_text(column),
                    "value": csv_text(one.value),
                    "against": one.bona_fide,
                }
                writer.writerow({**both, **named, **asdict(one.result)})
            named = {"kind": "mean", "column": csv_text(column), "against": conditions[0].bona_fide}
            writer.writerow({**both, **named, **asdict(summary.average(column))})
    return text.getvalue()


def _interval_record(intervals: Intervals | None) -> dict[str, dict[str, float]] | None:
    if intervals is None:
        return None
    return {name: {"low": one.low, "high": one.high} for name, one in vars(intervals).items()}


def _bounds(intervals: Intervals | None, prefix: str) -> dict[str, float]:
    if intervals is None:
        return {}
    ends = (intervals.eer.low, intervals.eer.high, intervals.min_dcf.low, intervals.min_dcf.high)
    return {f"{prefix}{name}": value for name, value in zip(_BOUNDS, ends, strict=True)}
