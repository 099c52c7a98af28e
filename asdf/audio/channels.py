"""Whether the channels and the sound tracks of a recording are the same sound.

Invariant: channels that agree are averaged, digitally silent ones are left out, and what differs is
known (`difference_of` in `recording_sources`), so that no verdict is about the mean of two voices,
or one of two tracks. It is decided once, from the whole recording, whichever part of it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from asdf.audio.recording_sources import SILENCE, Relation
from asdf.audio.sample_rates import resample
from asdf.audio.speech_check import MIN_S, has_speech

BLOCK_S = 4
"""Seconds of a recording that are compared at a time."""

# The mean of the channels has at least this part of their energy.
_MEAN_ENERGY = 0.25
_QUIET_DB = -40.0
_CORRELATION = 0.9


def compare_samples(samples: np.ndarray, rate: int, needs_speech: bool = True) -> Relation:
    """Return how the channels of (frames, channels), in memory, relate; as `compare`."""
    return compare(lambda: cut_blocks(samples, BLOCK_S * rate), rate, needs_speech)


def compare(
    blocks: Callable[[], Iterable[np.ndarray]], rate: int, needs_speech: bool = True
) -> Relation:
    """Return how the channels of a recording relate.

    Args:
        blocks: Function that yields the samples from the start, (frames, channels).
        rate: Sampling rate in Hz.
        needs_speech: Whether channels without speech may differ, as the sides of music do.
    """
    count, sums, products, low, high = 0, 0.0, 0.0, np.inf, -np.inf
    for block in blocks():
        exact = block.astype(np.float64)
        count += len(exact)
        sums += exact.sum(axis=0)
        products += exact.T @ exact
        low = np.minimum(low, exact.min(axis=0))
        high = np.maximum(high, exact.max(axis=0))
    # As in `is_silent`.
    sounds = np.flatnonzero((high - low) / 2 >= SILENCE)
    if len(sounds) < 2 or not np.isfinite(products).all():
        return Relation(tuple(sounds.tolist()) or tuple(range(np.size(high))))
    means = sums / count
    covariance = (products / count - np.outer(means, means))[np.ix_(sounds, sounds)]
    energies = covariance.diagonal()
    quietest, loudest = energies.argmin(), energies.argmax()
    level_db = 10 * np.log10(max(energies[quietest], 1e-20) / energies[loudest])
    why = ""
    if level_db < _QUIET_DB:
        why = f"channel {sounds[quietest]} lies {-level_db:.0f} dB under {sounds[loudest]}"
    elif covariance.mean() < _MEAN_ENERGY * energies.mean():
        why = "the channels cancel each other"
    else:
        correlation = covariance / np.sqrt(np.outer(energies, energies))
        speaks = np.full(len(sounds), True)
        if needs_speech and correlation.min() < _CORRELATION:
            speaks = np.isin(sounds, _speaking(blocks, rate, sounds))
        counted = correlation[np.ix_(speaks, speaks)]
        if counted.size and counted.min() < _CORRELATION:
            why = f"the channels are not the same sound (correlation {counted.min():.2f})"
    return Relation(tuple(sounds.tolist()), why)


def _speaking(
    blocks: Callable[[], Iterable[np.ndarray]], rate: int, channels: np.ndarray
) -> list[int]:
    """Return which of the channels have speech."""
    speaking: list[int] = []
    for index, block in enumerate(blocks()):
        # A short rest counts as speech, which says nothing of a longer recording.
        if len(speaking) == len(channels) or (index and len(block) < MIN_S * rate):
            break
        for channel in channels.tolist():
            samples = np.ascontiguousarray(block[:, channel])
            if channel not in speaking and has_speech(resample(samples, rate)):
                speaking.append(channel)
    return speaking


def cut_blocks(samples: np.ndarray, size: int) -> Iterator[np.ndarray]:
    """Return samples in blocks of `size` frames, as they are compared."""
    return (samples[start : start + size] for start in range(0, len(samples), size))
