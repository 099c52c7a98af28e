"""Arrays of samples, as users have them in memory, brought to what `read_audio` returns.

Invariant: an array scores as a file of the same samples does. What cannot be meant (no sampling
rate, NaN, a batch of utterances) is refused instead of guessed at, because a network gives a score
for anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asdf.audio.resampling import resample
from asdf.errors import UsageError

MAX_CHANNELS = 16
# Of floats, whose full scale is 1.
_MAX_LEVEL = 100.0
_INTEGERS = {"int16": 2.0**15, "int32": 2.0**31}


def as_waveform(array: Any, sample_rate: Any) -> np.ndarray:
    """Return samples of any rate as (T,) float32 at 16 kHz, the channels averaged.

    Args:
        array: (samples,), (samples, channels) or (channels, samples), the longer axis being that of
            the samples; an array or tensor of floats with full scale 1, of int16 or of int32.
        sample_rate: of the array, in Hz.

    Raises:
        UsageError: no or no whole rate, another type or shape, no samples, samples that are not
            finite, or floats on an integer scale.
    """
    rate = _check_rate(sample_rate)
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
    mono = _average_channels(samples.astype(np.float32))
    if not len(mono):
        raise UsageError("the array holds no samples. Was it cut to nothing?")
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
    return resample(mono, rate)


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


def _check_rate(sample_rate: Any) -> int:
    try:
        rate = int(sample_rate)
    except (TypeError, ValueError, OverflowError):
        rate = 0
    if rate < 1 or rate != sample_rate:
        problem = "was not given" if sample_rate is None else f"is {sample_rate!r}"
        raise UsageError(f"an array needs its sample_rate in Hz, a whole number; it {problem}.")
    return rate
