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

Digests of recordings detect changes since an earlier start. They depend on content, not on location
or the time of copying. Reading all of it would take longer than many a training, so only the size
and some kilobytes from the middle of each are read; in a long list, only of equally spaced
recordings; for a parquet file, only the size. Other differences are not detected.

Shapes: N utterances of a list.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from glob import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from asdf.audio import audio_length
from asdf.audio.channels import difference_of
from asdf.audio.speech import identity, measure_speech, needs_whole_recording
from asdf.data.threads import threads
from asdf.distributed.shared_files import SharedFiles
from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError
from asdf.places import file_size, file_state, find_member, open_file
from asdf.runs.files import atomic_write, write_text
from asdf.runs.layout import file_stem
from asdf.runs.log import LOG, track
from asdf.runs.parts import Parts
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity
from asdf.text import lines_and_more
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from asdf.distributed.world import World

# Samples of speech; size in bytes and modification time (ns) of the file that was decoded to its
# end, or `_UNKNOWN` for both.
Row = list[int]
_UNKNOWN = -1
_NO_ROW: Row = [_UNKNOWN, _UNKNOWN, _UNKNOWN]

# Number of rows held as Python objects at a time; all of a long list would take gigabytes.
_ROWS_AT_ONCE = 1 << 12
# No utterance has an empty name.
_CHECKSUM = b"\tchecksum\t"
_THREADS = 8
_SHOWN = 10
# Number of files that `recipe.check_recordings = 'once'` looks up at a later start.
_LOOKED_UP = 64
# Recordings per task of a thread, since passing single ones would take longer than reading a
# header.
_AT_ONCE = 16
_TRIALS, _TABLE = "trials", "table"

# Of digests: the number of recordings that are always examined, bytes of each, and characters.
MAX_RECORDINGS = 20_000
_BYTES = 4096
_CHARACTERS = 16


def lengths_file(
    folder: Path, utterances: TrialList, sad: SpeechActivity, audio: Audio = USUAL_AUDIO
) -> Path:
    """Return the path of the measured lengths of `utterances`."""
    depends_on = f"{utterances.digest()} {identity(sad, audio)} {sampled_sizes(utterances)}"
    digest = hashlib.sha256(depends_on.encode()).hexdigest()[:12]
    return folder / f"{file_stem(utterances.name)}.sad-{sad.mode}.{digest}.tsv"


def sampled_sizes(utterances: TrialList) -> list[int]:
    """Return the file sizes of some recordings in bytes, with -1 for missing files."""
    sizes = map(file_size, map(utterances.path, _sample(utterances, MAX_RECORDINGS)))
    return [-1 if size is None else size for size in sizes]


def _sample(utterances: TrialList, count: int) -> range:
    """Return equally spaced indices of at least `count` utterances, or of all."""
    return range(0, len(utterances), max(1, len(utterances) // count))


def _portions(indices: range) -> Iterator[range]:
    """Yield the indices of each task of a thread."""
    for start in range(0, len(indices), _AT_ONCE):
        yield indices[start : start + _AT_ONCE]


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
    saved = world.run_on_main(lambda: SavedLengths.of(folder, utterances, sad, audio))
    # Only on the main rank, since the whole table is three times the size that others need.
    own: np.ndarray | None = None

    def find_usable() -> np.ndarray | None:
        nonlocal own
        own = saved.read_own(utterances, audio)
        return saved.usable(own, utterances, check)

    usable = share(find_usable)
    if usable is not None:
        return usable
    what = f"{'checking' if check else 'measuring'} {utterances.name}"
    parts = Parts(folder, f".{saved.path.name}.", lambda: {"check": bool(check)})

    def find_known() -> np.ndarray | None:
        known = saved.read_earlier(utterances, audio, bool(check)) if own is None else own.copy()
        done = parts.read(what)
        if done:
            known = np.full((len(utterances), 3), _UNKNOWN, np.int64) if known is None else known
            for part in done:
                known[part[_TRIALS]] = part[_TABLE]
            count = sum(len(part[_TRIALS]) for part in done)
            LOG.info(f"{what} continues: {count} of {len(utterances)} recordings were already done")
        return known

    known = share(find_known)
    started = time.monotonic()
    indices = range(world.rank, len(utterances), world.size)
    local = _LocalLengths(utterances, sad, bool(check), known, parts, indices, audio)
    local.measure(what, stop, shown=world.is_main)
    world.stop_together(stop, f"while {what}")
    gathered = world.gather((local.numbers, local.broken, local.differing))

    def join() -> np.ndarray:
        table, is_whole = _join(gathered or [], utterances, skip_broken)
        if is_whole and (own is None or not np.array_equal(table, own)):
            saved.write(table, utterances)
        return np.array(table[:, 0])

    lengths: np.ndarray = share(join)
    # A failure must reach all ranks, since the others would wait for this one.
    world.run_on_main(parts.remove)
    if check and own is not None and (own[:, 1] >= 0).all():
        LOG.info(
            f"compared the size and modification time of the {len(utterances)} recordings of "
            f"{utterances.name} with those of their check in {time.monotonic() - started:.1f} s "
            f"(recipe.check_recordings='once' compares about {_LOOKED_UP} of them)"
        )
    return lengths


@dataclass(frozen=True)
class SavedLengths:
    """The saved lengths of a list.

    Attributes:
        path: Path of the list's own table.
        notes: Prefix of the names of the notes on the tables of its corpus, one for each.
    """

    path: Path
    notes: str

    @classmethod
    def of(
        cls, folder: Path, utterances: TrialList, sad: SpeechActivity, audio: Audio
    ) -> SavedLengths:
        """Return the files in `folder` for a list that is measured with these settings."""
        digest = hashlib.sha256(identity(sad, audio).encode()).hexdigest()[:12]
        notes = f"{file_stem(utterances.name)}.sad-{sad.mode}.by-{digest}."
        return cls(lengths_file(folder, utterances, sad, audio), notes)

    def read_own(self, utterances: TrialList, audio: Audio) -> np.ndarray | None:
        """Return the rows of the list's own table, (N, 3) int64; None without a usable one."""
        return _read_rows(self.path, utterances, audio, f", and {utterances.name} measured again")

    def usable(
        self, own: np.ndarray | None, utterances: TrialList, check: bool | Literal["once"]
    ) -> np.ndarray | None:
        """Return the lengths in the list's own table if they need no further work; else None."""
        if own is None:
            return None
        # The table is complete without it, and a folder of an earlier version may be read-only.
        with suppress(AsdfError):
            self._note(utterances)
        if check is True or (check == "once" and (own[:, 1] < 0).any()):
            return None
        for index in _sample(utterances, _LOOKED_UP) if check else ():
            path = utterances.path(index)
            if file_state(path) != tuple(own[index, 1:].tolist()):
                LOG.info("%s was changed: all of %s are compared", path, utterances.name)
                return None
        return np.array(own[:, 0])

    def read_earlier(self, utterances: TrialList, audio: Audio, check: bool) -> np.ndarray | None:
        """Return rows of the newest table of the corpus for recordings of a list without a table.

        Args:
            check: Whether the file of each row is compared later; otherwise a sample is compared
                now.
        """
        try:
            notes = self.path.parent.glob(f"{escape(self.notes)}*.json")
            newest = max(notes, key=lambda note: note.stat().st_mtime_ns)
            note = json.loads(newest.read_bytes())
            # A bare name, so that a note cannot lead out of its folder.
            table = self.path.with_name(note["table"])
            sizes = dict(note["sizes"])
        except (OSError, ValueError, RecursionError, KeyError, TypeError):
            return None  # there is no note, or it is damaged
        if table == self.path:
            return None  # it is missing or damaged
        known = [] if check else [i for i, name in enumerate(utterances.ids) if name in sizes]
        if any(file_size(utterances.path(i)) != sizes[utterances.ids[i]] for i in known):
            LOG.info("recordings of %s were replaced: all are measured again", utterances.name)
            return None
        rows = _read_rows(table, utterances, audio)
        count = 0 if rows is None else int((rows[:, 0] >= 0).sum())
        # Notes of earlier versions have few sizes.
        if not check and len(sizes) < min(count, MAX_RECORDINGS):
            return None
        if count:
            words = "%d of the %d recordings of %s were measured with an earlier list of it"
            LOG.info(words, count, len(utterances), utterances.name)
        return rows

    def write(self, table: np.ndarray, utterances: TrialList) -> None:
        """Write the rows of the list, (N, 3) int64."""
        checksum = 0
        with atomic_write(self.path, "wb") as file:
            for start in range(0, len(table), _ROWS_AT_ONCE):
                rows = table[start : start + _ROWS_AT_ONCE].tolist()
                for row, (samples, size, changed) in enumerate(rows, start):
                    decoded = "" if size == _UNKNOWN else f"\t{size}\t{changed}"
                    line = _encode(f"{utterances.ids[row]}\t{samples}{decoded}\n")
                    checksum = zlib.crc32(line, checksum)
                    file.write(line)
            file.write(_checksum_line(checksum))
        self._note(utterances)
        decoded_count = int((table[:, 1] != _UNKNOWN).sum())
        checked = f", {decoded_count} of them decoded to their ends" if decoded_count else ""
        LOG.info("measured %s: %d utterances%s", utterances.name, len(utterances), checked)

    def _note(self, utterances: TrialList) -> None:
        """Note that the list's table belongs to its corpus, with the sizes of some recordings."""
        digest = self.path.name.split(".")[-2]
        path = self.path.with_name(f"{self.notes}{digest}.json")
        if not path.exists():
            ids = map(utterances.ids.__getitem__, _sample(utterances, MAX_RECORDINGS))
            sizes = dict(zip(ids, sampled_sizes(utterances), strict=True))
            write_text(path, json.dumps({"table": self.path.name, "sizes": sizes}) + "\n")


def _read_rows(
    path: Path, utterances: TrialList, audio: Audio, consequence: str = ""
) -> np.ndarray | None:
    """Read the rows of utterances by their names, (N, 3) int64; `_NO_ROW` for those without.

    The result is None if the file does not exist or, with a warning, if it is damaged.

    Args:
        consequence: Words for the warning.
    """
    try:
        return _parse_rows(path, utterances, audio)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError, AsdfError) as error:
        LOG.warning("%s is ignored%s: %s", path, consequence, error)
        return None


def _parse_rows(path: Path, utterances: TrialList, audio: Audio) -> np.ndarray:
    """Return the same.

    Raises:
        OSError, ValueError, OverflowError, AsdfError: the file cannot be read or is damaged.
    """
    table = np.full((len(utterances), 3), _UNKNOWN, np.int64)
    names = map(_encode, utterances.ids)
    row_of: dict[bytes, int] = {}
    stated = b""
    checksum = 0
    with path.open("rb") as file:
        for row, line in enumerate(file):
            if line.startswith(_CHECKSUM):
                stated = line + file.read(1)  # nothing follows it
                break
            checksum = zlib.crc32(line, checksum)
            expected = None if row_of else next(names, None)
            text = line.rstrip(b"\n")
            name, *numbers = text.split(b"\t")
            # A name may itself have a TAB.
            if expected is not None and text.startswith(expected + b"\t"):
                name, numbers = expected, text[len(expected) + 1 :].split(b"\t")
            if len(numbers) not in (1, 3):
                raise ValueError(f"{line[:120]!r} is not a name with lengths")
            # A list that is the same, or grew at its end, needs no mapping of its names.
            if not row_of and name != expected:
                row_of = {_encode(utterance): row for row, utterance in enumerate(utterances.ids)}
            found = row_of.get(name) if row_of else row
            if found is not None:
                table[found, : len(numbers)] = [int(number) for number in numbers]
    if stated:
        if stated != _checksum_line(checksum):
            raise ValueError("its checksum is wrong")
        return table
    # A file of the first version: its longest utterance must have the stated length.
    longest = int(table[:, 0].argmax())
    samples = table[longest, 0]
    if (table[:, 0] < 0).any():
        raise ValueError(f"it does not hold the utterances of {utterances.name}")
    if samples > audio_length(utterances.path(longest), audio):
        raise ValueError(f"{utterances.ids[longest]} is shorter than {samples} samples")
    return table


def _checksum_line(checksum: int) -> bytes:
    return _CHECKSUM + b"%08x\n" % checksum


def _encode(text: str) -> bytes:
    # File names may not be UTF-8.
    return text.encode("utf-8", "surrogateescape")


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
        measure = self._measure_portion
        try:
            with threads(_THREADS) as pool:
                rows = chain.from_iterable(pool.map(measure, _portions(self.indices), stop))
                for row in track(rows, count, what, shown=shown, unit="utterances"):
                    if isinstance(row, AsdfError):
                        self.broken.append(str(row))
                        row = _NO_ROW
                    self.numbers.extend(row)
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

    def _measure_portion(self, portion: Sequence[int]) -> list[Row | AsdfError]:
        return [self._measure(index) for index in portion]

    def _measure(self, index: int) -> Row | AsdfError:
        """Measure an utterance, in a thread; one that cannot be read gives its error."""
        path = self.utterances.path(index)
        known: Row = _NO_ROW if self.known is None else self.known[index].tolist()
        if not self.check and known != _NO_ROW:
            return known
        try:
            if not self.check and not needs_whole_recording(self.sad):
                measured = measure_speech(path, self.sad, audio=self.audio)
                return [measured.speech, _UNKNOWN, _UNKNOWN]
            size, changed = file_state(path) or (_UNKNOWN, _UNKNOWN)
            if size >= 0 and known[1:] == [size, changed]:
                return known
            samples = measure_speech(path, self.sad, True, self.audio).speech
            difference = difference_of(path)
        except AsdfError as error:
            return error
        if difference is not None:
            self.differing.append(f"{path}: {difference[1].why}")
        return [samples, size, changed]


def _join(
    parts: Sequence[tuple[array[int], list[str], list[str]]],
    utterances: TrialList,
    skip_broken: bool,
) -> tuple[np.ndarray, bool]:
    """Return the measurements of all ranks, (N, 3), and whether they are of all recordings."""
    table = np.empty((len(utterances), 3), np.int64)
    for rank, (numbers, _, _) in enumerate(parts):
        table[rank :: len(parts)] = np.array(numbers, np.int64).reshape(-1, 3)
    differing = sorted(chain.from_iterable(remarks for _, _, remarks in parts))
    if differing:
        LOG.warning(
            "%d of the %d recordings of %s have channels or sound tracks that are not the same "
            "sound; the mean of the channels, or one track, is heard:%s",
            len(differing),
            len(utterances),
            utterances.name,
            lines_and_more(differing, _SHOWN),
        )
    broken = list(chain.from_iterable(messages for _, messages, _ in parts))
    if not broken:
        return table, True
    problem = (
        f"{len(broken)} of the {len(utterances)} recordings of {utterances.name} cannot be "
        f"used:{lines_and_more(broken, _SHOWN)}"
    )
    if not skip_broken:
        raise AsdfError(f"{problem}\nFix them, or take them out of the list.")
    LOG.warning("%s", problem)
    table[(table == _NO_ROW).all(axis=1), 0] = 0
    return table, False


def digest_recordings(utterances: TrialList, max_recordings: int = MAX_RECORDINGS) -> str:
    """Return a digest of the examined recordings of a list."""
    step = -(-len(utterances) // max_recordings) or 1
    portions = _portions(range(0, len(utterances), step))
    total = hashlib.sha256()
    with threads(_THREADS) as pool:
        for digest in pool.map(partial(_digest_part, utterances), portions):
            total.update(digest)
    return total.hexdigest()[:_CHARACTERS]


def digest_list(utterances: TrialList) -> str:
    """Return a digest of a list's content: utterances in order, and labels."""
    content = utterances.digest().encode() + utterances.labels.tobytes()
    return hashlib.sha256(content).hexdigest()[:_CHARACTERS]


def _digest_part(utterances: TrialList, rows: Sequence[int]) -> bytes:
    digest = hashlib.sha256()
    for row in rows:
        path = utterances.path(row)
        # A recording that cannot be read is reported where it is used.
        try:
            member = None if path.exists() else find_member(path)
            if member is not None and member.reads_others:
                # Its size must suffice.
                digest.update(b"%d" % member.state.size)
                continue
            with open_file(path) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _BYTES) // 2)
                digest.update(b"%d " % size + file.read(_BYTES))
        except (OSError, AsdfError):
            digest.update(b"-")
    return digest.digest()
