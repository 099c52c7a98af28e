"""How well a network locates what is spoofed: the record of stage 3, written and read here alone.

Invariant: reading a record gives the numbers that were written, with all digits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from asdf.metrics.bootstrap import Interval

if TYPE_CHECKING:
    from asdf.tasks.localisation.located_intervals import LocalisationIntervals
    from asdf.tasks.localisation.located_measures import Localisation

_METRICS = ("range_eer", "f1", "iou")
_AGREEMENT = ("f1", "iou", "precision", "recall")
_NUMBERS = ("range_eer", "point_eer", "hop_s", "threshold", *_AGREEMENT)


@dataclass(frozen=True)
class LocatedResult:
    """The results of a network's frame scores on a set, as fractions.

    Attributes:
        hop_s: the length of the frames of the point EER.
        threshold_of: the set that the threshold was chosen on.
        f1, iou, precision, recall: Rates of seconds, at the threshold.
        intervals: Intervals of 'range_eer', 'f1' and 'iou'; empty where none were drawn.
        drawn: Units that the intervals are over, such as '6 speakers'.
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


def located_record(
    network: str,
    set_name: str,
    threshold_of: str,
    result: Localisation,
    intervals: LocalisationIntervals | None = None,
    drawn: str = "",
) -> dict[str, Any]:
    """Return everything as plain values, for JSON.

    Args:
        drawn: Units that the intervals are over: 'speakers' or 'recordings'.
    """
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
    """Return the result of a record; those of earlier versions have no intervals.

    Raises:
        ValueError, TypeError, KeyError: it is not what `located_record` writes.
    """
    return LocatedResult(
        threshold_of=str(record["threshold_of"]),
        intervals=read_intervals(record),
        drawn=str(record.get("intervals_over", "")),
        **{name: float(record[name]) for name in _NUMBERS},
    )


def read_intervals(record: Mapping[str, Any]) -> dict[str, Interval]:
    """Return the intervals of a record by metric, around the values next to them. Raises as above.

    A record without intervals gives none.
    """
    intervals = {}
    for name, (low, high) in record.get("intervals", {}).items():
        intervals[name] = Interval(float(record[name]), float(low), float(high))
    return intervals
