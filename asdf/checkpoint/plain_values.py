"""Limits on the plain values of a file, before anything prints, compares or copies them.

Invariant: values that pass can be traversed, printed and copied in reasonable time and memory. A
list that holds another twice, nested for sixty levels, takes a kilobyte in a file and prints as
2^60 items.
"""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from asdf.errors import AsdfError

# A checkpoint of XLS-R 2B with its optimiser has some 10,000 values, and layer names of 100,000
# characters in total. Each evaluation of the run adds a dozen values, each of which takes five
# bytes in the file.
SMALL_FILE_VALUES = 200_000
MAX_VALUES = 5_000_000
_BYTES_PER_VALUE = 4
MAX_CHARACTERS = 10_000_000
MAX_LEVELS = 100
MAX_JSON_BYTES = 20_000_000
MAX_BITS = 1024
"""Maximum size of an integer in bits: 308 decimal digits, as for the largest float."""


def check_plain(content: Any, file_size: int = 0) -> None:
    """Refuse values that are too many, too long, too large or too deeply nested.

    Shared values count each time they appear.

    Args:
        file_size: Size of their file in bytes; a large file may hold more values.

    Raises:
        ValueError: a limit is exceeded; the message says which.
    """
    allowed = min(max(SMALL_FILE_VALUES, file_size // _BYTES_PER_VALUE), MAX_VALUES)
    values = 1
    characters = 0
    # A list rather than recursion, since a malicious file could exhaust Python's stack.
    waiting = [(content, 0)]
    while waiting:
        value, level = waiting.pop()
        if isinstance(value, int) and value.bit_length() > MAX_BITS:
            raise ValueError(f"it holds a number of {value.bit_length():,} binary digits")
        characters += len(value) if isinstance(value, (str, bytes)) else 0
        if characters > MAX_CHARACTERS:
            raise ValueError(f"its values hold strings of more than {MAX_CHARACTERS:,} characters")
        for part in _parts_of(value):
            values += 1
            if values > allowed or level == MAX_LEVELS:
                raise ValueError(
                    f"it holds more than {allowed:,} values, or more than {MAX_LEVELS} inside "
                    "each other; shared ones are counted as often as they appear"
                )
            waiting.append((part, level + 1))


def _parts_of(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value.keys()
        yield from value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        yield from value
    if isinstance(value, (Mapping, Namespace, Tensor)):
        # An OrderedDict and a tensor may also have attributes, which are saved with them.
        yield from getattr(value, "__dict__", {}).values()


def read_json(path: Path) -> dict[str, Any]:
    """Read the dictionary in a JSON file.

    Raises:
        AsdfError: it cannot be read, or holds something else.
    """
    try:
        # Checked before reading, since a malicious folder may hold a file of any size.
        if path.stat().st_size > MAX_JSON_BYTES:
            raise ValueError(f"it is larger than {MAX_JSON_BYTES:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not a dictionary")
        check_plain(content)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from error
    except (ValueError, RecursionError) as error:
        raise AsdfError(f"{path} is damaged: {error}. Download it again.") from error
    return content
