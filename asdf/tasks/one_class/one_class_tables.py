"""Sets of one class as text, LaTeX, CSV and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from asdf.metrics.intervals import Interval
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.comma_separated import as_csv
from asdf.tables.plain_json import as_json
from asdf.tables.plain_text import as_lines
from asdf.tables.table import Column, Columns, Table, Value, counts, each, rate
from asdf.tasks.one_class.one_class import Extent, OneClassSet
from asdf.text import as_facts

_CLASSES = {1: "bona fide", 0: "spoof"}
_ERRORS = {1: "false alarms", 0: "accepted spoofs"}
_RATES = {1: "false alarm rate", 0: "1 - SRR (spoofs accepted)"}
_CSV = (
    *("system", "class", "column", "value", "threshold", "trials", "errors"),
    *("recall", "recall_low", "recall_high", "error_rate", "error_low", "error_high"),
    *("hours", "hours_until_alarm", "hours_low", "hours_high"),
)
_HOURS = Column("hours_until_alarm", "h/alarm", digits=2, lower_is_better=False)


def one_class_text(found: OneClassSet) -> str:
    """Return all results of one set, without a final line break."""
    whole = found.whole
    threshold = found.threshold
    rows = {
        "class": f"{_CLASSES[whole.label]} alone, {whole.trials:,} trials",
        "threshold": f"{threshold.value:.6g}, {threshold.source}",
        _ERRORS[whole.label]: f"{whole.errors:,} of {whole.trials:,}",
        _RATES[whole.label]: _percent(whole.error_rate),
        "recall": _percent(whole.recall),
    }
    hours = whole.hours_until_alarm
    if whole.hours is not None:
        rows["speech"] = f"{whole.hours:.3g} h"
    if hours is not None and math.isfinite(hours.value):
        bounds = f"95 %: {hours.low:.3g} .. {hours.high:.3g} h"
        rows["next false alarm"] = f"after {hours.value:.3g} h of such speech   {bounds}"
    elif hours is not None:
        rows["next false alarm"] = f"none in these; at 95 %, one in {hours.low:.3g} h or more"
    lines = [as_facts_text(found.name, rows)]
    for column in dict.fromkeys(name for name, _ in found.parts):
        parts = [extent for name, extent in found.parts if name == column]
        lines += ["", *as_lines(parts_table(column, parts))]
    return "\n".join(lines)


def as_facts_text(
    name: str,
    rows: dict[str, str],
) -> str:
    """Return a title and facts as one text."""
    return "\n".join(as_facts(f"{name}: one class, so no EER", rows))


def parts_table(
    heading: str,
    parts: Sequence[Extent],
) -> Table:
    """Return recall and errors of trials by the values of a column."""
    wrong = [_value(part.error_rate) for part in parts]
    right = [_value(part.recall) for part in parts]
    over = {"trials": "95 %"}
    columns: Columns = [
        counts("trials", each(parts, "trials")),
        counts("errors", each(parts, "errors")),
        (rate("error_rate", "error %", lower_is_better=True, over=over), wrong),
        (rate("recall", "recall %", lower_is_better=False), right),
    ]
    hours = [part.hours_until_alarm for part in parts]
    known = [_value(value) for value in hours if value is not None]
    # Spoofs have no false alarms, and recordings of unknown length no hours.
    if len(known) == len(parts):
        columns.append((_HOURS, known))
    return Table(each(parts, "name"), columns, heading)


def one_class_latex(sets: Sequence[OneClassSet]) -> str:
    """Return a table of all sets for a paper."""
    whole = [found.whole for found in sets]
    table = parts_table("", whole)
    notes = ["intervals of 95 % are exact (Clopper and Pearson, 1934)"]
    for found in sets:
        threshold = found.threshold
        notes.append(
            f"{found.name}: {_CLASSES[found.whole.label]}, threshold {threshold.value:.6g}, "
            f"{threshold.source}"
        )
    return PACKAGES + as_latex(Table(each(sets, "name"), table.columns, "set", notes))


def one_class_csv(sets: Sequence[OneClassSet]) -> str:
    """Return a row for each set, and for each value of its columns."""
    rows = []
    for found in sets:
        for column, extent in [("", found.whole), *found.parts]:
            row = {"system": found.name, "column": column, "value": extent.name}
            rows.append({**row, "threshold": found.threshold.value, **_cells(extent)})
    return as_csv(_CSV, rows)


def one_class_json(sets: Sequence[OneClassSet]) -> str:
    """Return all numbers with all digits; infinite values are null."""
    records = []
    for found in sets:
        parts: dict[str, dict[str, Any]] = {}
        for column, extent in found.parts:
            parts.setdefault(column, {})[extent.name] = _cells(extent)
        threshold = {"value": found.threshold.value, "source": found.threshold.source}
        record = {"system": found.name, "threshold": threshold, **_cells(found.whole)}
        records.append({**record, "by": parts})
    return as_json(records)


def _cells(extent: Extent) -> dict[str, Any]:
    cells = {
        "class": _CLASSES[extent.label],
        "trials": extent.trials,
        "errors": extent.errors,
        "hours": extent.hours,
    }
    keys = {
        "recall": ("recall", extent.recall),
        "error_rate": ("error", extent.error_rate),
        "hours_until_alarm": ("hours", extent.hours_until_alarm),
    }
    for key, (prefix, interval) in keys.items():
        if interval is not None:
            cells[key] = _finite(interval.value)
            cells[f"{prefix}_low"] = _finite(interval.low)
            cells[f"{prefix}_high"] = _finite(interval.high)
    return cells


def _finite(number: float) -> float | None:
    # JSON has no infinity.
    return number if math.isfinite(number) else None


def _value(interval: Interval) -> Value:
    if not math.isfinite(interval.value):
        # Without a false alarm, only the lower end is known.
        return Value(text=f"> {interval.low:.2f}")
    return Value(interval.value, {"trials": interval})


def _percent(interval: Interval) -> str:
    bounds = f"{100 * interval.low:.2f} .. {100 * interval.high:.2f}"
    return f"{100 * interval.value:.2f} %   95 %: {bounds}, exact"
