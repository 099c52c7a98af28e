"""The few filters that the demo corpus needs: frames, overlap-add, resonators, averages.

Invariant: no filter runs sample by sample in Python; a filter that changes over time is applied in
windowed frames that add up to the signal, by FFT.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
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
    # Without its ends, which are 0.
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
    """Return a window (points,); copies of it that overlap by half add up to 1."""
    half_steps = np.arange(points) + 0.5
    return np.sin(np.pi * half_steps / points) ** 2


def cut(signal: Array, frames: int) -> Array:
    """Cut `signal` into Hann-windowed frames of 2 HOP samples, (frames, 2 HOP).

    They overlap by half, so that their windows add up to 1.
    """
    length = 2 * HOP
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    frames_without_window = slide(padded, length)[::HOP]
    return frames_without_window * squared_sine(length)


def slide(signal: Array, length: int) -> Array:
    """Return all parts of `length` of a signal (samples,), each a sample later than the last."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)


def resonators(centres_hz: Array, widths_hz: Array) -> Array:
    """Return denominators (frames, 2 n + 1) of n resonators in series, each of gain 1 at 0 Hz."""
    widths_hz = np.broadcast_to(widths_hz, centres_hz.shape)
    # Of the pair of poles of each resonator.
    radius = np.exp(-np.pi * widths_hz / SAMPLE_RATE)
    angle = 2 * np.pi * centres_hz / SAMPLE_RATE
    first = -2 * radius * np.cos(angle)
    second = radius**2
    product = np.ones((len(centres_hz), 1))
    for b1, b2 in zip(first.T, second.T, strict=True):
        # The product of two polynomials, in each frame.
        longer = np.pad(product, ((0, 0), (0, 2)))
        longer[:, 1:-1] += b1[:, None] * product
        longer[:, 2:] += b2[:, None] * product
        at_0_hz = 1 + b1 + b2
        product = longer / at_0_hz[:, None]
    return product


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


def filtered(signal: Array, response: Array) -> Array:
    """Convolve `signal` with the impulse `response`; the result has the length of `signal`."""
    size = round_up(len(signal) + len(response), _FFT_MULTIPLE)
    spectrum = rfft(signal, size)
    spectrum = spectrum * rfft(response, size)
    convolved = irfft(spectrum, size)
    return convolved[: len(signal)]


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is not below `number`."""
    return -(-number // multiple) * multiple
