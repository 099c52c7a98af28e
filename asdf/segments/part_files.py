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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.segments.spoofed_seconds import Segment, clipped, merged
from asdf.text import AnyPath, read_number, shorten
from asdf.trials.text_lines import NumberedLines, numbered_lines, peek

_MICROSECOND = 6
# Labels of whole recordings: 1 and 0 are HAD's.
_LABELS = {"1": False, "0": True}
# Silence between words has the label of its surroundings in PartialSpoof's rttm; a part marked as
# nonspeech was not synthesised.
_BONA_FIDE = {"bonafide", "bona-fide", "genuine", "real", "t", "nonspeech", "non-speech"}
_SPOOF = {"spoof", "spoofed", "fake", "f"}
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
        if is_spoofed is None:
            raise AsdfError(
                f"{self._path}, line {line}: {shorten(label)!r} is not a label of a part: known "
                "labels are bonafide, spoof, nonspeech, the attacks of ASVspoof 2019 such as A07, "
                "T and F."
            )
        if not 0 <= segment.start_s <= segment.end_s < float("inf"):
            raise AsdfError(
                f"{self._path}, line {line}: a part from {segment.start_s:g} s to "
                f"{segment.end_s:g} s ends before it starts, or is not a time. Is the line whole?"
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
        return float("nan")


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
    if _split_plain(first) is not None:
        return _read_plain(lines, path)
    collector = TimedCollector(path)
    stated: dict[str, tuple[int, bool]] = {}
    for number, line in lines:
        name, label, parts = _split_line(line.split())
        is_spoof = _LABELS.get(label, _is_spoof(label))
        if is_spoof is None or not parts:
            raise AsdfError(
                f"{path}, line {number}: expected 'NAME START-END-T/START-END-F/... 0|1' as HAD "
                "has it, or 'NAME SECONDS bonafide|spoof START-END-bonafide START-END-spoof ...' "
                "as LlamaPartialSpoof does, or 'NAME START END LABEL' with times in seconds, found "
                f"{line.strip()[:120]!r}."
            )
        if name in stated:
            raise AsdfError(
                f"{path}, line {number}: {name!r} is repeated. Every recording has one line: "
                "remove the repeated ones."
            )
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
            raise AsdfError(
                f"{path}, line {number}: {name!r} is labelled {label} of its parts is spoofed. Is "
                "the file damaged?"
            )
    return recordings


def _read_plain(lines: NumberedLines, path: Path) -> dict[str, Timed]:
    """Read lines `NAME START END LABEL`, in any order."""
    collector = TimedCollector(path)
    for number, line in lines:
        part = _split_plain(line)
        if part is None:
            raise AsdfError(
                f"{path}, line {number}: expected 'NAME START END LABEL' with times in seconds, as "
                f"in the first line, found {line.strip()[:120]!r}."
            )
        name, segment, label = part
        collector.add(number, name, segment, label)
    return collector.timed()


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


def _split_line(cells: list[str]) -> tuple[str, str, list[str]]:
    """Return the name, the label and the parts of a line; no parts for an unknown format."""
    if len(cells) == 3 and cells[2] in _LABELS:
        return cells[0], cells[2], cells[1].split("/")
    if len(cells) >= 4:
        return cells[0], cells[2], cells[3:]
    return "", "", []


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
            raise AsdfError(
                f"{path}, line {number}: expected 'SPEAKER NAME CHANNEL START DURATION <NA> <NA> "
                f"LABEL <NA> <NA>', found {line.strip()[:120]!r}."
            )
        start_s = read_time(cells[3])
        # Rounded to a microsecond, because the sum of two decimals is rarely exact.
        end_s = round(start_s + read_time(cells[4]), _MICROSECOND)
        yield number, cells[1], Segment(start_s, end_s), cells[7]


def write_rttm(path: AnyPath, recordings: Mapping[str, Timed]) -> None:
    """Write the parts of recordings, including bona fide ones, in the format of WeDefense.

    Args:
        recordings: Parts by the name of the recording; white space in a name becomes '_'.
    """
    with atomic_write(path) as file:
        for name, timed in recordings.items():
            # A name with a space would be two columns.
            word = "_".join(name.split())
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
        if not 0 <= turn.start_s < turn.end_s < float("inf"):
            raise AsdfError(
                f"{path}, line {number}: a turn from {turn.start_s:g} s to {turn.end_s:g} s is not "
                "a valid interval: column 4 is the start, column 5 the duration."
            )
        if speaker == _NOBODY:
            raise AsdfError(f"{path}, line {number}: column 8, the speaker's name, is {_NOBODY}.")
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
