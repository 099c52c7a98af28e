"""Files of spoofed parts: RTTM, the texts of HAD and LlamaPartialSpoof, and plain ones.

A line of an RTTM (NIST, Rich Transcription 2009), with the labels of PartialSpoof and WeDefense, is
`SPEAKER NAME CHANNEL START DURATION <NA> <NA> LABEL <NA> <NA>`. It cannot represent a recording
without parts, so readers that know the list of recordings decide about missing ones. With the names
of speakers as labels, it holds the turns of a conversation.

A line of HAD or of LlamaPartialSpoof is a recording, with all of its parts:

    HAD_train_fake_00000001 0.00-1.43-T/1.43-2.02-F/2.02-4.03-T 0
    dev01-yourtts-partial-cf_8842_30 1.9740 spoof 0.0000-0.8510-bonafide 0.8510-1.1910-spoof

A line of a plain file is a part, `NAME START END LABEL`, in seconds:

    call-17.wav 0.00 1.43 bonafide
    call-17.wav 1.43 2.02 spoof

Invariant: a line's own label and its parts agree: a recording is bona fide if none of its parts is
spoofed. `read_rttm` reads back the parts that `write_rttm` wrote. No sample of a stretch in which a
speaker speaks alone is in a turn of another one.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from itertools import chain
from pathlib import Path
from pickle import Unpickler, UnpicklingError
from typing import Any

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.places import open_file
from asdf.runs.files import atomic_write
from asdf.segments.spoofed_seconds import (
    COLUMN,
    Segment,
    clipped,
    format_spoofed,
    merged,
    segments_from_scores,
)
from asdf.text import AnyPath, printable, read_number, shorten
from asdf.trials.table import is_trials_file, parse_table
from asdf.trials.text_lines import NumberedLines, numbered_lines, peek
from asdf.trials.trial_list import TrialList

_MICROSECOND = 6
# Labels of whole recordings: 1 and 0 are HAD's.
_LABELS = {"1": False, "0": True}
# Silence between words has the label of its surroundings in PartialSpoof's rttm; a part marked as
# nonspeech was not synthesised.
_BONA_FIDE = {"bonafide", "bona-fide", "genuine", "real", "t", "nonspeech", "non-speech"}
_SPOOF = {"spoof", "spoofed", "fake", "f"}
_LINES = (
    "'NAME START-END-T/START-END-F/... 0|1' (HAD), 'NAME SECONDS bonafide|spoof START-END-bonafide "
    "START-END-spoof ...' (LlamaPartialSpoof), or 'NAME START END LABEL' with times in seconds"
)
_TURN = "'SPEAKER NAME CHANNEL START DURATION <NA> <NA> LABEL <NA> <NA>'"
# PartialSpoof's rttm states the attack of ASVspoof 2019 that a part is from.
_ATTACK = re.compile(r"A\d\d", re.IGNORECASE)


@dataclass(frozen=True)
class Timed:
    """The parts of a recording in a file.

    Attributes:
        spoofed: Spoofed parts, ascending and not adjacent.
        end_s: End of its last part with either label, in seconds: the recording's duration if the
            file covers all of it.
    """

    spoofed: tuple[Segment, ...]
    end_s: float


class TimedCollector:
    """Collects the parts of the recordings of a file, line by line.

    Args:
        path: Path of the file, for messages.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._spoofed: dict[str, list[Segment]] = {}
        self._end_s: dict[str, float] = {}

    def add(self, line: int, name: str, segment: Segment, label: str) -> None:
        """Add a part.

        Raises:
            AsdfError: the label is unknown, or the part ends before it starts.
        """
        is_spoofed = _is_spoof(label)
        start_s, end_s = segment
        if is_spoofed is None or not 0 <= start_s <= end_s < math.inf:
            raise _wrong_line(
                self._path,
                line,
                f"a part from {start_s:g} to {end_s:g} s with the label {shorten(label)!r}. A part "
                "ends after it starts, and is bonafide, spoof, nonspeech, an attack (A07), T or F",
            )
        self._end_s[name] = max(self._end_s.get(name, 0.0), segment.end_s)
        spoofed = self._spoofed.setdefault(name, [])
        if is_spoofed:
            spoofed.append(segment)

    def timed(self) -> dict[str, Timed]:
        """Return all recordings, in the order of their first lines."""
        result = {}
        for name, segments in self._spoofed.items():
            result[name] = Timed(merged(segments), self._end_s[name])
        return result


def _wrong_line(path: AnyPath, line: int, problem: str) -> AsdfError:
    return AsdfError(f"{path}, line {line}: {problem}.")


def _unexpected(path: AnyPath, number: int, line: str, expected: str) -> AsdfError:
    return _wrong_line(path, number, f"expected {expected}, found {line.strip()[:120]!r}")


def _is_spoof(label: str) -> bool | None:
    """Return whether a part with this label is spoofed, None if the label is unknown."""
    if label.lower() in _BONA_FIDE:
        return False
    return True if label.lower() in _SPOOF or _ATTACK.fullmatch(label) else None


def read_time(text: str) -> float:
    """Return a time in seconds, NaN for other text, which fails every check."""
    try:
        return read_number(text)
    except ValueError:
        return math.nan


def read_text(path: AnyPath, lines: NumberedLines | None = None) -> dict[str, Timed]:
    """Read a text file of HAD or LlamaPartialSpoof, or of plain lines, possibly gzipped.

    Args:
        lines: Lines of the file, if they are already read.

    Raises:
        AsdfError: a line is malformed or contradictory; the message names file and line.
    """
    path = Path(path)
    # In the format of the first line.
    first, lines = peek(numbered_lines(path) if lines is None else lines)
    is_plain = _split_plain(first) is not None
    collector = TimedCollector(path)
    stated: dict[str, tuple[int, bool]] = {}
    for number, line in lines:
        if is_plain:
            plain = _split_plain(line)
            if plain is None:
                raise _unexpected(path, number, line, "'NAME START END LABEL'")
            collector.add(number, *plain)
            continue
        # Of an unknown format there are no parts.
        name, label, parts = "", "", []
        cells = line.split()
        if len(cells) == 3 and cells[2] in _LABELS:
            name, label, parts = cells[0], cells[2], cells[1].split("/")
        elif len(cells) >= 4:
            name, label, parts = cells[0], cells[2], cells[3:]
        is_spoof = _LABELS.get(label, _is_spoof(label))
        if is_spoof is None or not parts:
            raise _unexpected(path, number, line, _LINES)
        if name in stated:
            raise _wrong_line(path, number, f"{name!r} is repeated: a recording has one line")
        stated[name] = (number, is_spoof)
        for part in parts:
            times, _, part_label = part.rpartition("-")
            start, _, end = times.partition("-")
            segment = Segment(read_time(start), read_time(end))
            collector.add(number, name, segment, part_label)
    recordings = collector.timed()
    for name, (number, is_spoof) in stated.items():
        if is_spoof != bool(recordings[name].spoofed):
            label = "spoof, but none" if is_spoof else "bona fide, but one"
            raise _wrong_line(path, number, f"{name!r} is {label} of its parts is spoofed")
    return recordings


def _split_plain(line: str) -> tuple[str, Segment, str] | None:
    """Return name, part and label of a line `NAME START END LABEL`; None for other lines."""
    # From the right, because a name may contain spaces.
    cells = line.rsplit(None, 3)
    if len(cells) != 4:
        return None
    segment = Segment(read_time(cells[1]), read_time(cells[2]))
    if math.isnan(segment.start_s) or math.isnan(segment.end_s):
        return None
    return cells[0].strip(), segment, cells[3]


def read_rttm(path: AnyPath, lines: NumberedLines | None = None) -> dict[str, Timed]:
    """Read an RTTM, plain or gzipped: the parts of each recording, by its name there.

    Args:
        lines: Lines of the file, if they are already read.

    Raises:
        AsdfError: a line is malformed; the message names file and line.
    """
    collector = TimedCollector(Path(path))
    for number, name, segment, label in _rttm_turns(path, lines):
        collector.add(number, name, segment, label)
    return collector.timed()


def _rttm_turns(
    path: AnyPath, lines: NumberedLines | None
) -> Iterator[tuple[int, str, Segment, str]]:
    """Yield line number, recording, time (NaN if it is not a number) and label of each line."""
    for number, line in numbered_lines(path) if lines is None else lines:
        cells = line.split()
        # Comments, and other RTTM lines than turns of speakers.
        if cells[0].startswith(";;") or cells[0] == "SPKR-INFO":
            continue
        # The last two columns were added later: older files have eight or nine.
        if not 8 <= len(cells) <= 10 or cells[0] != "SPEAKER":
            raise _unexpected(path, number, line, _TURN)
        start_s = read_time(cells[3])
        # Rounded to a microsecond, because the sum of two decimals is rarely exact.
        end_s = round(start_s + read_time(cells[4]), _MICROSECOND)
        yield number, cells[1], Segment(start_s, end_s), cells[7]


def write_rttm(path: AnyPath, recordings: Mapping[str, Timed]) -> None:
    """Write the parts of recordings, including bona fide ones, in the format of WeDefense.

    Args:
        recordings: Parts by the name of the recording; white space in a name becomes '_', or '%20'
            where two names would then be the same.
    """
    words = Counter("_".join(name.split()) for name in recordings)
    with atomic_write(path) as file:
        for name, timed in recordings.items():
            # A name with a space would be two columns.
            word = "_".join(name.split())
            word = word if words[word] == 1 else re.sub(r"\s", "%20", name)
            for segment, label in _all_parts(timed):
                file.write(
                    f"SPEAKER {word} 1 {segment.start_s:.{_MICROSECOND}f} "
                    f"{segment.duration_s:.{_MICROSECOND}f} <NA> <NA> {label} <NA> <NA>\n"
                )


def _all_parts(timed: Timed) -> Iterable[tuple[Segment, str]]:
    """Yield the spoofed parts and the bona fide ones between them, in order."""
    reached_s = 0.0
    for segment in clipped(timed.spoofed, timed.end_s):
        if segment.start_s > reached_s:
            yield Segment(reached_s, segment.start_s), "bonafide"
        yield segment, "spoof"
        reached_s = segment.end_s
    if reached_s < timed.end_s:
        yield Segment(reached_s, timed.end_s), "bonafide"


MIN_STRETCH_S = 0.25
"""Minimum length of a stretch: a syllable between others' words says little about a voice."""

_NOBODY = "<NA>"
_ROUNDING_S = 1e-6


@dataclass(frozen=True)
class Speaker:
    """A speaker of a conversation.

    Attributes:
        alone: Stretches of at least `MIN_STRETCH_S` in which nobody else speaks, ascending.
        overlapped_s: Length of this speaker's turns in which others speak too, in seconds.
        end_s: End of the last turn, in seconds.
    """

    name: str
    alone: tuple[Segment, ...]
    overlapped_s: float
    end_s: float


def read_speakers(path: AnyPath, lines: NumberedLines | None = None) -> dict[str, list[Speaker]]:
    """Read the speakers of each recording of an RTTM, plain or gzipped.

    Args:
        lines: Lines of the file, if they are already read.

    Returns:
        Speakers in the order of their first lines, by the name of their recording.

    Raises:
        AsdfError: a line is malformed; the message names file and line.
    """
    recordings: dict[str, dict[str, list[Segment]]] = {}
    for number, name, turn, speaker in _rttm_turns(path, lines):
        if speaker == _NOBODY or not 0 <= turn.start_s < turn.end_s < math.inf:
            raise _wrong_line(
                path,
                number,
                f"a turn of {speaker!r} from {turn.start_s:g} s to {turn.end_s:g} s. Columns 4, 5 "
                "and 8 are start, duration and the speaker's name",
            )
        recordings.setdefault(name, {}).setdefault(speaker, []).append(turn)
    if not recordings:
        raise AsdfError(f"{path}: no speaker turns found.")
    return {name: speakers_alone(turns) for name, turns in recordings.items()}


def speakers_alone(turns: Mapping[str, Sequence[Segment]]) -> list[Speaker]:
    """Return the speakers with the stretches in which each speaks alone, from all turns."""
    speakers = []
    for name, own_turns in turns.items():
        own = merged(own_turns)
        others = chain.from_iterable(turns[other] for other in turns if other != name)
        alone = _without(own, merged(others))
        # The difference of two decimals is rarely exact.
        long = tuple(each for each in alone if each.duration_s > MIN_STRETCH_S - _ROUNDING_S)
        speakers.append(Speaker(name, long, _total_s(own) - _total_s(alone), own[-1].end_s))
    return speakers


def _total_s(segments: Iterable[Segment]) -> float:
    return sum(segment.duration_s for segment in segments)


def _without(segments: Sequence[Segment], others: Sequence[Segment]) -> list[Segment]:
    """Return the parts of the segments outside of the others; both ascend without overlap."""
    left = []
    first = 0
    for start_s, end_s in segments:
        # Turns that have ended are passed once, because both ascend.
        while first < len(others) and others[first].end_s <= start_s:
            first += 1
        reached_s = start_s
        for other in others[first:]:
            if other.start_s >= end_s:
                break
            left.append(Segment(reached_s, other.start_s))
            reached_s = other.end_s
        left.append(Segment(reached_s, end_s))
    return [segment for segment in left if segment.end_s > segment.start_s]


# Of numpy's types: numbers and texts.
_KINDS = tuple("biuSU")
_MAGIC = b"\x93NUMPY"
_LABEL_OF = {"0": 0, "1": 1, b"0": 0, b"1": 1, 0: 0, 1: 1}
_HOP_IN_NAME = re.compile(r"_(\d+\.\d+)\.npy$")


def read_label_arrays(path: AnyPath, hop_s: float | None = None) -> dict[str, Timed]:
    """Read labels per frame by utterance; the path may lead into a tar.

    Args:
        hop_s: Length of a frame in seconds; None: that of the file's name, `..._0.16.npy`.

    Raises:
        UsageError: the length of a frame is neither given nor in the name.
        AsdfError: the file cannot be read, or has another format.
    """
    path = Path(path)
    if hop_s is None:
        match = _HOP_IN_NAME.search(path.name)
        if match is None or float(match[1]) <= 0:
            raise UsageError(
                f"{path}: the name lacks the length of a frame, as in dev_seglab_0.16.npy."
            )
        hop_s = float(match[1])
    try:
        with open_file(path) as file:
            labels_of = _labels_of(file.read())
    except Exception as error:  # a damaged pickle can fail anywhere in the unpickler
        reason = getattr(error, "strerror", None) or str(error)
        raise AsdfError(
            f"cannot read {path}: {shorten(printable(reason, one_line=True))}. It should be "
            "PartialSpoof's labels: numpy's dictionary of an array of 0 and 1 per utterance."
        ) from None
    result = {}
    for name, labels in labels_of.items():
        # A label is used as a score: 0 is below the threshold.
        spoofed = segments_from_scores(labels, hop_s, 0.5)
        result[name] = Timed(spoofed, round(len(labels) * hop_s, 6))
    return result


def _labels_of(content: bytes) -> dict[str, list[int]]:
    """Return the labels of each utterance."""
    if content[: len(_MAGIC)] != _MAGIC or len(content) < 12:
        raise UnpicklingError("it is not an npy file")
    # After numpy's header, which only announces a pickle; its length has two bytes in version 1 of
    # the format.
    begin = 10 if content[6] == 1 else 12
    header_size = int.from_bytes(content[8:begin], "little")
    saved = _LabelUnpickler(BytesIO(content[begin + header_size :])).load()
    # numpy saves a dictionary as an array of one object.
    if isinstance(saved, _Array) and len(saved.values) == 1:
        saved = saved.values[0]
    if not isinstance(saved, dict) or not all(isinstance(name, str) for name in saved):
        raise UnpicklingError("it is not a dictionary with texts as keys")
    result = {}
    for name, entry in saved.items():
        values = entry.values if isinstance(entry, _Array) else entry
        if not isinstance(values, list) or not all(
            isinstance(value, (str, bytes, int)) and value in _LABEL_OF for value in values
        ):
            raise UnpicklingError(f"the labels of {name[:80]!r} are not an array of 0 and 1")
        result[name] = [_LABEL_OF[value] for value in values]
    return result


class _Type:
    """Read instead of numpy's type, whose state in a file could name any memory."""

    def __init__(self, name: str, *_: object) -> None:
        # None: of objects. Else numbers and texts of a fixed width.
        self.dtype = None
        if name not in ("O", "O8"):
            if name[:1] not in _KINDS or not name[1:].isdecimal():
                raise UnpicklingError("it has an array of another type than numbers and texts")
            self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if self.dtype is not None and state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


class _Array:
    """Read instead of numpy's array: a row as long as its bytes, or a list of objects."""

    def __init__(self, *_: object) -> None:
        self.values: Any = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, _, content = state
        is_plain = kind.dtype is None
        self.values = content if is_plain else np.frombuffer(content, kind.dtype).tolist()
        if shape not in ((len(self.values),), ()):
            raise UnpicklingError("it has an array of another shape than a row of labels")


# Protocol 2 writes bytes as text that is encoded when it is read.
_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Type,
    ("_codecs", "encode"): lambda text, _: text.encode("latin1"),
}


class _LabelUnpickler(Unpickler):
    """Builds plain values and arrays, and imports nothing that a file names."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise UnpicklingError(f"it requests {module}.{name}, which labels do not need")
        return _ALLOWED[module, name]


@dataclass(frozen=True, eq=False)
class Reference:
    """Trials with their spoofed parts.

    Attributes:
        durations_s: Length of each trial in seconds, if the file states it.
    """

    trials: TrialList
    durations_s: Mapping[str, float] = field(default_factory=dict)


def read_reference(path: AnyPath) -> Reference:
    """Read a table of trials, an RTTM, a text of parts (`read_text`), or PartialSpoof's npy.

    Raises:
        AsdfError: the file cannot be read or is malformed.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return _of_recordings(read_label_arrays(path), path)
    # Only line ends are removed: in a table, a TAB at the end of a line is an empty column.
    first, lines = peek(numbered_lines(path, "\r\n"))
    if is_trials_file(first):
        return Reference(parse_table(lines, path))
    # An RTTM may begin with comments, which ';;' marks.
    if first.split()[:1] == ["SPEAKER"] or first.startswith(";;"):
        return _of_recordings(read_rttm(path, lines), path)
    return _of_recordings(read_text(path, lines), path)


def _of_recordings(recordings: dict[str, Timed], path: Path) -> Reference:
    if not recordings:
        raise AsdfError(f"{path}: no recordings found. Was it copied completely?")
    labels = np.array([not timed.spoofed for timed in recordings.values()], np.int8)
    values = [format_spoofed(timed.spoofed) for timed in recordings.values()]
    trials = TrialList(list(recordings), labels, columns={COLUMN: values})
    return Reference(trials, {name: timed.end_s for name, timed in recordings.items()})
