"""Whether the channels and the sound tracks of a recording are the same sound.

Invariant: channels that agree are averaged, digitally silent ones are left out, and what differs is
known (`difference_of` in `recording_sources`), so that no verdict is about the mean of two voices,
or one of two tracks. It is decided once, from the whole recording, whichever part of it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from asdf.audio.recording_sources import SILENCE, Relation
from asdf.audio.sample_rates import resample
from asdf.audio.speech_check import MIN_S, has_speech
from asdf.errors import UsageError

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
    compared = Comparison()
    for block in blocks():
        compared.add(block)
    if not needs_speech:
        return compared.relation()
    return compared.relation(lambda channels: _speaking(blocks, rate, channels))


class Comparison:
    """Sums over samples that arrive in blocks, which tell how their channels relate."""

    def __init__(self) -> None:
        self._count = 0
        self._sums: Any = 0.0
        self._products: Any = 0.0
        self._low: Any = np.inf
        self._high: Any = -np.inf

    def add(self, block: np.ndarray) -> None:
        """Count a block, (frames, channels).

        Raises:
            UsageError: earlier blocks had another number of channels.
        """
        if not len(block):
            return
        if self._count and np.size(self._low) != block.shape[1]:
            raise UsageError(
                f"a recording of {np.size(self._low)} channels goes on with {block.shape[1]}: give "
                "the same channels in each chunk."
            )
        exact = block.astype(np.float64)
        self._count += len(exact)
        self._sums = self._sums + exact.sum(axis=0)
        self._products = self._products + exact.T @ exact
        self._low = np.minimum(self._low, exact.min(axis=0))
        self._high = np.maximum(self._high, exact.max(axis=0))

    def relation(self, find_speaking: Callable[[np.ndarray], list[int]] | None = None) -> Relation:
        """Return how the channels of the blocks so far relate.

        Args:
            find_speaking: Function that returns which of some channels have speech: others may
                differ; None: all have.
        """
        # As in `is_silent`.
        sounds = np.flatnonzero((self._high - self._low) / 2 >= SILENCE)
        if len(sounds) < 2 or not np.isfinite(self._products).all():
            return Relation(tuple(sounds.tolist()) or tuple(range(np.size(self._high))))
        means = self._sums / self._count
        covariance = self._products / self._count - np.outer(means, means)
        covariance = covariance[np.ix_(sounds, sounds)]
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
            if find_speaking is not None and correlation.min() < _CORRELATION:
                speaks = np.isin(sounds, find_speaking(sounds))
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
