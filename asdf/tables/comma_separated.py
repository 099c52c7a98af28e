"""Tables for spreadsheets: CSV with all digits and no formulas."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from asdf.text import csv_text


def as_csv(
    keys: Sequence[str], records: Iterable[Mapping[str, Any]], *, has_head: bool = True
) -> str:
    """Return a row for each record; a missing key or a value of None gives an empty cell.

    Args:
        keys: Keys of the columns, in order.
        has_head: Whether the first row holds the keys.
    """
    text = io.StringIO()
    # By default csv ends lines with \r\n, unlike all other files here.
    writer = csv.DictWriter(text, keys, lineterminator="\n")
    if has_head:
        writer.writeheader()
    for record in records:
        row = {}
        for key, value in record.items():
            # Names come from files and must not be read as formulas.
            row[key] = csv_text(value) if isinstance(value, str) else value
        writer.writerow(row)
    return text.getvalue()
