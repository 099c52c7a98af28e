"""Spoofed parts of a recording, and their column in a list of trials.

Invariant: the spoofed parts of a recording ascend, are not adjacent, and have a positive length;
values written to the column are read back exactly. A bona fide trial has no spoofed part, a spoof
at least one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from asdf.errors import AsdfError
from asdf.text import shorten
from asdf.trials.trial_list import TrialList

COLUMN = "spoofed_s"
"""Column of a `TrialList` with the spoofed parts: '0.69-1.26 3.43-4.1', '-' for bona fide."""

NO_PART = "-"

UNKNOWN = "?"
"""Value of a spoof whose parts the corpus states in a file that was missing."""

_PART = re.compile(r"(\d+(?:\.\d+)?)-(\d+(?:\.\d+)?)")


class Segment(NamedTuple):
    """A part of a recording, in seconds from its beginning, excluding its end."""

    start_s: float
    end_s: float

    @property
    def duration_s(self) -> float:
        return self.end_s - self.start_s


WHOLE = (Segment(0.0, math.inf),)
"""The spoofed parts of a fully spoofed recording."""


def merged(segments: Iterable[Segment]) -> tuple[Segment, ...]:
    """Return the same time as ascending, separate segments, without empty ones."""
    result: list[Segment] = []
    for segment in sorted(segments):
        if segment.end_s <= segment.start_s:
            continue
        if result and segment.start_s <= result[-1].end_s:
            end_s = max(result[-1].end_s, segment.end_s)
            result[-1] = Segment(result[-1].start_s, end_s)
        else:
            result.append(segment)
    return tuple(result)


def clipped(segments: Iterable[Segment], duration_s: float) -> tuple[Segment, ...]:
    """Return the segments clipped to a recording of `duration_s` seconds."""
    result = []
    for segment in segments:
        if segment.start_s < duration_s:
            # The end of `WHOLE` is infinite.
            result.append(Segment(segment.start_s, min(segment.end_s, duration_s)))
    return tuple(result)


def format_spoofed(segments: Sequence[Segment]) -> str:
    """Return the value of the column: '0.69-1.26 3.43-4.1', '-' for no part, '' for `WHOLE`."""
    if tuple(segments) == WHOLE:
        return ""
    if not segments:
        return NO_PART
    return " ".join(f"{_digits(start_s)}-{_digits(end_s)}" for start_s, end_s in segments)


def parse_spoofed(text: str) -> tuple[Segment, ...]:
    """Return the spoofed parts in a value of the column; '' means `WHOLE`.

    Raises:
        ValueError: it is not a valid value; the message states why.
    """
    if not text:
        return WHOLE
    if text == NO_PART:
        return ()
    if text == UNKNOWN:
        raise ValueError("the corpus's file of segments was missing, or does not list it")
    segments = []
    for part in text.split(" "):
        match = _PART.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a part in seconds such as 0.69-1.26")
        segments.append(Segment(float(match[1]), float(match[2])))
    # Unordered or adjacent parts may be a mistake of the file's author.
    if merged(segments) != tuple(segments):
        raise ValueError("the parts must ascend, not touch, and end after they start")
    return tuple(segments)


def spoofed_parts(trials: TrialList, index: int) -> tuple[Segment, ...]:
    """Return the spoofed parts of a trial: () if bona fide, `WHOLE` for a spoof without parts.

    Raises:
        AsdfError: the column's value is malformed or contradicts the label.
    """
    values = trials.columns.get(COLUMN)
    text = "" if values is None else values[index]
    label = int(trials.labels[index])
    # Bona fide trials of a corpus without segments have '' too.
    if label == 1 and text in ("", NO_PART):
        return ()
    try:
        segments = parse_spoofed(text)
    except ValueError as error:
        raise AsdfError(_describe(trials, index, text, str(error))) from None
    if label == 1:
        reason = "the trial is labelled bona fide, which has no spoofed part"
        raise AsdfError(_describe(trials, index, text, reason))
    if not segments:
        reason = "the trial is labelled spoof, so some part of it is spoofed"
        raise AsdfError(_describe(trials, index, text, reason))
    return segments


def spoofed_parts_of(trials: TrialList) -> list[tuple[Segment, ...]]:
    """Return the spoofed parts of every trial, see `spoofed_parts`.

    Raises:
        AsdfError: as `spoofed_parts`.
    """
    return [spoofed_parts(trials, index) for index in range(len(trials))]


def _describe(trials: TrialList, index: int, text: str, reason: str) -> str:
    return (
        f"{trials.name or 'the list'}, trial {trials.ids[index]!r}: {COLUMN} is "
        f"{shorten(text)!r}: {reason}. It should hold parts in seconds such as "
        "'0.69-1.26 3.43-4.1', '-' for a bona fide trial, or nothing for a spoof that is spoofed "
        "as a whole."
    )


def _digits(seconds: float) -> str:
    # repr would not do: 1e-05 contains the separator of start and end.
    return np.format_float_positional(seconds, trim="-")
