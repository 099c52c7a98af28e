"""Labels per frame from spoofed parts, and vice versa from scores per frame.

Invariant, the rule for frames across a boundary: a frame is spoofed if any of its samples is. It is
the rule of PartialSpoof (Zhang et al., IEEE/ACM TASLP 2023: the label of a coarse segment is the
lowest of those inside it) and of the converters for HAD and LlamaPartialSpoof. Labels of different
resolutions therefore never contradict each other: a frame of 160 ms is bona fide if and only if all
its eight frames of 20 ms are. A boundary may be inexact by up to a frame, towards spoof.

Frame i of a recording has its samples [i * hop, (i + 1) * hop); the last one may be shorter, so
that every sample is in one frame. Boundaries are rounded to samples first: in floating point, 0.58
s is not the end of the 29th frame of 20 ms.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from asdf.arrays import Flags, Labels
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.segments.spoofed_seconds import Segment, clipped, merged

_DIGITS = 6
"""Decimals of a computed boundary: a microsecond, a sixtieth of a sample."""


def frame_count(samples: int, hop_samples: int) -> int:
    """Return the number of frames of a recording: every sample is in one."""
    return -(-samples // hop_samples)


def frame_labels(spoofed: Iterable[Segment], samples: int, hop_samples: int) -> Labels:
    """Return the labels of a recording's frames, (frames,): 1 bona fide, 0 spoof.

    Args:
        spoofed: Spoofed parts in seconds; parts beyond the recording's end are ignored.
        samples: Number of samples at 16 kHz.
        hop_samples: Length of a frame in samples, 320 for 20 ms.
    """
    if hop_samples < 1:
        raise ValueError(f"a frame must have at least one sample, not {hop_samples}")
    labels = np.ones(frame_count(samples, hop_samples), np.int8)
    for start, end in _sample_ranges(spoofed, samples):
        labels[start // hop_samples : frame_count(end, hop_samples)] = 0
    return labels


def sample_mask(spoofed: Iterable[Segment], samples: int) -> Flags:
    """Return a mask of the spoofed samples of a recording, (samples,).

    It can be cut, repeated and reversed with the waveform; `labels_of_mask` then returns the labels
    of the clip's frames.
    """
    mask = np.zeros(samples, np.bool_)
    for start, end in _sample_ranges(spoofed, samples):
        mask[start:end] = True
    return mask


def labels_of_mask(mask: Flags, hop_samples: int) -> Labels:
    """Return the labels of the frames of a `sample_mask`, (frames,): 1 bona fide, 0 spoof."""
    starts = np.arange(0, len(mask), hop_samples)
    if not len(starts):
        return np.ones(0, np.int8)
    is_spoofed = np.logical_or.reduceat(mask, starts)
    return (~is_spoofed).astype(np.int8)


def _sample_ranges(spoofed: Iterable[Segment], samples: int) -> Iterable[tuple[int, int]]:
    """Yield the first sample and the end (exclusive) of each part that contains a sample."""
    for start_s, end_s in clipped(spoofed, samples / SAMPLE_RATE):
        start = round(start_s * SAMPLE_RATE)
        end = round(end_s * SAMPLE_RATE)
        if start < end:
            yield start, end


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
