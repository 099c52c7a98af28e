"""Scoring a list in independent parts on separate processes, and joining the parts.

Invariant: the batches of a part are those of the whole list, which every process plans alike, so
the joined rows equal those of one process to the last bit. Rows are joined only when all parts are
marked as done, and all marks state the same work.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from pathlib import Path

from asdf.errors import UsageError
from asdf.runs.divisions import Part, find_parts
from asdf.runs.files import write_text
from asdf.scoring.list_parts import Work
from asdf.scoring.scorer import Scorer
from asdf.text import and_more

_ROWS = "rows"
_DONE = ".done"
_SHOWN = 8


def rows_name(part: Part | None) -> str:
    """Return the name of the files with a part's rows; None: the name for the whole list."""
    if part is None:
        return _ROWS
    return f"{part.label()}-{_ROWS}"


def timed_keys(scorer: Scorer, wanted: Collection[str], part: Part | None) -> list[str]:
    """Return the keys of the extras that follow time.

    Raises:
        UsageError: such extras are wanted, and only a part of the list is scored.
    """
    keys = [key for key in wanted if scorer.extras[key].hop is not None]
    if keys and part is not None:
        raise UsageError(
            f"--part: {', '.join(keys)} follow time, and lists with them cannot be scored in parts."
        )
    return keys


def mark_part(output: Path | None, part: Part, work: Work) -> None:
    """Mark a part of an output as done.

    Raises:
        AsdfError: it cannot be written.
    """
    assert output is not None  # a part without one would be lost
    write_text(output.with_name(f".{output.name}.{part.label()}{_DONE}"), _digest(work))


def rows_of_parts(output: Path | None, work: Work, what: str) -> list[str]:
    """Return the names of the rows of all parts that make up the work of an output.

    Args:
        what: Name of the list, for messages.

    Raises:
        UsageError: a part is missing or of other work, or there are parts of two divisions.
    """
    assert output is not None  # no part would have been saved
    marks = find_parts(output.parent, f".{output.name}.", _DONE, what)
    digest = _digest(work)
    others = []
    for part, mark in marks.items():
        if mark.read_text(encoding="utf-8") != digest:
            others.append(str(part.number))
    if others:
        raise UsageError(
            "parts scored with another network, list, option or kind of device than this "
            f"command's: {and_more(others, _SHOWN)} of {len(marks)}. Score them again with the "
            f"same ones (--part K/{len(marks)})."
        )
    return list(map(rows_name, marks))


def _digest(work: Work) -> str:
    # Sorted, so that only values count, and not the order in which they were noted.
    return hashlib.sha256(json.dumps(work(), sort_keys=True).encode()).hexdigest()
