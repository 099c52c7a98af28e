"""Whether the channels and the sound tracks of a recording are the same sound.

Invariant: channels that agree are averaged, digitally silent ones are left out, and what differs is
known (`difference_of`), so that no verdict is about the mean of two voices, or one of two tracks.
It is decided once, from the whole recording, whichever part of it is read.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

import numpy as np

from asdf import places
from asdf.audio.recording_sources import AnySource, Source
from asdf.audio.sample_rates import resample
from asdf.audio.speech_check import MIN_S, has_speech
from asdf.errors import AsdfError, UsageError

BLOCK_S = 4
"""Seconds of a recording that are compared at a time."""

# Recordings that are remembered, at some 300 bytes each.
_MOST = 2**16

# The mean of the channels has at least this part of their energy.
_MEAN_ENERGY = 0.25
_QUIET_DB = -40.0
_CORRELATION = 0.9


SILENCE_DB = -80.0
"""Samples that stay within this level of full scale are silence: 16 bits and their dither leave
about -85 dB."""

SILENCE = 10 ** (SILENCE_DB / 20)
"""The same level as a part of full scale."""

Kind = Literal["channel", "track"]


def is_silent(samples: np.ndarray) -> bool:
    """Return whether (frames,) or (frames, channels) are digital silence, in each channel.

    A constant offset of the converter is silence too.
    """
    swing = samples.max(axis=0).astype(np.float64) - samples.min(axis=0)
    return bool(np.all(swing / 2 < SILENCE))


class Relation(NamedTuple):
    """How the channels, or the tracks, of a recording relate.

    Attributes:
        heard: Channels from 0, or tracks from 1, that are not silent; all if all are.
        why: Description of how these differ; '' if they agree.
    """

    heard: tuple[int, ...]
    why: str = ""


_known: OrderedDict[object, Relation] = OrderedDict()


def recall(source: Source, kind: Kind) -> Relation | None:
    """Return how the channels or tracks of a recording relate; None if it has one, or is unread."""
    # Most lists have no recording with several, and need no look at its file.
    if not _known and source.is_file:
        return None
    known, key = _find_entry(source, kind)
    found: Relation | None = known.get(key)
    return found


def remember(source: Source, kind: Kind, found: Relation) -> Relation:
    """Note how the channels or tracks of a recording relate, and return it."""
    known, key = _find_entry(source, kind)
    if len(_known) >= _MOST:
        # The oldest alone: the results of recordings that were just read are still to be asked for.
        _known.popitem(last=False)
    known[key] = found
    return found


def difference_of(path: AnySource) -> tuple[Kind, Relation] | None:
    """Return the tracks, or channels, that differ in a recording that was read; None if none do."""
    kinds: tuple[Kind, Kind] = ("track", "channel")
    for kind in kinds:
        found = recall(Source.of(path), kind)
        if found is not None and found.why:
            return kind, found
    return None


def _find_entry(source: Source, kind: Kind) -> tuple[dict[Any, Any], object]:
    """Return the dictionary that knows a recording, and its key in there."""
    if source.is_file:
        return _known, (kind, source.name, places.file_state(source.name))
    # Content in memory knows its own: its name may be that of other content.
    return vars(source), kind


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
                f"a recording of {np.size(self._low)} channels continues with {block.shape[1]}: "
                "give the same channels in each chunk."
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


def choose_channels(
    samples: np.ndarray, channels: int | str = "mean", heard: tuple[int, ...] = ()
) -> np.ndarray:
    """Select the channels that `audio.channels` requests from (frames, channels), contiguous.

    The result is the mean of those that are `heard`, or one, (frames,), or with 'all' (frames,
    channels).
    """
    if channels == "all":
        return np.ascontiguousarray(samples)
    if isinstance(channels, int) or samples.shape[1] == 1:
        chosen = channels if isinstance(channels, int) else 0
        return np.ascontiguousarray(samples[:, chosen])
    if 0 < len(heard) < samples.shape[1]:
        samples = samples[:, list(heard)]
    mean: np.ndarray = samples.mean(axis=1)
    return mean


def check_channel(name: object, count: int, channels: int | str) -> None:
    """Refuse a recording of `count` channels that lacks the selected one.

    Raises:
        AsdfError: the channel does not exist.
    """
    if isinstance(channels, int) and channels >= count:
        has = "one channel, 0" if count == 1 else f"{count} channels, 0 to {count - 1}"
        raise AsdfError(
            f"{name} has {has}, but audio.channels = {channels}. Choose another channel, or take "
            "it off the list."
        )


def check_count(waveform: np.ndarray, channels: int | None, name: object) -> None:
    """Refuse a recording (T, channels) with another number of channels than the network takes.

    Raises:
        AsdfError: the numbers differ.
    """
    if channels is not None and waveform.shape[1:] != (channels,):
        count = waveform.shape[1] if waveform.ndim == 2 else 1
        raise AsdfError(
            f"{name} has {count} channel{'s' * (count > 1)}, but the network takes {channels} "
            "(audio.channels = 'all'). Add channels to it, or take it off the list."
        )


def channels_first(waveform: np.ndarray) -> np.ndarray:
    """Return (T, channels) as (channels, T), the layout of networks, and (T,) unchanged."""
    return waveform if waveform.ndim == 1 else np.ascontiguousarray(waveform.T)
