"""Conversion of arrays of samples in memory to what `read_audio` returns.

Invariant: an array scores like a file of the same samples. Ambiguous or invalid input (no sampling
rate, NaN, a batch of utterances) is refused, because a network gives a score for anything.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from asdf.audio.reading import check_channel, choose_channels
from asdf.audio.recording_sources import Limits
from asdf.audio.sample_rates import resample
from asdf.errors import UsageError
from asdf.settings.sections import USUAL_AUDIO, Audio

MAX_CHANNELS = 16
# Same limit as in `asdf.audio.recording_files`: at 1 Hz, a second of samples becomes hours.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000
# Maximum level of floats, whose full scale is 1.
_MAX_LEVEL = 100.0
_INTEGERS = {"int16": 2.0**15, "int32": 2.0**31}


def as_waveform(
    array: Any, sample_rate: Any, limits: Limits | None = None, audio: Audio = USUAL_AUDIO
) -> np.ndarray:
    """Return samples of any rate in the format that `asdf.audio.read_audio` returns.

    Args:
        array: Samples, (samples,), (samples, channels) or (channels, samples), where the longer
            axis is that of the samples; an array or tensor of floats with full scale 1, of int16 or
            of int32.
        sample_rate: Sampling rate of the array, in Hz.
        limits: Limits on what is computed from the array.
        audio: Rate and channels that the network hears.

    Raises:
        UsageError: the rate is missing or not a whole number, the type or shape is not supported,
            there are no samples, samples are not finite, or floats are on an integer scale.
        AsdfError: the array is longer than the limits allow, or lacks the chosen channel.
    """
    rate = check_rate(sample_rate)
    heard = _choose_channels(_as_floats(array), audio)
    if not len(heard):
        raise UsageError("the array holds no samples. Was it cut to nothing?")
    _check_levels(heard)
    if limits is not None:
        limits.check_seconds("the array", len(heard) / rate)
        limits.check_memory("the array", len(heard), 1, rate, audio.sample_rate)
    return resample(heard, rate, audio.sample_rate)


def heard_again(waveform: np.ndarray, audio: Audio) -> np.ndarray:
    """Return an array that is heard again as this waveform, which was read in format `audio`."""
    if isinstance(audio.channels, int):
        # Channels count from 0, and the chosen one must be there.
        return np.stack([waveform] * (audio.channels + 1), axis=1)
    return waveform


def as_chunk(array: Any, channels: int | str = "mean") -> np.ndarray:
    """Return the next samples of a recording as float32 at their rate, for the chosen channels.

    Args:
        array: Samples, (samples,) or (samples, channels), of the types of `as_waveform`; may be
            empty.

    Raises:
        UsageError: as `as_waveform`.
    """
    samples = _as_floats(array)
    is_chunk = samples.ndim == 1
    if samples.ndim == 2 and 1 <= samples.shape[1] <= MAX_CHANNELS:
        is_chunk = True
        if channels == "mean":
            samples = samples.mean(axis=1, dtype=np.float32)
    if not is_chunk:
        raise UsageError(
            f"an array of shape {samples.shape} is not a chunk of a recording: give (samples,) or "
            f"(samples, channels) with up to {MAX_CHANNELS} channels."
        )
    # A chunk may be empty, and nothing has no maximum.
    if len(samples):
        _check_levels(samples)
    if channels != "mean":
        samples = _of_channels(samples if samples.ndim == 2 else samples[:, None], channels)
    # Copy the samples, because the program may refill its buffer.
    return np.array(samples)


def _as_floats(array: Any) -> np.ndarray:
    """Return an array or tensor as float32 with full scale 1."""
    # numpy cannot read a tensor that requires gradients or is on a GPU.
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


def _check_levels(samples: np.ndarray) -> None:
    """Refuse samples that are not finite or not on the scale of floats."""
    if not np.isfinite(samples).all():
        raise UsageError(
            "the array holds samples that are not finite (NaN or infinity): a score would mean "
            "nothing."
        )
    level = np.abs(samples).max()
    if level > _MAX_LEVEL:
        raise UsageError(
            f"the array holds floats up to {level:.0f}, but the full scale of floats is 1. They "
            "were likely integers before: divide them by 32768, or give them as int16."
        )


def _of_channels(samples: np.ndarray, channels: int | str) -> np.ndarray:
    """Return the chosen channels of (T, channels)."""
    check_channel("the array", samples.shape[1], channels)
    return choose_channels(samples, channels)


def _choose_channels(samples: np.ndarray, audio: Audio) -> np.ndarray:
    if samples.ndim == 1:
        is_mean = audio.channels == "mean"
        return samples if is_mean else _of_channels(samples[:, None], audio.channels)
    is_plane = samples.ndim == 2
    if not is_plane or samples.shape[0] == samples.shape[1] or min(samples.shape) > MAX_CHANNELS:
        raise UsageError(
            f"an array of shape {samples.shape} is not one recording: give (samples,), (samples, "
            f"channels) or (channels, samples) with up to {MAX_CHANNELS} channels. Score "
            "utterances one at a time."
        )
    axis_of_channels = 1 if samples.shape[0] > samples.shape[1] else 0
    if audio.channels != "mean":
        return _of_channels(np.moveaxis(samples, axis_of_channels, 1), audio.channels)
    mono: np.ndarray = samples.mean(axis=axis_of_channels, dtype=np.float32)
    return mono


def check_rate(sample_rate: Any, name: str = "an array") -> int:
    """Return a sampling rate as a whole number.

    Raises:
        UsageError: it is not a whole number, or not a rate at which speech is recorded.
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
