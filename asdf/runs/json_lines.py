"""Files of one JSON record per line, such as metrics.jsonl."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError


def read_json_lines(path: Path) -> list[dict[str, Any]]:
    """Return the records of a file; empty if it does not exist.

    Lines that are not records are skipped, such as the last line of a killed or active run, or the
    remains of a power cut.

    Raises:
        AsdfError: it cannot be read at all.
    """
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror}. Is it a file of a run?") from None
    records = []
    for line in lines:
        # RecursionError: a damaged line may be a million brackets.
        with suppress(ValueError, RecursionError):
            record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
    return records
