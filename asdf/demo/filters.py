"""The few filters that the demo corpus needs: frames, overlap-add, resonators, averages.

Invariant: no filter runs sample by sample in Python; a filter that changes over time is applied in
windowed frames that add up to the signal, by FFT.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from asdf.facts import SAMPLE_RATE

Array = NDArray[np.float64]

HOP = 128
"""Samples between frames."""

_FFT_MULTIPLE = 2048


def smooth(track: Array, width: int) -> Array:
    """Average `track` (time, ...) along time by a Hann window of about `width` points.

    Its first and last values are repeated beyond its ends.
    """
    window = np.hanning(width + 2)[1:-1]
    before = width // 2
    after = width - 1 - before
    start = np.repeat(track[:1], before, 0)
    end = np.repeat(track[-1:], after, 0)
    padded = np.concatenate([start, track, end])
    columns = padded.reshape(len(padded), -1).T
    weights = window / window.sum()
    averaged = [np.convolve(column, weights, mode="valid") for column in columns]
    return np.stack(averaged, axis=1).reshape(track.shape)


def cut(signal: Array, frames: int) -> Array:
    """Cut `signal` into Hann-windowed frames of 2 HOP samples, (frames, 2 HOP).

    They overlap by half, so that their windows add up to one.
    """
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    window = np.sin(np.pi * (np.arange(2 * HOP) + 0.5) / (2 * HOP)) ** 2
    return np.lib.stride_tricks.sliding_window_view(padded, 2 * HOP)[::HOP] * window


def resonators(centres_hz: Array, widths_hz: Array) -> Array:
    """Return the denominators (frames, 2 n + 1) of n resonators in series, each of gain 1 at 0 Hz."""
    widths_hz = np.broadcast_to(widths_hz, centres_hz.shape)
    radius = np.exp(-np.pi * widths_hz / SAMPLE_RATE)
    first = -2 * radius * np.cos(2 * np.pi * centres_hz / SAMPLE_RATE)
    second = radius**2
    product = np.ones((len(centres_hz), 1))
    for b1, b2 in zip(first.T, second.T, strict=True):
        # The product of two polynomials, in each frame.
        longer = np.pad(product, ((0, 0), (0, 2)))
        longer[:, 1:-1] += b1[:, None] * product
        longer[:, 2:] += b2[:, None] * product
        product = longer / (1 + b1 + b2)[:, None]
    return product


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum frames (count, length) that start `hop` samples apart; `length` is a multiple of `hop`."""
    count, length = frames.shape
    parts = length // hop
    total = np.zeros((count + parts - 1, hop))
    for part in range(parts):
        total[part : part + count] += frames[:, part * hop : (part + 1) * hop]
    return total.reshape(-1)


def filtered(signal: Array, response: Array) -> Array:
    """Convolve `signal` with the impulse `response`; the result has the length of `signal`."""
    length = len(signal) + len(response)
    size = -(-length // _FFT_MULTIPLE) * _FFT_MULTIPLE
    spectrum = np.fft.rfft(signal, size) * np.fft.rfft(response, size)
    return np.fft.irfft(spectrum, size)[: len(signal)]
