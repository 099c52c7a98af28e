"""The few filters that the demo corpus needs: frames, overlap-add, resonators, averages.

Invariant: no filter runs sample by sample in Python; a filter that changes over time is applied in windowed frames
that add up to the signal, by FFT.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asdf.facts import SAMPLE_RATE

Array = NDArray[np.float64]

HOP = 128  # samples between frames


def smooth(track: Array, width: int) -> Array:
    """`track` (time, ...) averaged along time by a Hann window of about `width` points; the ends are held."""
    window = np.hanning(width + 2)[1:-1]
    before, after = width // 2, width - 1 - width // 2
    padded = np.concatenate(
        [np.repeat(track[:1], before, 0), track, np.repeat(track[-1:], after, 0)]
    )
    columns = padded.reshape(len(padded), -1).T
    rows = [np.convolve(column, window / window.sum(), mode="valid") for column in columns]
    return np.stack(rows, axis=1).reshape(track.shape)


def cut(signal: Array, frames: int) -> Array:
    """Hann-windowed frames of 2 HOP samples that overlap by half, so that their windows add up to one."""
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    window = np.sin(np.pi * (np.arange(2 * HOP) + 0.5) / (2 * HOP)) ** 2
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * HOP)[::HOP] * window


def resonators(centres_hz: Array, widths_hz: Array) -> Array:
    """Denominators (frames, 2 n + 1) of n resonators in series; each has gain 1 at 0 Hz."""
    radius = np.exp(-np.pi * np.broadcast_to(widths_hz, centres_hz.shape) / SAMPLE_RATE)
    first = -2 * radius * np.cos(2 * np.pi * centres_hz / SAMPLE_RATE)
    product = np.ones((len(centres_hz), 1))
    for b1, b2 in zip(first.T, (radius**2).T, strict=True):
        longer = np.pad(product, ((0, 0), (0, 2)))
        longer[:, 1:-1] += b1[:, None] * product
        longer[:, 2:] += b2[:, None] * product
        product = longer / (1 + b1 + b2)[:, None]
    return product


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum frames (count, length) that start `hop` samples apart; `length` must be a multiple of `hop`."""
    count, length = frames.shape
    parts = length // hop
    out = np.zeros((count + parts - 1, hop))
    for part in range(parts):
        out[part : part + count] += frames[:, part * hop : (part + 1) * hop]
    return out.reshape(-1)


def filtered(signal: Array, response: Array) -> Array:
    """`signal` convolved with the impulse `response`, cut to its own length."""
    size = -(-(len(signal) + len(response)) // 2048) * 2048
    return np.fft.irfft(np.fft.rfft(signal, size) * np.fft.rfft(response, size), size)[
        : len(signal)
    ]
