"""Resampling between any rates, to 16 kHz by default, by windowed-sinc interpolation.

Invariant: the output length, and the span of input that an output sample depends on, are known
exactly, in integers, before decoding. Lengths from headers therefore equal the lengths read, and a
part of a recording can be read without the rest. What arrives in chunks gives samples that do not
depend on the division: a block of output is computed from the same span of input.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.lib.stride_tricks import as_strided

from asdf.facts import SAMPLE_RATE

# The defaults of torchaudio's resample.
_ZERO_CROSSINGS = 6
_ROLLOFF = 0.99

# A table of the filter of every phase takes gigabytes if the rates have no common factor.
_LARGEST_TABLE = 2**23

# Number of output samples computed together without a table, which needs a dozen arrays of this
# size.
_AT_ONCE = 2**16

# Phases of the filter that are multiplied together: their taps overlap.
_PHASES = 32

# OpenBLAS multiplies matrices of up to this many products with one thread.
_PRODUCTS = 2**18


def resampled_length(frames: int, rate: int, to: int = SAMPLE_RATE) -> int:
    """Return the number of samples at `to` Hz for `frames` samples at `rate` Hz.

    It is the ceiling of the exact quotient.
    """
    return -(-frames * to // rate)


def resampled_position(first: int, rate: int, to: int = SAMPLE_RATE) -> int:
    """Return the output sample at input sample `first` of `source_span`."""
    return first * to // rate


def source_span(start: int, stop: int, rate: int, to: int = SAMPLE_RATE) -> tuple[int, int]:
    """Return (first, last): output samples `start <= j < stop` depend on input `first <= i < last`.

    `first` is a multiple of the filter period, so it coincides with an output sample, number
    `resampled_position(first, rate, to)`. `last` may lie beyond the end of the recording.
    """
    if rate == to:
        return start, stop
    old, new = _reduce(rate, to)
    width = _half_width(rate, to)
    periods_before = -(-width // old)
    first_period = max(0, start // new - periods_before)
    # The input sample at or before the last output sample.
    nearest = (stop - 1) * old // new
    return first_period * old, nearest + width + 2


def resample(waveform: np.ndarray, rate: int, to: int = SAMPLE_RATE) -> np.ndarray:
    """Resample `waveform` (T,) float32 at `rate` Hz to (resampled_length(T, rate, to),) at `to` Hz.

    For (T, channels), each channel is resampled separately. The filter is that of
    `torchaudio.functional.resample`: a sinc with 6 zero crossings, cut off at 0.99 of the lower
    Nyquist frequency, under a Hann window.
    """
    if rate == to:
        return waveform
    if waveform.ndim == 2:
        channels = [resample(np.ascontiguousarray(row), rate, to) for row in waveform.T]
        return np.stack(channels, axis=1)
    old, new = _reduce(rate, to)
    taps = 2 * _half_width(rate, to) + old
    if taps * new > _LARGEST_TABLE:
        return _resample_directly(waveform, rate, to)
    length = resampled_length(len(waveform), rate, to)
    periods = -(-length // new)
    width = _half_width(rate, to)
    padded = np.zeros((periods + 1) * old + 2 * width, np.float32)
    padded[width : width + len(waveform)] = waveform
    output = np.empty((periods, new), np.float32)
    for phases, first, weights in _filters(rate, to):
        rows = as_strided(padded[first:], (periods, len(weights)), (old * 4, 4), writeable=False)
        count = max(1, _PRODUCTS // weights.size)
        for start in range(0, periods, count):
            stop = start + count
            np.matmul(rows[start:stop], weights, out=output[start:stop, phases])
    return output.reshape(-1)[:length]


@lru_cache(maxsize=16)
def _filters(rate: int, to: int) -> list[tuple[slice, int, np.ndarray]]:
    """Return the filter in groups of phases: the phases, the first tap, weights (taps, phases).

    Each number is rounded to float32 as torchaudio does, so that scores are those of its filter.
    """
    old, new = _reduce(rate, to)
    width = _half_width(rate, to)
    as_float = np.float32
    cutoff = as_float(min(old, new) * _ROLLOFF)
    taps = np.arange(-width, width + old, dtype=as_float) / as_float(old)
    phases = np.arange(0, -new, -1, dtype=as_float) / as_float(new)
    t = np.clip((phases[:, None] + taps) * cutoff, -_ZERO_CROSSINGS, _ZERO_CROSSINGS)
    window = np.cos(t * as_float(np.pi / (2 * _ZERO_CROSSINGS))) ** 2
    angle = t * as_float(np.pi)
    with np.errstate(invalid="ignore"):
        weights = np.where(t == 0, as_float(1), np.sin(angle) / angle)
    weights *= window * (cutoff / as_float(old))
    groups = []
    for start in range(0, new, _PHASES):
        group = weights[start : start + _PHASES]
        used = np.flatnonzero(group.any(axis=0))
        first, last = int(used[0]), int(used[-1])
        taps_of_group = np.ascontiguousarray(group[:, first : last + 1].T)
        groups.append((slice(start, start + _PHASES), first, taps_of_group))
    return groups


def _resample_directly(waveform: np.ndarray, rate: int, to: int) -> np.ndarray:
    """Compute the same sum without a table: one tap at a time, over many output samples."""
    padded = np.pad(waveform, _half_width(rate, to) + 1)
    length = resampled_length(len(waveform), rate, to)
    output = np.empty(length, np.float32)
    for start in range(0, length, _AT_ONCE):
        stop = min(length, start + _AT_ONCE)
        output_index = np.arange(start, stop)
        output[start:stop] = _interpolate(padded, rate, to, output_index)
    return output


def _interpolate(padded: np.ndarray, rate: int, to: int, output_index: np.ndarray) -> np.ndarray:
    """Return the output samples `output_index` (n,) of a zero-padded waveform.

    The result is (n,) float64.
    """
    width = _half_width(rate, to)
    cutoff = _ROLLOFF * min(1.0, to / rate)
    nearest, remainder = np.divmod(output_index * rate, to)
    fraction = remainder / to
    output = np.zeros(len(output_index))
    for tap in range(-width, width + 2):
        t = (tap - fraction) * cutoff
        t = np.clip(t, -_ZERO_CROSSINGS, _ZERO_CROSSINGS)
        angle = np.pi * t / (2 * _ZERO_CROSSINGS)
        weight = np.sinc(t) * np.cos(angle) ** 2
        # `padded` has width + 1 zeros before the waveform.
        source = nearest + (tap + width + 1)
        output += weight * padded[source]
    return cutoff * output


def _reduce(rate: int, to: int) -> tuple[int, int]:
    """Return both rates in lowest terms: input and output samples of a filter period."""
    divisor = math.gcd(rate, to)
    return rate // divisor, to // divisor


def _half_width(rate: int, to: int) -> int:
    """Return how many input samples on either side of an output sample its filter covers."""
    stretch = max(1.0, rate / to)
    return math.ceil(_ZERO_CROSSINGS * stretch / _ROLLOFF)


# Chunks are joined when there are this many, since a chunk may be a single sample.
_MAX_CHUNKS = 256


class StreamResampler:
    """Takes samples at one rate, and returns blocks at another as soon as they are determined.

    It keeps the samples that the next block depends on.

    Args:
        rate, to: Sampling rates of input and output, in Hz.

    Attributes:
        frames: Number of input samples so far.
        done: Number of output samples so far.
    """

    def __init__(self, rate: int, to: int = SAMPLE_RATE) -> None:
        self.frames = 0
        self.done = 0
        self._rate = rate
        self._to = to
        self._chunks: list[np.ndarray] = []
        # The frame at which the first chunk begins.
        self._first = 0

    def add(self, samples: np.ndarray) -> None:
        """Add the next samples, (T,) or (T, channels) float32."""
        self._chunks.append(samples)
        self.frames += len(samples)
        if len(self._chunks) > _MAX_CHUNKS:
            self._join()

    def read(self, count: int) -> np.ndarray | None:
        """Return the next `count` samples; None if they are not all determined yet."""
        _, last = source_span(self.done, self.done + count, self._rate, self._to)
        return None if last > self.frames else self.read_known(count)

    def read_rest(self) -> np.ndarray:
        """Return the remaining samples at the end of the recording: (T,)."""
        count = resampled_length(self.frames, self._rate, self._to) - self.done
        return self.read_known(count) if count else self._join()[:0]

    def read_known(self, count: int) -> np.ndarray:
        """Return the next `count` samples, as if the input ended here: (T,)."""
        first, last = source_span(self.done, self.done + count, self._rate, self._to)
        joined = self._join()
        span = joined[first - self._first : last - self._first]
        start = self.done - resampled_position(first, self._rate, self._to)
        self.done += count
        # The next block needs the input from here on.
        next_first, _ = source_span(self.done, self.done + 1, self._rate, self._to)
        # A copy, since a view would keep everything in memory.
        self._chunks = [joined[next_first - self._first :].copy()]
        self._first = next_first
        return resample(span, self._rate, self._to)[start : start + count]

    def _join(self) -> np.ndarray:
        nothing = np.zeros((0, *self._chunks[0].shape[1:]) if self._chunks else 0, np.float32)
        joined = np.concatenate([nothing, *self._chunks])
        self._chunks = [joined]
        return joined
