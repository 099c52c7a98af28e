"""Journals of long work: results are saved as they arrive, the same command resumes, or in parts.

Invariant: added entries survive any end of the process, including `kill -9`; a partial line is
dropped. Only the same work resumes a journal: the same network, options and recordings, in the same
order. A part of a list that several processes score on any machines consists of the entries of its
recordings, as a single process for all would save them, in its own journal next to the output. The
merged entries equal that process's journal, so every output has the same bytes.

A part is the same command with --part K/N, by hand or as a job array of Slurm; the same command
with --merge writes the outputs, whoever starts them.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from asdf.commands.options import Command, flag, option
from asdf.commands.outputs import STANDARD_INPUT, show
from asdf.errors import AsdfError, InUseError, UsageError
from asdf.facts import AUDIO_SUFFIXES
from asdf.hub import SUFFIXES
from asdf.places import split_part
from asdf.runs.files import atomic_write, files_named, write_advice
from asdf.runs.systems import can_lock
from asdf.text import and_more

Entry = dict[str, Any]

_END = ".progress"
_SHOWN = 8
_PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")
# Bytes of entries without an output in memory; more are in a temporary file.
_HELD = 2**24
# Options of the division, with the number of arguments that follow each.
_OF_DIVISION = {"--part": 1, "--merge": 0, "--slurm": 1, "--max-running": 1, "--dry-run": 0}
# Suffixes of files that are read in a folder; .scp is a table of Kaldi.
_READ_SUFFIXES = AUDIO_SUFFIXES | {*SUFFIXES, ".py", ".scp"}

NO_OUTPUT = (
    "--part, --merge and --slurm save parts next to an output file. Give one with --scores, --csv "
    "or --json."
)


class Journal:
    """Entries by index, in `.NAME.progress` next to the output NAME; for a screen, until shown.

    Memory holds 8 bytes per index; entries are read back from the file.

    Attributes:
        path: Path of the file; None without an output.
        known: Number of entries.
        begins_anew: Whether the file contained entries of other work, which were removed.
    """

    def __init__(
        self,
        output: Path | None,
        work: Mapping[str, Any],
        count: int,
        is_valid: Callable[[Entry], bool],
        part: str = "",
    ) -> None:
        """Resume the journal of `output`, or start one.

        Args:
            work: Facts that the entries depend on, as plain values.
            count: Number of indices.
            is_valid: Function that returns whether an entry of an earlier command is still valid.
            part: Name of the part of the work; '' for all of it.

        Raises:
            InUseError: another process writes the same output.
            AsdfError: it cannot be written.
        """
        self.path = None if output is None else journal_path(output, part)
        self.known = 0
        self.begins_anew = False
        # One number per recording, because a list may have millions.
        self._offsets = array("q", [-1]) * count
        self._file: IO[bytes] | SpooledTemporaryFile[bytes]
        self._reader: IO[bytes] | SpooledTemporaryFile[bytes]
        if output is None or self.path is None:
            self._file = self._reader = SpooledTemporaryFile(_HELD)  # noqa: SIM115
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # Unbuffered, so that written data is in the kernel, and survives a killed process.
            self._file = file = self.path.open("a+b", buffering=0)
            _lock(file, output)
            self.begins_anew = not self._read_entries(work, is_valid)
        except OSError as error:
            raise AsdfError(write_advice(self.path, error)) from error
        # A second file object, which has a buffer.
        self._reader = self.path.open("rb")

    def __contains__(self, index: int) -> bool:
        return self._offsets[index] >= 0

    def __getitem__(self, index: int) -> Entry:
        self._reader.seek(self._offsets[index])
        entry: Entry = json.loads(self._reader.readline())
        return entry

    def add(self, index: int, entry: Entry) -> None:
        """Append an entry.

        Raises:
            AsdfError: the disk is full.
            UsageError: a value is not plain, such as that of a user's column.
        """
        self._file.seek(0, os.SEEK_END)
        offset = self._file.tell()
        line = json.dumps({**entry, "index": index}, default=_as_number).encode() + b"\n"
        try:
            # A full disk may accept a part of the line, without an error.
            if self._file.write(line) != len(line):
                self._file.truncate(offset)
                raise OSError("the disk is full")
        except OSError as error:
            raise AsdfError(write_advice(self.path or Path("the results"), error)) from error
        self.known += self._offsets[index] < 0
        self._offsets[index] = offset

    def clear(self) -> None:
        """Drop the entries, which are not read again; their indices stay known."""
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        """Close the file, which is kept for resuming the same work."""
        self._reader.close()
        self._file.close()

    def remove(self) -> None:
        """Remove the file, because the work is done and its output written."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
        self.close()

    def _read_entries(self, work: Mapping[str, Any], is_valid: Callable[[Entry], bool]) -> bool:
        """Read the entries of the file, up to an incomplete line.

        Returns:
            False if they were of other work, and were removed.
        """
        assert self.path is not None
        with self.path.open("rb") as file:
            first = file.readline()
            if not _is_of(first, work):
                self._file.truncate(0)
                self._file.write(_header(work))
                # A new file is empty: it contained no other work.
                return not first
            offset = len(first)
            for entry, line in _entries(file):
                # All that follows a damaged line is dropped, and scored again.
                if not 0 <= entry["index"] < len(self._offsets):
                    break
                if is_valid(entry):
                    self.known += self._offsets[entry["index"]] < 0
                    self._offsets[entry["index"]] = offset
                offset += len(line)
        self._file.truncate(offset)
        return True


def _as_number(value: object) -> object:
    """Return a number of NumPy, which a user's column may give, as one of Python."""
    # Not imported for the help of a command.
    import numpy as np

    if isinstance(value, np.generic):
        return value.item()
    raise UsageError(
        f"a {type(value).__name__} cannot be saved: its column needs `kind`, or `saved` and "
        "`restored`."
    )


def _header(work: Mapping[str, Any]) -> bytes:
    """Return the first line, which identifies the work, so that only the same work resumes."""
    return json.dumps(dict(work)).encode() + b"\n"


def _is_of(header: bytes, work: Mapping[str, Any]) -> bool:
    """Return whether a first line is of this work, whatever the order in which it is stated."""
    with suppress(ValueError):
        return bool(header.endswith(b"\n") and json.loads(header) == json.loads(_header(work)))
    return False


def _lock(journal: IO[bytes], output: Path) -> None:
    """Lock a journal for this process.

    Raises:
        InUseError: another process writes the output.
    """
    try:
        # A lock instead of a marker file, because it ends with its process in any case.
        can_lock(journal)
    except BlockingIOError:
        raise InUseError(f"another process is writing {output}. Wait for it.") from None


def _entries(file: IO[bytes]) -> Iterator[tuple[Entry, bytes]]:
    """Yield the entries with their lines, up to an incomplete or damaged line."""
    for line in file:
        try:
            entry = json.loads(line)
        except ValueError:
            return
        # The process was killed while writing the line.
        if not line.endswith(b"\n") or not isinstance(entry, dict):
            return
        if not isinstance(entry.get("index"), int):
            return
        yield entry, line


def journal_path(output: Path, part: str = "") -> Path:
    """Return the path of the journal of an output, or of a part of its work."""
    label = f"{part}." if part else ""
    return output.resolve().parent / f".{output.name}.{label}progress"


def stamp_of(path: str) -> list[int]:
    """Return the size and modification time of a recording, or of its archive."""
    path, _ = split_part(path)
    # The path of a recording in an archive is below the archive's path, which alone exists.
    for candidate in (path, *map(str, Path(path).parents)):
        with suppress(OSError, ValueError):
            status = os.stat(candidate)  # noqa: PTH116
            return [status.st_size, status.st_mtime_ns]
    return []


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
        AsdfError: a journal cannot be read or written.
    """
    parts = _find_parts(output)
    with suppress(FileNotFoundError), journal_path(output).open("rb+") as journal:
        _lock(journal, output)
    with atomic_write(journal_path(output), "wb") as file:
        file.write(_header(work))
        for part, path in parts.items():
            mine = part.indices(count)
            try:
                with path.open("rb") as saved:
                    is_ours = _is_of(saved.readline(), work)
                    # One part at a time, because a list may have millions of entries. A recording
                    # that changed was scored again, after its first entry.
                    known = {entry["index"]: line for entry, line in _entries(saved)}
            except OSError as error:
                raise AsdfError(f"cannot read {path}: {error.strerror}.") from error
            problem = ""
            if not is_ours or any(index not in mine for index in known):
                problem = f"is of another network, list or options: remove {path}, and score it"
            elif len(known) < len(mine):
                problem = f"is incomplete, {len(known)} of {len(mine)} recordings ({path}): run it"
            if problem:
                raise UsageError(f"part {part.number}/{part.of} {problem} again.")
            file.writelines(known[index] for index in mine)
    return list(parts.values())


def _find_parts(output: Path) -> dict[Part, Path]:
    """Return the journal of each part of an output, in the order of the parts.

    Raises:
        UsageError: there are none, or not all, or those of two divisions.
    """
    before = f".{output.name}."
    label = re.compile(r"part-([0-9]+)-of-([0-9]+)")
    found: dict[Part, Path] = {}
    for path in files_named(output.resolve().parent, f"{before}part-", end=_END):
        match = label.fullmatch(path.name.removeprefix(before).removesuffix(_END))
        if match is not None:
            found[Part(int(match[1]), int(match[2]))] = path
    divisions = sorted({part.of for part in found})
    if len(divisions) != 1:
        problem = f"has parts of {' and of '.join(map(str, divisions))}: remove all but one kind."
        if not divisions:
            problem = "has no parts: run the same command with --part 1/N to N/N first."
        raise UsageError(f"--merge: {output} {problem}")
    [of] = divisions
    every = [Part(number, of) for number in range(1, of + 1)]
    missing = [str(part.number) for part in every if part not in found]
    if missing:
        raise UsageError(
            f"--merge: {output} lacks {len(missing)} of {of} parts: {and_more(missing, _SHOWN)}. "
            f"Run each of these first (--part K/{of})."
        )
    return {part: found[part] for part in every}


@dataclass(frozen=True, kw_only=True)
class ArrayOptions:
    """On many machines."""

    part: str | None = option(
        "do only the K-th of N parts of the work, on this machine, and save the results next to "
        "the outputs, for --merge",
        "K/N",
    )
    merge: bool = flag(
        "write the outputs from the parts 1/N to N/N; they have the same bytes as from one process"
    )
    slurm: int | None = option(
        "submit N parts as a Slurm job array, and a job that merges them; options after -- are "
        "passed to sbatch",
        "N",
    )
    max_running: int | None = option("maximum number of array tasks that run at a time", "N")
    dry_run: bool = flag("print the jobs that --slurm would submit")

    @property
    def ways(self) -> list[str]:
        """The given options that divide the work, of which only one is allowed."""
        named = {
            "--part": self.part is not None,
            "--merge": self.merge,
            "--slurm": self.slurm is not None,
        }
        return [name for name, is_named in named.items() if is_named]


def split_at_dashes(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments before '--', and those after it."""
    words = list(arguments)
    if "--" not in words:
        return words, []
    index = words.index("--")
    return words[:index], words[index + 1 :]


def split_sbatch(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the arguments, and options of sbatch after '--'; [] without --slurm."""
    # Without --slurm, '--' has its usual meaning: what follows are names of files.
    is_array = any(word.partition("=")[0] == "--slurm" for word in arguments)
    return split_at_dashes(arguments) if is_array else (list(arguments), [])


def without_division(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of the undivided command."""
    words = []
    following = 0
    for word in arguments:
        if following:
            following -= 1
            continue
        name, equals, _ = word.partition("=")
        if name not in _OF_DIVISION:
            words.append(word)
        elif not equals:
            following = _OF_DIVISION[name]
    return words


def check_division(args: ArrayOptions, sbatch_options: Sequence[str]) -> None:
    """Raise a UsageError for contradictory options of a division."""
    of_slurm = sbatch_options or args.max_running is not None or args.dry_run
    refusals = {
        f"{' and '.join(args.ways)} exclude each other: --slurm does all that the others do. Give "
        "one of them.": len(args.ways) > 1,
        "--max-running, --dry-run and sbatch options after -- need --slurm N.": of_slurm
        and args.slurm is None,
        "--slurm and --max-running: give a number from 1 to 999,999.": not all(
            number is None or 1 <= number < 1_000_000 for number in (args.slurm, args.max_running)
        ),
    }
    for message, applies in refusals.items():
        if applies:
            raise UsageError(message)
    if args.part is not None:
        Part.parse(args.part)


def _files_of(named: Sequence[str | Path | None]) -> tuple[str, ...]:
    """Return the given files, and for folders their recordings, weights, tables and code."""
    files = []
    for name in named:
        if name is None:
            continue
        if not Path(name).is_dir():
            files.append(str(name))
            continue
        # Sorted: file systems list names in any order, and the files identify the work. A folder
        # may also contain outputs.
        for path in sorted(Path(name).rglob("*")):
            if path.suffix.lower() in _READ_SUFFIXES and not path.name.startswith("."):
                files.append(str(path))
    return tuple(files)


def submit_list(
    command: Command[Any],
    arguments: Sequence[str],
    sbatch_options: Sequence[str],
    output: Path | None,
    named: Sequence[str | Path | None],
) -> None:
    """Submit the missing parts and their merge, or print what would be submitted.

    Args:
        output: Output next to which parts are saved; None: none is a file.
        named: Files and folders that are read; replacing them makes the work different.

    Raises:
        UsageError: an option is wrong, there is no Slurm here, or jobs for the same output are
            queued.
        AsdfError: Slurm refuses.
    """
    from asdf.launcher import PartArray, check_array_options, sbatch_words, submit_parts

    args = command.read(arguments)
    words = without_division(arguments)
    problem = ""
    if output is None:
        problem = NO_OUTPUT
    elif any(name in STANDARD_INPUT for name in named):
        problem = "--slurm starts several processes, which cannot share standard input ('-')."
    elif command.read(words).ways:
        # Each part would divide the work again.
        problem = "an option is abbreviated: write --slurm, --max-running and --dry-run in full."
    if problem:
        raise UsageError(problem)
    assert output is not None
    array = PartArray(tuple(words), _files_of(named), args.slurm, output, Path.cwd())
    if array.is_merged():
        show(f"nothing to submit: {output} exists already. Remove it to compute it again.")
        return
    missing = array.missing()
    options = sbatch_words(array, missing, args.max_running, sbatch_options)
    if args.dry_run:
        for name, sbatch in options.items():
            show(f"# sbatch {shlex.join([*sbatch, str(array.scripts / name)])}")
            show(array.parts_script() if name == "parts.sh" else array.merge_script())
        return
    check_array_options(sbatch_options, "parts", "this machine does all of the work")
    job, merge = submit_parts(array, options)
    done = f"{args.slurm - len(missing)} of {args.slurm} parts were done before"
    if missing:
        done = f"submitted {len(missing)} of {args.slurm} parts as job {job}"
    jobs = ",".join(filter(None, (job, merge)))
    show(
        f"{done}, and their merge as job {merge}\n"
        f"  watch: squeue --job {jobs}; the jobs' output is in {array.scripts}\n"
        f"  cancel all: scancel {jobs.replace(',', ' ')}\n"
        "The same command submits unfinished parts again."
    )
