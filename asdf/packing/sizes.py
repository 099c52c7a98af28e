"""Sizes in users' notation: 1GB, 500MB, 2GiB."""

from __future__ import annotations

import re

from asdf.errors import UsageError

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kMGT]?)(i?)B", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str) -> int:
    """Return a size in bytes.

    Examples:
        >>> parse_size("1GB"), parse_size("1.5 MiB")
        (1000000000, 1572864)

    Raises:
        UsageError: it is not a size of at least a byte.
    """
    match = _SIZE.fullmatch(text.strip())
    size = 0
    if match is not None:
        number, prefix, binary = match.groups()
        size = int(float(number) * (1024 if binary else 1000) ** _POWERS[prefix.lower()])
    if size < 1:
        raise UsageError(f"{text!r} is not a size: write it with its unit, such as 1GB or 500MB.")
    return size
