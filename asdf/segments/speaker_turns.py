"""Speaker turns from an RTTM, and the stretches in which each speaker speaks alone.

Invariant: no sample of a stretch is in a turn of another speaker, so that a result for a speaker is
based only on that speaker's voice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError
from asdf.segments.part_files import rttm_turns
from asdf.segments.spoofed_seconds import Segment, merged
from asdf.text import AnyPath
from asdf.trials.text_lines import NumberedLines, numbered_lines

MIN_STRETCH_S = 0.25
"""Minimum length of a stretch: a syllable between others' words says little about a voice."""

_NOBODY = "<NA>"
_ROUNDING_S = 1e-6


@dataclass(frozen=True)
class Speaker:
    """A speaker of a conversation.

    Attributes:
        alone: Stretches in which nobody else speaks, ascending.
        overlapped_s: Length of this speaker's turns in which others speak too, in seconds.
        short_s: Length of the stretches below `MIN_STRETCH_S` that are left out, in seconds.
        end_s: End of the last turn, in seconds.
    """

    name: str
    alone: tuple[Segment, ...]
    overlapped_s: float
    short_s: float
    end_s: float

    @property
    def alone_s(self) -> float:
        """Total length of the stretches, in seconds."""
        return sum(segment.duration_s for segment in self.alone)


def read_speakers(path: AnyPath) -> dict[str, list[Speaker]]:
    """Read the speakers of each recording of an RTTM, plain or gzipped.

    Returns:
        Speakers in the order of their first lines, by the name of their recording.

    Raises:
        AsdfError: a line is malformed; the message names file and line.
    """
    return parse_speakers(numbered_lines(path), Path(path))


def parse_speakers(lines: NumberedLines, path: Path) -> dict[str, list[Speaker]]:
    """Read the speakers of the lines of an RTTM; as `read_speakers`."""
    recordings: dict[str, dict[str, list[Segment]]] = {}
    for number, name, turn, speaker in rttm_turns(lines, path):
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
        others: list[Segment] = []
        for other, other_turns in turns.items():
            if other != name:
                others += other_turns
        alone = _without(own, merged(others))
        # The difference of two decimals is rarely exact.
        long = tuple(each for each in alone if each.duration_s > MIN_STRETCH_S - _ROUNDING_S)
        own_s = sum(each.duration_s for each in own)
        alone_s = sum(each.duration_s for each in alone)
        long_s = sum(each.duration_s for each in long)
        speakers.append(Speaker(name, long, own_s - alone_s, alone_s - long_s, own[-1].end_s))
    return speakers


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
