"""Arrays of samples, as users have them in memory, brought to what `read_audio` returns.

Invariant: an array scores as a file of the same samples does. What cannot be meant (no sampling
rate, NaN, a batch of utterances) is refused instead of guessed at, because a network gives a score
for anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asdf.audio.recording_sources import Limits
from asdf.audio.sample_rates import resample
from asdf.errors import UsageError

MAX_CHANNELS = 16
# Those of `asdf.audio.recording_files`: at a rate of 1 Hz a second of memory becomes hours.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000
# Of floats, whose full scale is 1.
_MAX_LEVEL = 100.0
_INTEGERS = {"int16": 2.0**15, "int32": 2.0**31}


def as_waveform(array: Any, sample_rate: Any, limits: Limits | None = None) -> np.ndarray:
    """Return samples of any rate as (T,) float32 at 16 kHz, the channels averaged.

    Args:
        array: (samples,), (samples, channels) or (channels, samples), the longer axis being that of
            the samples; an array or tensor of floats with full scale 1, of int16 or of int32.
        sample_rate: Sampling rate of the array, in Hz.
        limits: Limits of what is computed from the array.

    Raises:
        UsageError: no or no whole rate, another type or shape, no samples, samples that are not
            finite, or floats on an integer scale.
        AsdfError: it is longer than the limits allow.
    """
    rate = check_rate(sample_rate)
    return resample(as_mono(array, rate, limits), rate)


def as_mono(array: Any, rate: int, limits: Limits | None = None) -> np.ndarray:
    """Return samples as (T,) float32 at their rate, the channels averaged; as `as_waveform`."""
    samples = _as_floats(array)
    mono = _average_channels(samples)
    if not len(mono):
        raise UsageError("the array holds no samples. Was it cut to nothing?")
    _check_levels(mono)
    if limits is not None:
        limits.check_seconds("the array", len(mono) / rate)
        limits.check_memory("the array", len(mono), 1, rate)
    return mono


def as_chunk(array: Any) -> np.ndarray:
    """Return the next samples of a recording as (T,) float32 at their rate, the channels averaged.

    Args:
        array: (samples,) or (samples, channels), of the types of `as_waveform`; may be empty.

    Raises:
        UsageError: as `as_waveform`.
    """
    samples = _as_floats(array)
    if samples.ndim == 2 and 1 <= samples.shape[1] <= MAX_CHANNELS:
        samples = samples.mean(axis=1, dtype=np.float32)
    if samples.ndim != 1:
        raise UsageError(
            f"an array of shape {samples.shape} is not a chunk of a recording: give (samples,) or "
            f"(samples, channels) with up to {MAX_CHANNELS} channels."
        )
    if len(samples):
        _check_levels(samples)
    # A copy: the program may fill its buffer again.
    return np.array(samples)


def _as_floats(array: Any) -> np.ndarray:
    """Return an array or tensor as float32 with full scale 1."""
    # A tensor that learns, or of a GPU, is none that numpy reads.
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    samples = np.asarray(array)
    if samples.dtype.name in _INTEGERS:
        samples = samples.astype(np.float64) / _INTEGERS[samples.dtype.name]
    elif samples.dtype.kind != "f":
        raise UsageError(
            f"samples of type {samples.dtype} cannot be scored: give floats with full scale 1, "
            "int16 or int32."
        )
    return samples.astype(np.float32)


def _check_levels(mono: np.ndarray) -> None:
    """Refuse samples (T,), T >= 1, that are not finite or not on the scale of floats."""
    if not np.isfinite(mono).all():
        raise UsageError(
            "the array holds samples that are not finite (NaN or infinity): a score would mean "
            "nothing."
        )
    level = np.abs(mono).max()
    if level > _MAX_LEVEL:
        raise UsageError(
            f"the array holds floats up to {level:.0f}, but the full scale of floats is 1. They "
            "were likely integers before: divide them by 32768, or give them as int16."
        )


def _average_channels(samples: np.ndarray) -> np.ndarray:
    if samples.ndim == 1:
        return samples
    is_plane = samples.ndim == 2
    if not is_plane or samples.shape[0] == samples.shape[1] or min(samples.shape) > MAX_CHANNELS:
        raise UsageError(
            f"an array of shape {samples.shape} is not one recording: give (samples,), (samples, "
            f"channels) or (channels, samples) with up to {MAX_CHANNELS} channels. Score "
            "utterances one at a time."
        )
    axis_of_channels = 1 if samples.shape[0] > samples.shape[1] else 0
    mono: np.ndarray = samples.mean(axis=axis_of_channels, dtype=np.float32)
    return mono


def check_rate(sample_rate: Any, name: str = "an array") -> int:
    """Return a sampling rate as a whole number.

    Raises:
        UsageError: it is none, or one at which no one records speech.
    """
    try:
        rate = int(sample_rate)
    except (TypeError, ValueError, OverflowError):
        rate = 0
    if rate < 1 or rate != sample_rate:
        problem = "was not given" if sample_rate is None else f"is {sample_rate!r}"
        raise UsageError(f"{name} needs its sample_rate in Hz, a whole number; it {problem}.")
    if not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise UsageError(
            f"{name}: a sample_rate of {rate:,} Hz is outside the range of speech, "
            f"{_LOWEST_RATE:,} to {_HIGHEST_RATE:,} Hz."
        )
    return rate
