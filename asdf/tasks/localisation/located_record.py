"""Localisation metrics of a network: the record of stage 3, written and read only here.

Invariant: a record that is read has the numbers that were written, with all digits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from asdf.metrics.intervals import Interval, read_intervals
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Column, Columns, Table, Value, each, rate, texts

if TYPE_CHECKING:
    from asdf.tasks.localisation.located_measures import Localisation, LocalisationIntervals

RANGE_EER = rate("range_eer", "Range EER", states_unit=True)
POINT_EER = rate("point_eer", "Point EER", states_unit=True)
COLUMNS = (
    RANGE_EER,
    POINT_EER,
    Column("f1", "F1", lower_is_better=False),
    Column("iou", "IoU", lower_is_better=False),
    Column("precision", "Precision", lower_is_better=False, in_papers=False),
    Column("recall", "Recall", lower_is_better=False, in_papers=False),
    Column("threshold", "Threshold", lower_is_better=None, in_papers=False),
)
_METRICS = ("range_eer", "f1", "iou")
_AGREEMENT = ("f1", "iou", "precision", "recall")
_NUMBERS = ("range_eer", "point_eer", "hop_s", "threshold", *_AGREEMENT)


@dataclass(frozen=True)
class LocatedResult:
    """The localisation results of a network on a set, as fractions.

    Attributes:
        hop_s: Length of the frames of the point EER, in seconds.
        threshold_of: Set on which the threshold was chosen.
        f1, iou, precision, recall: Rates over seconds, at the threshold.
        intervals: Intervals of 'range_eer', 'f1' and 'iou'; empty if none were drawn.
        drawn: Bootstrap units of the intervals, such as '6 speakers'.
    """

    range_eer: float
    point_eer: float
    hop_s: float
    threshold: float
    threshold_of: str
    f1: float
    iou: float
    precision: float
    recall: float
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    drawn: str = ""


def located_columns(results: Sequence[LocatedResult]) -> Columns:
    """Return the columns of some results for pages and papers."""
    columns: Columns = []
    for column in COLUMNS:
        drawn = [result.intervals.get(column.key) for result in results]
        columns.append((column, Value.with_intervals(each(results, column.key), drawn)))
    return columns


def located_text(records: Sequence[Mapping[str, Any]]) -> str:
    """Return the records of a run as a table of aligned text."""
    results = list(map(located_result, records))
    columns: Columns = [texts("set", [str(entry["set"]) for entry in records], is_left=True)]
    for key, name in (("range_eer", "range EER"), ("point_eer", "point EER")):
        finer = rate(key, name, 3, states_unit=True)
        columns.append(finer.with_values(each(results, key)))
    for key, name in (("f1", "F1"), ("iou", "IoU")):
        columns.append(Column(key, name).with_values(each(results, key)))
    columns.append(texts("threshold of", each(results, "threshold_of"), is_left=True))
    networks = [str(entry["network"]) for entry in records]
    return "\n".join(as_lines(Table(networks, columns, "network")))


def located_record(
    network: str,
    set_name: str,
    threshold_of: str,
    result: Localisation,
    intervals: LocalisationIntervals | None = None,
    drawn: str = "",
) -> dict[str, Any]:
    """Return all results as plain values, for JSON.

    Args:
        drawn: Bootstrap unit of the intervals: 'speakers' or 'recordings'.
    """
    # A run measures a single resolution, that of its frames.
    point = result.points[0]
    record: dict[str, Any] = {
        "network": network,
        "set": set_name,
        "range_eer": result.range_eer.rate,
        "point_eer": point.eer,
        "hop_s": point.hop_s,
        "threshold": result.threshold,
        "threshold_of": threshold_of,
        **{name: getattr(result.agreement, name) for name in _AGREEMENT},
        "seconds": asdict(result.agreement),
    }
    if intervals is not None:
        bounds = {}
        for name in _METRICS:
            interval = getattr(intervals, name)
            bounds[name] = [interval.low, interval.high]
        record["intervals"] = bounds
        record["intervals_over"] = f"{intervals.groups} {drawn}"
    return record


def located_result(record: Mapping[str, Any]) -> LocatedResult:
    """Return the result of a record; records of earlier versions have no intervals.

    Raises:
        ValueError, TypeError, KeyError: the record was not written by `located_record`.
    """
    return LocatedResult(
        threshold_of=str(record["threshold_of"]),
        intervals=read_intervals(record),
        drawn=str(record.get("intervals_over", "")),
        **{name: float(record[name]) for name in _NUMBERS},
    )
