"""Stage 0: lengths of utterances after speech activity detection, and checks of recordings.

Invariant: the file name of a measurement includes the digest of everything that it depends on (the
list, the sizes of a sample of its recordings, the speech activity detector), so it cannot be used
for another list, other recordings or other settings. A checksum ensures that a damaged one is
measured again. The location of the recordings does not matter: a copy on a node's local disk does
not change the name. A list that has grown reuses the newest measurement of its corpus, which a note
next to each file names, for recordings in both, and measures the others.

A header states the length of a recording, but not that it is complete. Each training recording is
therefore decoded to its end once; the measurement then records this, with the size and modification
time (ns) of the decoded file. A file has lines of `utterance samples [size time]`, separated by
TABs, and a checksum of them as the last line; files of ASDF's first version have none.
"""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from glob import escape
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple

import numpy as np

from asdf.audio import audio_length
from asdf.audio.recording_sources import difference_of
from asdf.audio.speech import identity, measure_speech, needs_whole_recording
from asdf.data.threads import threads
from asdf.distributed.shared_files import SharedFiles
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.places import file_size, file_state
from asdf.runs.files import atomic_write, write_text
from asdf.runs.layout import file_stem
from asdf.runs.log import LOG, track
from asdf.runs.parts import Columns, Parts
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity
from asdf.text import lines_and_more
from asdf.trials.trial_list import TrialList

NOT_DECODED = -1

# Number of rows held as Python objects at a time; all of a long list would take gigabytes.
_ROWS_AT_ONCE = 1 << 12

# No utterance has an empty name.
_CHECKSUM = b"\tchecksum\t"

_THREADS = 8
_SHOWN = 10
_SAMPLED_SIZES = 64
# Recordings per task of a thread, since passing single ones would take longer than reading a
# header.
_AT_ONCE = 16
_TRIALS, _TABLE = "trials", "table"


class Row(NamedTuple):
    """The measurements of a recording.

    Attributes:
        samples: Number of samples of speech.
        size, changed: Size in bytes and modification time (ns) of the file that was decoded to its
            end, or `NOT_DECODED` for both.
    """

    samples: int
    size: int
    changed: int


def write_table(path: Path, ids: Sequence[str], table: np.ndarray) -> None:
    """Write the rows `table` (N, 3) int64 of the utterances `ids`."""
    checksum = 0
    with atomic_write(path, "wb") as file:
        for start in range(0, len(table), _ROWS_AT_ONCE):
            rows = table[start : start + _ROWS_AT_ONCE].tolist()
            for row, (samples, size, changed) in enumerate(rows, start):
                decoded = "" if size == NOT_DECODED else f"\t{size}\t{changed}"
                line = _encode(f"{ids[row]}\t{samples}{decoded}\n")
                checksum = zlib.crc32(line, checksum)
                file.write(line)
        file.write(_encode_checksum(checksum))


def _encode_checksum(checksum: int) -> bytes:
    return _CHECKSUM + b"%08x\n" % checksum


def _encode(text: str) -> bytes:
    # File names may not be UTF-8.
    return text.encode("utf-8", "surrogateescape")


def read_table(path: Path, utterances: TrialList, audio: Audio = USUAL_AUDIO) -> np.ndarray | None:
    """Read the rows saved in `path`: (N, 3) int64.

    The result is None if the file does not exist or, with a warning, if it is damaged.
    """
    try:
        return _read_rows(path, utterances, audio)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, AsdfError) as error:
        LOG.warning("%s is ignored, and %s measured again: %s", path, utterances.name, error)
        return None


def _read_rows(path: Path, utterances: TrialList, audio: Audio) -> np.ndarray:
    """Read the rows in the file `path`.

    Raises:
        OSError, ValueError, OverflowError, AsdfError: the file cannot be read, is of other
            utterances, or is damaged.
    """
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    checksum = 0
    with path.open("rb") as file:
        for row, utterance in zip(table, utterances.ids, strict=True):
            line = file.readline()
            checksum = zlib.crc32(line, checksum)
            name = _encode(f"{utterance}\t")
            if not line.startswith(name):
                raise ValueError(f"it does not hold the utterances of {utterances.name}")
            values = line[len(name) :]
            numbers = [int(number) for number in values.split(b"\t")]
            if len(numbers) not in (1, 3) or numbers[0] < 0:
                raise ValueError(f"{values.strip()!r} are not lengths")
            row[: len(numbers)] = numbers
        stated = file.read(len(_CHECKSUM) + 10)
    if not stated:
        # A file without a checksum: its longest utterance must have the stated length.
        longest = int(table[:, 0].argmax())
        samples = table[longest, 0]
        if samples > audio_length(utterances.path(longest), audio):
            raise ValueError(f"{utterances.ids[longest]} is shorter than {samples} samples")
    elif stated != _encode_checksum(checksum):
        raise ValueError("its checksum is wrong")
    return table


@dataclass(frozen=True)
class Note:
    """The note on a table of a corpus.

    Attributes:
        table: Name of the table's file, in the folder of the note.
        sizes: File sizes of some of its recordings in bytes, by id.
    """

    table: str
    sizes: Mapping[str, int]

    def write(self, path: Path) -> None:
        """Write the note."""
        write_text(path, json.dumps({"table": self.table, "sizes": dict(self.sizes)}) + "\n")

    def agrees_with(self, utterances: TrialList) -> bool:
        """Whether its recordings that are in a list still have the same sizes."""
        for index, utterance in enumerate(utterances.ids):
            size = self.sizes.get(utterance)
            if size is not None and file_size(utterances.path(index)) != size:
                return False
        return True


def read_newest(folder: Path, prefix: str) -> Note | None:
    """Return the newest note of a corpus; None if there is none, or it is damaged.

    Args:
        prefix: Prefix of the names of its notes.
    """
    try:
        notes = folder.glob(f"{escape(prefix)}*.json")
        path = max(notes, key=lambda note: note.stat().st_mtime_ns, default=None)
        note = json.loads(path.read_bytes() if path else "null")
        table, sizes = note["table"], note["sizes"]
    except (OSError, ValueError, RecursionError, KeyError, TypeError):
        return None
    # A bare name, so that a note cannot lead out of its folder.
    is_name = isinstance(table, str) and Path(table).name == table
    if not is_name or not isinstance(sizes, dict):
        return None
    return Note(table, sizes)


def read_earlier_rows(path: Path, utterances: TrialList) -> np.ndarray | None:
    """Read the rows of `utterances` from the table of another list: (N, 3) int64.

    Missing rows are `NOT_DECODED` throughout. The result is None if the file does not exist or,
    with a warning, if it is damaged.
    """
    try:
        with path.open("rb") as file:
            return _match_rows(file, utterances)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError) as error:
        LOG.warning("%s is ignored: %s", path, error)
        return None


def _match_rows(file: BinaryIO, utterances: TrialList) -> np.ndarray:
    """Return the rows of a file, matched to the names of a list.

    Raises:
        ValueError, OverflowError: the file is damaged.
    """
    table = np.full((len(utterances), 3), NOT_DECODED, np.int64)
    names = map(_encode, utterances.ids)
    lines = _checked_lines(file)
    # A list that grew at its end has the same rows up to there, so no mapping is needed.
    matched = 0
    name = None
    others: dict[bytes, list[int]] = {}
    for known, numbers in lines:
        name = next(names, None)
        if known != name:
            others[known] = numbers
            break
        table[matched, : len(numbers)] = numbers
        matched += 1
        name = None
    others.update(lines)
    rest = names if name is None else chain([name], names)
    for index, unmatched in enumerate(rest, matched):
        numbers = others.get(unmatched, [])
        table[index, : len(numbers)] = numbers
    return table


def _checked_lines(file: BinaryIO) -> Iterator[tuple[bytes, list[int]]]:
    """Yield the name and the numbers of each line.

    Raises:
        ValueError: a line has no lengths, or the checksum at the end is wrong.
    """
    checksum = 0
    for line in file:
        if line.startswith(_CHECKSUM):
            if line != _encode_checksum(checksum):
                break
            return
        checksum = zlib.crc32(line, checksum)
        name, *values = line.rstrip(b"\n").split(b"\t")
        if len(values) not in (1, 3):
            raise ValueError(f"{line[:120]!r} is not a name with lengths")
        yield name, [int(value) for value in values]
    raise ValueError("its checksum is wrong")


_NO_ROW = Row(NOT_DECODED, NOT_DECODED, NOT_DECODED)


def lengths_file(
    folder: Path, utterances: TrialList, sad: SpeechActivity, audio: Audio = USUAL_AUDIO
) -> Path:
    """Return the path of the measured lengths of `utterances`."""
    depends_on = f"{utterances.digest()} {identity(sad, audio)} {sampled_sizes(utterances)}"
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    return folder / f"{file_stem(utterances.name)}.sad-{sad.mode}.{digest}.tsv"


def sampled_sizes(utterances: TrialList) -> list[int]:
    """Return the file sizes of some recordings in bytes, with -1 for missing files."""
    sizes = (file_size(utterances.path(index)) for index in _sample(utterances))
    return [-1 if size is None else size for size in sizes]


def _sample(utterances: TrialList) -> range:
    return range(0, len(utterances), max(1, len(utterances) // _SAMPLED_SIZES))


def measure_lengths(  # noqa: PLR0913
    utterances: TrialList,
    sad: SpeechActivity,
    folder: Path,
    world: World,
    stop: StopRequest | None = None,
    check: bool | Literal["once"] = False,
    skip_broken: bool = False,
    audio: Audio = USUAL_AUDIO,
    shared: SharedFiles | None = None,
) -> np.ndarray:
    """Return the lengths of all utterances in samples: int64, in list order, on every rank.

    They are measured once and saved in `folder`, periodically also during the measurement, so that
    a later call resumes it.

    Args:
        check: Whether each recording is decoded to its end, unless that was done for a file of its
            size and modification time. 'once' examines the files only if not all were decoded, or
            if one of a sample has changed.
        skip_broken: Whether recordings that cannot be read are logged and get length 0 instead of
            raising an error; the table is then not written.
        audio: Sampling rate and channels of recordings as they are read; lengths are at this rate.
        shared: Files through which the processes share long arrays; None to send them.

    Raises:
        AsdfError: recordings cannot be read, all named in one message; the others are saved.
        Stopped: a stop was requested; the measurements so far are saved.
    """
    if stop is None:
        stop = StopRequest()
    share = world.run_on_main if shared is None else shared.array
    files = world.run_on_main(lambda: _Files.of(folder, utterances, sad, audio))
    # Only on the main rank, since the whole table is three times the size that others need.
    tables: list[np.ndarray | None] = []
    world.run_on_main(lambda: tables.append(read_table(files.table, utterances, audio)))
    found = tables[0] if tables else None
    usable = share(lambda: _usable_lengths(found, files, utterances, check))
    if usable is not None:
        return usable
    what = f"{'checking' if check else 'measuring'} {utterances.name}"
    parts = Parts(folder, f".{files.table.name}.", lambda: {"check": bool(check)})
    known = share(
        lambda: _with_parts(found, parts.read(what), files, utterances, bool(check), what)
    )
    started = time.monotonic()
    indices = range(world.rank, len(utterances), world.size)
    local = _LocalLengths(utterances, sad, bool(check), known, parts, indices, audio)
    local.measure(what, stop, shown=world.is_main)
    world.stop_together(stop, f"while {what}")
    gathered = world.gather((local.numbers, local.broken, local.differing))
    lengths: np.ndarray = share(
        lambda: _save(files, utterances, found, gathered or [], skip_broken)[:, 0].copy()
    )
    # A failure must reach all ranks, since the others would wait for this one.
    world.run_on_main(parts.remove)
    if check and found is not None and (found[:, 1] >= 0).all():
        LOG.info(
            "compared the size and modification time of the %d recordings of %s with those of "
            "their check in %.1f s (recipe.check_recordings='once' compares %d of them)",
            len(utterances),
            utterances.name,
            time.monotonic() - started,
            len(_sample(utterances)),
        )
    return lengths


@dataclass(frozen=True)
class _Files:
    """The files for the lengths of a list.

    Attributes:
        table: Path of the list's table.
        notes: Prefix of the names of the notes on the tables of its corpus, one for each.
    """

    table: Path
    notes: str

    @classmethod
    def of(cls, folder: Path, utterances: TrialList, sad: SpeechActivity, audio: Audio) -> _Files:
        """Return the files in `folder` for a list that is measured with these settings."""
        digest = hashlib.sha256(identity(sad, audio).encode()).hexdigest()[:12]
        notes = f"{file_stem(utterances.name)}.sad-{sad.mode}.by-{digest}."
        return cls(lengths_file(folder, utterances, sad, audio), notes)

    def earlier_rows(self, utterances: TrialList, check: bool) -> np.ndarray | None:
        """Return rows of the newest table of the corpus for recordings of a list without a table.

        Args:
            check: Whether the file of each row is compared later; otherwise a sample is compared
                now.
        """
        note = read_newest(self.table.parent, self.notes)
        if note is None or note.table == self.table.name:
            return None
        if not check and not note.agrees_with(utterances):
            LOG.info("recordings of %s were replaced: all are measured again", utterances.name)
            return None
        rows = read_earlier_rows(self.table.with_name(note.table), utterances)
        if rows is None:
            return None
        LOG.info(
            "%d of the %d recordings of %s were measured with an earlier list of it",
            (rows[:, 0] != NOT_DECODED).sum(),
            len(utterances),
            utterances.name,
        )
        return rows

    def note(self, utterances: TrialList) -> None:
        """Note that the list's existing table belongs to its corpus, unless that is noted."""
        digest = self.table.name.split(".")[-2]
        path = self.table.with_name(f"{self.notes}{digest}.json")
        if path.exists():
            return
        ids = [utterances.ids[index] for index in _sample(utterances)]
        sizes = dict(zip(ids, sampled_sizes(utterances), strict=True))
        Note(self.table.name, sizes).write(path)


def _usable_lengths(
    found: np.ndarray | None, files: _Files, utterances: TrialList, check: bool | Literal["once"]
) -> np.ndarray | None:
    """Return the lengths in the table if it needs no further work; else None."""
    if found is None:
        return None
    # The table is complete without it, and a folder of an earlier version may be read-only.
    with suppress(AsdfError):
        files.note(utterances)
    if check is True or (check == "once" and not (found[:, 1] >= 0).all()):
        return None
    if check == "once":
        for index in _sample(utterances):
            path = utterances.path(index)
            if file_state(path) != tuple(found[index, 1:].tolist()):
                LOG.info("%s was changed: all of %s are compared", path, utterances.name)
                return None
    lengths: np.ndarray = found[:, 0].copy()
    return lengths


@dataclass
class _LocalLengths:
    """The measurements of a rank.

    Attributes:
        check: Whether recordings are decoded to their ends.
        known: Rows of the whole list that were measured before; None if there are none.
        parts: Parts that are saved periodically.
        indices: Indices of the rank's utterances.
        audio: Sampling rate and channels of recordings as they are read.
        numbers: Three numbers per utterance in one array, since Python objects would take
            gigabytes.
        broken: Messages on recordings that cannot be read.
        differing: Remarks on recordings whose channels or sound tracks are not the same sound.
        saved: Number of utterances that are already in a part.
    """

    utterances: TrialList
    sad: SpeechActivity
    check: bool
    known: np.ndarray | None
    parts: Parts
    indices: range
    audio: Audio
    numbers: array[int] = field(default_factory=lambda: array("q"))
    broken: list[str] = field(default_factory=list)
    differing: list[str] = field(default_factory=list)
    saved: int = 0

    def measure(self, what: str, stop: StopRequest, shown: bool) -> None:
        """Measure the utterances, and save them periodically and at a premature end."""
        count = len(self.indices)
        portions = (self.indices[start : start + _AT_ONCE] for start in range(0, count, _AT_ONCE))
        try:
            with threads(_THREADS) as pool:
                results = chain.from_iterable(pool.map(self._measure_part, portions, stop))
                for result in track(results, count, what, shown=shown, unit="utterances"):
                    if isinstance(result, AsdfError):
                        self.broken.append(str(result))
                        result = _NO_ROW
                    self.numbers.extend(result)
                    if self.parts.due:
                        self._save_part()
        finally:
            # What is complete and whole is written as a table, which replaces all parts.
            if self.broken or len(self.numbers) < 3 * count:
                self._save_part()

    def _save_part(self) -> None:
        """Save the measurements since the last part, except broken and known recordings."""
        measured = np.array(self.numbers[3 * self.saved :], np.int64).reshape(-1, 3)
        trials = np.array(self.indices[self.saved : self.saved + len(measured)], np.int64)
        self.saved += len(measured)
        is_new = (measured != _NO_ROW).any(axis=1)
        if self.known is not None:
            is_new &= (measured != self.known[trials]).any(axis=1)
        if is_new.any():
            self.parts.add({_TRIALS: trials[is_new], _TABLE: measured[is_new]})
        self.parts.save()

    def _measure_part(self, part: Sequence[int]) -> list[Row | AsdfError]:
        """Measure some utterances; one that cannot be read gives its error."""
        rows: list[Row | AsdfError] = []
        for index in part:
            try:
                rows.append(self._measure(index))
            except AsdfError as error:
                rows.append(error)
        return rows

    def _measure(self, index: int) -> Row:
        path = self.utterances.path(index)
        known = None if self.known is None else Row(*self.known[index].tolist())
        if not self.check:
            if known is not None and known != _NO_ROW:
                return known
            if not needs_whole_recording(self.sad):
                measured = measure_speech(path, self.sad, audio=self.audio)
                return Row(measured.speech, NOT_DECODED, NOT_DECODED)
        size, changed = file_state(path) or (NOT_DECODED, NOT_DECODED)
        if known is not None and size >= 0 and known[1:] == (size, changed):
            return known
        row = Row(measure_speech(path, self.sad, True, self.audio).speech, size, changed)
        difference = difference_of(path)
        if difference is not None:
            self.differing.append(f"{path}: {difference[1].why}")
        return row


def _with_parts(
    found: np.ndarray | None,
    parts: list[Columns],
    files: _Files,
    utterances: TrialList,
    check: bool,
    what: str,
) -> np.ndarray | None:
    """Return the known rows, with `_NO_ROW` for others; None if there are none."""
    saved = files.earlier_rows(utterances, check) if found is None else found
    if not parts:
        return saved
    count = len(utterances)
    known = np.tile(np.array(_NO_ROW, np.int64), (count, 1)) if saved is None else saved.copy()
    for part in parts:
        known[part[_TRIALS]] = part[_TABLE]
    measured = sum(len(part[_TRIALS]) for part in parts)
    LOG.info("%s continues: %d of %d recordings were already done", what, measured, count)
    return known


def _save(
    files: _Files,
    utterances: TrialList,
    saved: np.ndarray | None,
    parts: Sequence[tuple[array[int], list[str], list[str]]],
    skip_broken: bool,
) -> np.ndarray:
    """Join the measurements of all ranks, (N, 3), and write them unless they equal `saved`."""
    broken = [message for _, messages, _ in parts for message in messages]
    differing = sorted(remark for _, _, remarks in parts for remark in remarks)
    if differing:
        LOG.warning(
            "%d of the %d recordings of %s have channels or sound tracks that are not the same "
            "sound; the mean of the channels, or one track, is heard:%s",
            len(differing),
            len(utterances),
            utterances.name,
            lines_and_more(differing, _SHOWN),
        )
    problem = (
        f"{len(broken)} of the {len(utterances)} recordings of {utterances.name} cannot be "
        f"used:{lines_and_more(broken, _SHOWN)}"
    )
    if broken and not skip_broken:
        raise AsdfError(
            f"{problem}\nFix them, or take them out of the list of {utterances.name}. The others "
            "are not checked again."
        )
    table = np.empty((len(utterances), 3), np.int64)
    for rank, (numbers, _, _) in enumerate(parts):
        table[rank :: len(parts)] = np.array(numbers, np.int64).reshape(-1, 3)
    if broken:
        LOG.warning("%s", problem)
        table[(table == _NO_ROW).all(axis=1), 0] = 0
        return table
    if saved is not None and np.array_equal(table, saved):
        return table
    write_table(files.table, utterances.ids, table)
    files.note(utterances)
    decoded = int((table[:, 1] != NOT_DECODED).sum())
    checked = f", {decoded} of them decoded to their ends" if decoded else ""
    LOG.info("measured %s: %d utterances%s", utterances.name, len(utterances), checked)
    return table
