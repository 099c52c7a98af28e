"""Parts of a list that several processes score on any machines, and merging of the parts.

Invariant: a part consists of the entries of its recordings, as a single process for all would save
them, in its own journal next to the output. The merged entries equal that process's journal, so
every output has the same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.commands.score_journal import journal_path, parse_entry
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.runs.divisions import Part, find_parts
from asdf.runs.files import atomic_write
from asdf.runs.systems import can_lock

_END = ".progress"


def merge_parts(output: Path, work: Mapping[str, Any], count: int) -> list[Path]:
    """Merge the journals of all parts into that of `output`; return their paths.

    Args:
        work: Facts that entries depend on, as in `Journal`.
        count: Number of recordings.

    Raises:
        UsageError: a part is missing, incomplete or of other work, or there are two divisions.
        AsdfError: the journal cannot be written.
    """
    parts = find_parts(output.resolve().parent, f".{output.name}.", _END, str(output))
    _refuse_in_use(output)
    # The same bytes as in the journals of parts, with which they are compared.
    header = json.dumps(dict(work)).encode() + b"\n"
    with atomic_write(journal_path(output), "wb") as file:
        file.write(header)
        for part, path in parts.items():
            mine = part.indices(count)
            # One part at a time, because a list may have millions of entries.
            known = _read_part(part, path, header)
            if any(index not in mine for index in known):
                raise UsageError(
                    f"{path} contains results of other parts. Remove it, and run part "
                    f"{part.number}/{part.of} again."
                )
            if len(known) < len(mine):
                raise UsageError(
                    f"part {part.number}/{part.of} is incomplete: it has results of {len(known)} "
                    f"of its {len(mine)} recordings ({path}). Run it again; it resumes from there."
                )
            for index in mine:
                file.write(known[index])
    return list(parts.values())


def _refuse_in_use(output: Path) -> None:
    """Refuse an output whose journal another process writes.

    Raises:
        InUseError: another process writes it.
    """
    try:
        with journal_path(output).open("rb+") as journal:
            can_lock(journal)
    except FileNotFoundError:
        return
    except BlockingIOError:
        raise InUseError(
            f"another process is writing {output}. Wait for it, or give another output."
        ) from None


def _read_part(part: Part, path: Path, header: bytes) -> dict[int, bytes]:
    """Return the lines of a part's entries by index; the last one of an index counts.

    Raises:
        UsageError: they are of other work.
        AsdfError: it cannot be read.
    """
    lines: dict[int, bytes] = {}
    try:
        with path.open("rb") as file:
            if file.readline() != header:
                raise UsageError(
                    f"part {part.number}/{part.of} was scored with another network, list or "
                    f"options than this command ({path}). Score it again with the same ones, or "
                    "remove it."
                )
            for line in file:
                entry = parse_entry(line)
                if entry is None:
                    break
                # A recording that changed was scored again, after its first entry.
                lines[entry["index"]] = line
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror}.") from error
    return lines
