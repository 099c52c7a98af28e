"""Audio fingerprints, which recognise a sound under another name, level or codec.

The word of a frame has a bit per pair of neighbouring bands: whether the difference of their
energies increased since the previous frame (Haitsma and Kalker, "A highly robust audio
fingerprinting system", ISMIR 2002). It has 16 bits for frames of 256 ms every 16 ms, over the first
eight seconds of sound.

Invariant: two recordings count as the same only if most bits agree at one offset for at least a
second, which is not the case for recordings of the same words by one voice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

import numpy as np

from asdf.arrays import Floats
from asdf.facts import SAMPLE_RATE

_FRAME = 4096
_HOP = 256
_BANDS = 17
_LOWEST_HZ = 300
_HIGHEST_HZ = 3000
_SECONDS = 8
_QUIET = 1e-2
_FLOOR = 1e-9
# Words that more recordings share are from silence or tones, and not informative.
_COMMON = 40
_HITS = 4
_LEAST_FRAMES = 64  # about a second
# Unrelated recordings differ in half of the bits; the limit of Haitsma and Kalker is 0.35, for
# frames compared over three seconds.
_LARGEST_SHARE = 0.28


def fingerprint(waveform: Floats) -> np.ndarray:
    """Return the words of a waveform (T,) at 16 kHz: (frames,) uint16; empty if it is short."""
    magnitudes = np.abs(waveform)
    peak = float(magnitudes.max())
    nothing = np.zeros(0, np.uint16)
    if peak < _QUIET**3:
        return nothing
    # From the first sound on: copies may have been cut at the start.
    first = int(np.argmax(magnitudes > _QUIET * peak))
    sound = waveform[first : first + _SECONDS * SAMPLE_RATE]
    if len(sound) < _FRAME + _HOP:
        return nothing
    frames = np.lib.stride_tricks.sliding_window_view(sound, _FRAME)[::_HOP]
    window = np.hanning(_FRAME).astype(np.float32)
    spectra = np.fft.rfft(frames * window, axis=1)
    power = np.abs(spectra) ** 2
    edges_hz = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _BANDS + 1)
    edges = (edges_hz * _FRAME / SAMPLE_RATE).astype(int)
    energies = np.add.reduceat(power, edges[:-1], axis=1)
    # Digital silence has no energy, and no logarithm.
    differences = np.diff(np.log(energies + _FLOOR), axis=1)
    bits = np.diff(differences, axis=0) > 0
    weights = 1 << np.arange(_BANDS - 1)
    words: np.ndarray = (bits * weights).sum(axis=1).astype(np.uint16)
    return words


def same_recordings(prints: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
    """Yield the index pairs of recordings that are the same sound."""
    # Sorted, since a set has no order, and an audit has the same bytes every time.
    for first, second, offset in sorted(_candidates(prints)):
        # The second one starts `offset` frames later.
        start = max(0, -offset)
        stop = min(len(prints[first]), len(prints[second]) - offset)
        if stop - start < _LEAST_FRAMES:
            continue
        different = prints[first][start:stop] ^ prints[second][start + offset : stop + offset]
        share = np.unpackbits(different.view(np.uint8)).mean()
        if share <= _LARGEST_SHARE:
            yield first, second


def _candidates(prints: Sequence[np.ndarray]) -> set[tuple[int, int, int]]:
    """Return pairs with several equal words at one offset, each with its most likely offset."""
    keys = []
    recordings = []
    positions = []
    for index, words in enumerate(prints):
        if len(words) > 1:
            # Two consecutive words form a key, because 16 bits alone are shared too often.
            # 32 bits before the shift, which would push all bits out of 16.
            key = words[:-1].astype(np.uint32) << 16 | words[1:]
            keys.append(key)
            recordings.append(np.full(len(key), index))
            positions.append(np.arange(len(key)))
    if not keys:
        return set()
    all_keys = np.concatenate(keys)
    all_recordings = np.concatenate(recordings)
    all_positions = np.concatenate(positions)
    # Stable, so that a pair always has its recordings in the order of the list.
    order = np.argsort(all_keys, kind="stable")
    bounds = np.flatnonzero(np.diff(all_keys[order])) + 1
    hits: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for group in np.split(order, bounds):
        if not 1 < len(group) <= _COMMON:
            continue
        entries = zip(all_recordings[group].tolist(), all_positions[group].tolist(), strict=True)
        # Pairs of recordings that share a key, at an offset.
        for (first, at_first), (second, at_second) in combinations(entries, 2):
            if first != second:
                hits[first, second][at_second - at_first] += 1
    found = set()
    for (first, second), offsets in hits.items():
        offset, count = offsets.most_common(1)[0]
        if count >= _HITS:
            found.add((first, second, offset))
    return found
