"""Spoofed parts of a recording: in seconds, in a column of a list of trials, and per frame.

Invariant: the spoofed parts of a recording ascend, are not adjacent, and have a positive length;
values written to the column are read back exactly. A bona fide trial has no spoofed part, a spoof
at least one.

The rule for frames across a boundary: a frame is spoofed if any of its samples is. It is the rule
of PartialSpoof (Zhang et al., IEEE/ACM TASLP 2023: the label of a coarse segment is the lowest of
those inside it) and of the converters for HAD and LlamaPartialSpoof. Labels of different
resolutions therefore never contradict each other: a frame of 160 ms is bona fide if and only if all
its eight frames of 20 ms are. A boundary may be inexact by up to a frame, towards spoof.

Frame i of a recording has its samples [i * hop, (i + 1) * hop); the last one may be shorter, so
that every sample is in one frame. Boundaries are rounded to samples first: in floating point, 0.58
s is not the end of the 29th frame of 20 ms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asdf.arrays import Flags, Labels
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
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
    # The end of `WHOLE` is infinite.
    return tuple(
        Segment(start_s, min(end_s, duration_s))
        for start_s, end_s in segments
        if start_s < duration_s
    )


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
        if label == 1 or not segments:
            raise ValueError(f"the trial is labelled {'bona fide' if label == 1 else 'spoof'}")
    except ValueError as error:
        raise AsdfError(
            f"{trials.name or 'the list'}, trial {trials.ids[index]!r}: {COLUMN} is "
            f"{shorten(text)!r}: {error}. It holds parts in seconds such as '0.69-1.26 3.43-4.1', "
            "'-' for a bona fide trial, or nothing for a whole spoof."
        ) from None
    return segments


def spoofed_parts_of(trials: TrialList) -> list[tuple[Segment, ...]]:
    """Return the spoofed parts of every trial, see `spoofed_parts`.

    Raises:
        AsdfError: as `spoofed_parts`.
    """
    return [spoofed_parts(trials, index) for index in range(len(trials))]


def _digits(seconds: float) -> str:
    # repr would not do: 1e-05 contains the separator of start and end.
    return np.format_float_positional(seconds, trim="-")


_DIGITS = 6
"""Decimals of a computed boundary: a microsecond, a sixtieth of a sample."""


def frame_count(samples: int, hop_samples: int) -> int:
    """Return the number of frames of a recording: every sample is in one.

    Raises:
        UsageError: a frame has no sample.
    """
    if hop_samples < 1:
        raise UsageError(f"hop_samples = {hop_samples}: a frame has 1 sample or more.")
    return -(-samples // hop_samples)


def frame_labels(spoofed: Iterable[Segment], samples: int, hop_samples: int) -> Labels:
    """Return the labels of a recording's frames, (frames,): 1 bona fide, 0 spoof.

    Args:
        spoofed: Spoofed parts in seconds; parts beyond the recording's end are ignored.
        samples: Number of samples at 16 kHz.
        hop_samples: Length of a frame in samples, 320 for 20 ms.

    Raises:
        UsageError: as `frame_count`.
    """
    labels = np.ones(frame_count(samples, hop_samples), np.int8)
    for start_s, end_s in clipped(spoofed, samples / SAMPLE_RATE):
        start, end = round(start_s * SAMPLE_RATE), round(end_s * SAMPLE_RATE)
        if start < end:
            labels[start // hop_samples : frame_count(end, hop_samples)] = 0
    return labels


def labels_of_mask(mask: Flags, hop_samples: int) -> Labels:
    """Return the labels of frames, (frames,), from a mask of spoofed samples: 1 bona fide."""
    starts = np.arange(0, len(mask), hop_samples)
    if not len(starts):
        return np.ones(0, np.int8)
    is_spoofed = np.logical_or.reduceat(mask, starts)
    return (~is_spoofed).astype(np.int8)


def segments_from_scores(
    scores: npt.ArrayLike,
    hop_s: float,
    threshold: float,
    *,
    duration_s: float | None = None,
    min_s: float = 0.0,
) -> tuple[Segment, ...]:
    """Return the parts that scores per frame mark as spoofed: runs of frames below the threshold.

    As for whole recordings, a score equal to the threshold is bona fide.

    Args:
        scores: Scores of consecutive frames, (frames,), higher for bona fide.
        hop_s: Length of a frame in seconds.
        duration_s: Length of the recording in seconds, where the last frame ends; None: whole
            frames.
        min_s: Minimum length of parts in seconds.

    Raises:
        AsdfError: a score is NaN.
    """
    scores = np.asarray(scores, np.float64)
    if np.isnan(scores).any():
        raise AsdfError("scores of frames are NaN. Score in fp32.")
    is_spoofed = np.concatenate([[False], scores < threshold, [False]])
    # Starts and ends of runs alternate.
    changes = np.flatnonzero(is_spoofed[1:] != is_spoofed[:-1]).tolist()
    segments = []
    for first, end in zip(changes[0::2], changes[1::2], strict=True):
        segments.append(Segment(round(first * hop_s, _DIGITS), round(end * hop_s, _DIGITS)))
    if duration_s is not None:
        # The last frame may reach beyond the end of the recording.
        segments = list(clipped(segments, duration_s))
    # Chosen after the end has been cut, which may make the last part too short.
    return merged(segment for segment in segments if segment.duration_s >= min_s)
