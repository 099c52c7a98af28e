"""Parts of a list that several processes score on any machines, and merging of the parts.

Invariant: a part consists of the entries of its recordings, as a single process for all would save
them, in its own journal next to the output. The merged entries equal that process's journal, so
every output has the same bytes.

For an output in a store, the journal is on the machine's disk while a part is scored, and is
written next to the output from time to time, and when the part ends or is stopped: a shared disk is
not needed, and a killed part can be resumed on another machine.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.commands.score_journal import journal_name, journal_path, parse_entry
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.remote import is_remote, join_path, object_state, upload_object
from asdf.runs.divisions import Part, find_parts
from asdf.runs.files import atomic_write
from asdf.runs.parts import STORED_EVERY_S
from asdf.runs.systems import can_lock

_END = ".progress"
# Maximum size of a journal that is written to a store every minute.
_BYTES_AT_ONCE = 1 << 26


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


class StoredPart:
    """The journal of a part, available to other machines if the output is in a store.

    For an output on a disk it is already available, and nothing is done.
    """

    def __init__(self, output: Path, part: Part) -> None:
        self._stored = join_path(output.parent, journal_name(output, part.label()))
        self._journal = journal_path(output, part.label())
        # Monotonic, because the wall clock may be set while a part runs.
        self._saved_at = time.monotonic()

    def fetch(self) -> None:
        """Fetch the saved entries of another machine, unless this one has more.

        Raises:
            AsdfError: the store cannot be read, or the disk is full.
        """
        if not is_remote(self._stored):
            return
        state = object_state(str(self._stored), refresh=True)
        size = self._journal.stat().st_size if self._journal.exists() else 0
        if state is not None and state.size > size:
            with atomic_write(self._journal, "wb") as file:
                file.write(self._stored.read_bytes())

    def save_if_due(self) -> None:
        """Write the journal to the store if the last time is at least a minute ago.

        Raises:
            AsdfError: the store cannot be written.
        """
        if not is_remote(self._stored):
            return
        # It is written as a whole: the longer it is, the less often.
        sizes = self._journal.stat().st_size / _BYTES_AT_ONCE
        if time.monotonic() - self._saved_at > STORED_EVERY_S * max(1.0, sizes):
            upload_object(self._journal, str(self._stored))
            self._saved_at = time.monotonic()

    def save(self) -> None:
        """Write the journal to the store, when the work ends or is stopped.

        Raises:
            AsdfError: the store cannot be written.
        """
        if is_remote(self._stored):
            upload_object(self._journal, str(self._stored))
            # The next process, here or elsewhere, starts from the copy in the store.
            self._journal.unlink(missing_ok=True)


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
