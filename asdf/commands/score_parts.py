"""Parts of a list that several processes score on any machines, and merging of the parts.

Invariant: a part consists of the entries of its recordings, as a single process for all would save
them, in its own journal next to the output. The merged entries equal that process's journal, so
every output has the same bytes.

For an output in a store, the journal is on the machine's disk while a part is scored, and is
written next to the output when the part ends or is stopped: a shared disk is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from asdf.commands.score_journal import journal_name, journal_path, parse_entry
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.remote import is_remote, join_path, upload_object
from asdf.runs.divisions import Part, parts_of
from asdf.runs.files import atomic_write
from asdf.runs.systems import can_lock
from asdf.text import and_more

_SHOWN = 8


def merge_parts(output: Path, work: Mapping[str, Any], count: int) -> list[Path]:
    """Merge the journals of all parts into that of `output`; return their paths.

    Args:
        work: Facts that entries depend on, as in `Journal`.
        count: Number of recordings.

    Raises:
        UsageError: a part is missing, incomplete or of other work, or there are two divisions.
        AsdfError: the journal cannot be written.
    """
    parts = _find_parts(output)
    _refuse_in_use(output)
    header = json.dumps(dict(work)).encode() + b"\n"
    with atomic_write(journal_path(output), "wb") as file:
        file.write(header)
        for part, path in parts.items():
            mine = part.indices(count)
            # One part at a time, because a list may have millions of entries.
            known = _read_part(part, path, header)
            if any(index not in mine for index in known):
                raise UsageError(f"{path} has results of other parts: remove it, and run it again.")
            if len(known) < len(mine):
                raise UsageError(
                    f"part {part.number}/{part.of} has results of {len(known)} of its {len(mine)} "
                    f"recordings: run it again, and it goes on ({path})."
                )
            for index in mine:
                file.write(known[index])
    return list(parts.values())


def begin_part(output: Path, part: Part) -> None:
    """Fetch the saved entries of a part whose `output` is in a store.

    Nothing is done if this machine has the part, or the output is on a disk.

    Raises:
        AsdfError: the store cannot be read, or the disk is full.
    """
    saved = _saved_path(output, part)
    journal = journal_path(output, part.label())
    if is_remote(saved) and not journal.exists() and saved.is_file():
        with atomic_write(journal, "wb") as file:
            file.write(saved.read_bytes())


def save_part(output: Path, part: Part) -> None:
    """Write a part next to its `output` in a store; on a disk it is already there.

    Raises:
        AsdfError: the store cannot be written.
    """
    saved = _saved_path(output, part)
    if is_remote(saved):
        journal = journal_path(output, part.label())
        upload_object(journal, str(saved))
        # The next process, here or elsewhere, starts from the copy in the store.
        journal.unlink(missing_ok=True)


def _saved_path(output: Path, part: Part) -> Path:
    """Return the path where other machines find the journal of a part."""
    return join_path(output.parent, journal_name(output, part.label()))


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
            f"another process is writing {output}. Wait for it, or name another output."
        ) from None


def _find_parts(output: Path) -> dict[Part, Path]:
    """Return the journals of the parts of `output`, in their order.

    Raises:
        UsageError: there are no parts, parts are missing, or there are two divisions.
    """
    found: dict[Part, Path] = {}
    name = re.compile(re.escape(f".{output.name}.part-") + r"(\d+)-of-(\d+)\.progress")
    folder = output.resolve().parent
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        match = name.fullmatch(path.name)
        if match is not None:
            found[Part(int(match[1]), int(match[2]))] = path
    divisions = sorted({part.of for part in found})
    if not divisions:
        raise UsageError(
            f"--merge: there are no parts of {output}. Score them first: the same command with "
            "--part 1/N to N/N instead of --merge."
        )
    if len(divisions) > 1:
        raise UsageError(
            f"--merge: next to {output} lie parts of {' and of '.join(map(str, divisions))}. "
            f"Remove the .{output.name}.part-*-of-N.progress of all divisions but one."
        )
    every = parts_of(divisions[0])
    missing = [str(part.number) for part in every if part not in found]
    if missing:
        raise UsageError(
            f"--merge: of {divisions[0]} parts of {output} {len(missing)} are missing: "
            f"{and_more(missing, _SHOWN)}. Score them first (--part K/{divisions[0]})."
        )
    return {part: found[part] for part in every}


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
                    f"part {part.number}/{part.of} is of another network, list or option than this "
                    f"command's: score it again with the same, or remove it ({path})."
                )
            for line in file:
                entry = parse_entry(line)
                if entry is None:
                    break
                lines[entry["index"]] = line
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror}.") from error
    return lines
