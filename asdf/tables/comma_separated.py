"""Tables for spreadsheets: CSV with all digits, in which no text is a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asdf.text import csv_text


def as_csv(
    keys: Sequence[str],
    records: Iterable[Mapping[str, Any]],
    *,
    has_head: bool = True,
) -> str:
    """Return a row for each record; a key that it lacks, or whose value is None, is empty.

    Args:
        keys: Keys of the columns, in their order.
        has_head: Whether the keys are the first row.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    if has_head:
        writer.writeheader()
    for record in records:
        row = {}
        for key, value in record.items():
            # Names come from files: none of them may be a formula.
            row[key] = csv_text(value) if isinstance(value, str) else value
        writer.writerow(row)
    return text.getvalue()
