"""Results for programs: JSON with all digits, error rates as fractions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from asdf.tables.table import Bounds


def as_json(records: Any, *, indent: int = 2) -> str:
    """Return records of plain values as the text of a JSON file."""
    # Names stay readable, since the file is UTF-8.
    return json.dumps(records, indent=indent, ensure_ascii=False) + "\n"


def bounds_record(interval: Bounds | None) -> dict[str, float] | None:
    """Return the bounds of an interval, with the number of groups if groups were resampled."""
    if interval is None:
        return None
    # `Bounds` are any interval, and may have no groups.
    groups = getattr(interval, "groups", None)
    record = {"low": interval.low, "high": interval.high}
    return record if groups is None else {**record, "groups": groups}


def bounds_records(intervals: Mapping[str, Bounds]) -> dict[str, dict[str, float] | None] | None:
    """Return the bounds of intervals by metric; None without intervals."""
    if not intervals:
        return None
    return {name: bounds_record(interval) for name, interval in intervals.items()}
