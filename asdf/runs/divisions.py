"""Work on a list, divided among independent processes.

Invariant: parts 1 to N of a division are disjoint and together cover all of the work, in any order
and on any process. The whole and a part, or the same part twice, never run at once.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from asdf.errors import AsdfError, InUseError, UsageError
from asdf.runs.files import files_named, remove_unfinished, write_advice
from asdf.runs.systems import can_lock
from asdf.text import and_more

T = TypeVar("T")

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
        """Return the indices of the part among `count` entries, which are contiguous."""
        return range((self.number - 1) * count // self.of, self.number * count // self.of)

    def every(self, count: int) -> range:
        """Return the indices of the part among `count` entries, every `of`-th one.

        With entries sorted by cost, all parts take about as long.
        """
        return range(self.number - 1, count, self.of)

    def of_every(self, entries: Sequence[T]) -> list[T]:
        """Return every `of`-th entry, beginning with this part's first."""
        return [entries[index] for index in self.every(len(entries))]

    def label(self) -> str:
        """Return 'part-3-of-40', for file names."""
        return f"part-{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parts_of(count: int) -> list[Part]:
    """Return all parts of a division into `count`."""
    return [Part(number, count) for number in range(1, count + 1)]


def find_parts(folder: Path, before: str, end: str, what: str) -> dict[Part, Path]:
    """Return the file of each part of a division, in the order of the parts.

    Args:
        folder: Folder of the files.
        before, end: Parts of their names before and after the part's label.
        what: Name of the divided work, for messages.

    Raises:
        UsageError: there are none, or not all, or those of two divisions.
    """
    found: dict[Part, Path] = {}
    label = re.compile(r"part-([0-9]+)-of-([0-9]+)")
    for path in files_named(folder, f"{before}part-", end=end):
        match = label.fullmatch(path.name.removeprefix(before).removesuffix(end))
        if match is not None:
            found[Part(int(match[1]), int(match[2]))] = path
    divisions = sorted({part.of for part in found})
    if not divisions:
        raise UsageError(
            f"--merge: no parts of {what} are done. Run the same command with --part 1/N to N/N "
            "instead of --merge first."
        )
    if len(divisions) > 1:
        raise UsageError(
            f"--merge: {folder} contains parts of {' and of '.join(map(str, divisions))}. Remove "
            f"the files {before}part-*-of-N* of all divisions but one."
        )
    every = parts_of(divisions[0])
    missing = [str(part.number) for part in every if part not in found]
    if missing:
        raise UsageError(
            f"--merge: of {divisions[0]} parts of {what} {len(missing)} are missing: "
            f"{and_more(missing, _SHOWN)}. Run them first (--part K/{divisions[0]})."
        )
    return {part: found[part] for part in every}


def lock_work(folder: Path, output: Path, part: Part | None) -> IO[str]:
    """Return an open file in `folder` whose lock keeps others from writing the same output.

    Args:
        folder: Folder of the intermediate files of the output.
        part: Part of the work; None for all of it, or for the merge.

    Raises:
        InUseError: another process works on the whole, on the same part or on another division.
        AsdfError: the folder cannot be written.
    """
    name = "lock" if part is None else f"lock-{part.label()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # A lock rather than a marker file, since it always ends with its process.
        mark = (folder / name).open("w")
    except OSError as error:
        raise AsdfError(write_advice(folder, error)) from error
    try:
        can_lock(mark)
        # Each takes its own lock first, so that at least one of two processes sees the other.
        for other in folder.glob("lock*"):
            of_division = part and re.fullmatch(rf"lock-part-\d+-of-{part.of}", other.name)
            if other.name == name or of_division:
                continue
            # A process that has ended may remove the folder now.
            with suppress(FileNotFoundError), other.open("r+") as opened:
                can_lock(opened)
    except BlockingIOError:
        mark.close()
        raise InUseError(
            f"another process is writing {output}. Wait for it, or name another output."
        ) from None
    if part is None:
        # With parts, other processes may be writing now.
        remove_unfinished(folder)
        remove_unfinished(output.resolve().parent, output=output.name)
    return mark
