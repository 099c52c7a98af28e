"""Windowed frames and operations on them: cutting, overlap-add, averaging.

Invariant: no Python loop runs over samples; a filter that changes over time is applied by FFT in
windowed frames that sum to the signal.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

HOP = 128
"""Number of samples between frames."""


def smooth(track: Array, width: int) -> Array:
    """Average `track` (time, ...) along time by a Hann window of about `width` points.

    The first and last values are repeated beyond the ends.
    """
    # Without the ends of the window, which are 0.
    window = np.hanning(width + 2)[1:-1]
    weights = window / window.sum()
    before = width // 2
    after = width - 1 - before
    start = np.repeat(track[:1], before, 0)
    end = np.repeat(track[-1:], after, 0)
    padded = np.concatenate([start, track, end])
    columns = padded.reshape(len(padded), -1).T
    averaged = []
    for column in columns:
        averaged.append(np.convolve(column, weights, mode="valid"))
    return np.stack(averaged, axis=1).reshape(track.shape)


def squared_sine(points: int) -> Array:
    """Return a window (points,) whose half-overlapping copies sum to 1."""
    half_steps = np.arange(points) + 0.5
    return np.sin(np.pi * half_steps / points) ** 2


def cut(signal: Array, frames: int) -> Array:
    """Cut `signal` into Hann-windowed frames of 2 HOP samples, (frames, 2 HOP).

    They overlap by half, so that their windows sum to 1.
    """
    length = 2 * HOP
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    frames_without_window = slide(padded, length)[::HOP]
    return frames_without_window * squared_sine(length)


def slide(signal: Array, length: int) -> Array:
    """Return all windows of `length` of a signal (samples,), each one sample later."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum frames (count, length), a multiple of `hop` long, that start `hop` samples apart."""
    count, length = frames.shape
    parts = length // hop
    total = np.zeros((count + parts - 1, hop))
    for part in range(parts):
        start = part * hop
        of_frames = frames[:, start : start + hop]
        total[part : part + count] += of_frames
    return total.reshape(-1)


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `number`."""
    return -(-number // multiple) * multiple
