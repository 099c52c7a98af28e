"""What a file of segments says of a recording, and the labels that such files have for a part."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError
from asdf.segments.parts import Segment, merged
from asdf.text import read_number, shorten

# Silence between words is bona fide or spoofed as its surroundings are: PartialSpoof's rttm says
# so by its own labels, and where a file marks it as no speech, nobody made it.
_BONA_FIDE = {"bonafide", "bona-fide", "genuine", "real", "t", "nonspeech", "non-speech"}
_SPOOF = {"spoof", "spoofed", "fake", "f"}
# PartialSpoof's rttm names the attack of ASVspoof 2019 that a part is from.
_ATTACK = re.compile(r"A\d\d", re.IGNORECASE)


@dataclass(frozen=True)
class Timed:
    """The parts of one recording that a file lists.

    Attributes:
        spoofed: its spoofed parts, ascending and not touching.
        end_s: where its last part ends, of either label: the recording's duration, where the file
            covers all of it.
    """

    spoofed: tuple[Segment, ...]
    end_s: float


class TimedCollector:
    """The parts of the recordings of a file, added line by line.

    Args:
        path: the file, as messages name it.
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
        is_spoofed = is_spoof_label(label)
        if is_spoofed is None:
            raise AsdfError(
                f"{self._path}, line {line}: {shorten(label)!r} is not a label of a part: known "
                "are bonafide, spoof, nonspeech, the attacks of ASVspoof 2019 such as A07, T and F."
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


def is_spoof_label(label: str) -> bool | None:
    """Return whether a part with this label is spoofed, None where the label is unknown."""
    lower = label.lower()
    if lower in _BONA_FIDE:
        return False
    if lower in _SPOOF or _ATTACK.fullmatch(label):
        return True
    return None


def read_time(text: str) -> float:
    """Return a time in seconds, NaN where the text is none, which no check lets pass."""
    try:
        return read_number(text)
    except ValueError:
        return float("nan")
