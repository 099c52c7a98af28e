"""Parts of a list that several processes score on any machines, and merging of the parts.

Invariant: a part consists of the entries of its recordings, as a single process for all would save
them, in its own journal next to the output. The merged entries equal that process's journal, so
every output has the same bytes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from asdf.commands.score_journal import journal_path, parse_entry
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.runs.files import atomic_write, files_named
from asdf.runs.systems import can_lock
from asdf.text import and_more

_END = ".progress"
_SHOWN = 8
_PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Part:
    """Part `number` of `of` parts, counted from 1."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read a part such as '3/40'.

        Raises:
            UsageError: the text is not a number of parts, or the part is not among them.
        """
        match = _PART.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(f"--part {text}: write K/N, from 1/N to N/N, such as 3/40.")
        return cls(int(match[1]), int(match[2]))

    def indices(self, count: int) -> range:
        """Return the indices of the part among `count` recordings, which are contiguous."""
        return range((self.number - 1) * count // self.of, self.number * count // self.of)

    def label(self) -> str:
        """Return 'part-3-of-40', for file names."""
        return f"part-{self.number}-of-{self.of}"


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


def _find_parts(output: Path) -> dict[Part, Path]:
    """Return the journal of each part of an output, in the order of the parts.

    Raises:
        UsageError: there are none, or not all, or those of two divisions.
    """
    folder = output.resolve().parent
    before = f".{output.name}."
    label = re.compile(r"part-([0-9]+)-of-([0-9]+)")
    found: dict[Part, Path] = {}
    for path in files_named(folder, f"{before}part-", end=_END):
        match = label.fullmatch(path.name.removeprefix(before).removesuffix(_END))
        if match is not None:
            found[Part(int(match[1]), int(match[2]))] = path
    divisions = sorted({part.of for part in found})
    if not divisions:
        raise UsageError(
            f"--merge: no parts of {output} are done. Run the same command with --part 1/N to N/N "
            "instead of --merge first."
        )
    if len(divisions) > 1:
        raise UsageError(
            f"--merge: {folder} contains parts of {' and of '.join(map(str, divisions))}. Remove "
            f"the files {before}part-*-of-N* of all divisions but one."
        )
    [of] = divisions
    every = [Part(number, of) for number in range(1, of + 1)]
    missing = [str(part.number) for part in every if part not in found]
    if missing:
        raise UsageError(
            f"--merge: of {of} parts of {output} {len(missing)} are missing: "
            f"{and_more(missing, _SHOWN)}. Run them first (--part K/{of})."
        )
    return {part: found[part] for part in every}


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
