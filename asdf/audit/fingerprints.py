"""Fingerprints of recordings: the same sound is known again under another name, level or codec.

A frame's word has a bit per pair of neighbouring bands: whether their difference of energy grew
since the frame before (Haitsma and Kalker, "A highly robust audio fingerprinting system", ISMIR
2002). Here 16 bits for frames of 256 ms every 16 ms, over the first eight seconds of sound.

Invariant: two recordings count as the same only if most bits agree at one offset over at least a
second, which recordings of the same words by one voice do not reach.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

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
# Words that more recordings share than this are of silence or tones, and say nothing.
_COMMON = 40
_HITS = 4
_LEAST_FRAMES = 64
# Unrelated recordings differ in half of the bits; 0.35 is the limit of Haitsma and Kalker,
# whose frames are compared over three seconds.
_LARGEST_SHARE = 0.28


def fingerprint(waveform: Floats) -> np.ndarray:
    """Return the words of a waveform (T,) at 16 kHz: (frames,) uint16; none where it is short."""
    loud = np.flatnonzero(np.abs(waveform) > _QUIET * max(float(np.abs(waveform).max()), 1e-6))
    sound = waveform[loud[0] :][: _SECONDS * SAMPLE_RATE] if len(loud) else waveform[:0]
    if len(sound) < _FRAME + _HOP:
        return np.zeros(0, np.uint16)
    frames = np.lib.stride_tricks.sliding_window_view(sound, _FRAME)[::_HOP]
    edges = np.geomspace(_LOWEST_HZ, _HIGHEST_HZ, _BANDS + 1) * _FRAME / SAMPLE_RATE
    window = np.hanning(_FRAME).astype(np.float32)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    energies = np.add.reduceat(power, edges.astype(int)[:-1], axis=1)[:, :_BANDS]
    differences = np.diff(np.log(energies + 1e-9), axis=1)
    bits = np.diff(differences, axis=0) > 0
    words: np.ndarray = (bits * (1 << np.arange(_BANDS - 1))).sum(axis=1).astype(np.uint16)
    return words


def same_recordings(prints: Sequence[np.ndarray]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of recordings that are the same sound, by their indices."""
    for first, second, offset in sorted(_candidates(prints)):
        if _agrees(prints[first], prints[second], offset):
            yield first, second


def _candidates(prints: Sequence[np.ndarray]) -> set[tuple[int, int, int]]:
    """Return pairs with several equal words at one offset, each with its likeliest offset."""
    # Two words behind one another as one key: 16 bits alone are shared too often.
    keys = [p[:-1].astype(np.uint32) << 16 | p[1:] for p in prints if len(p) > 1]
    owners = [i for i, p in enumerate(prints) if len(p) > 1]
    if not keys:
        return set()
    all_keys = np.concatenate(keys)
    recordings = np.repeat(owners, [len(key) for key in keys])
    positions = np.concatenate([np.arange(len(key)) for key in keys])
    order = np.argsort(all_keys, kind="stable")
    bounds = np.flatnonzero(np.diff(all_keys[order])) + 1
    hits: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
    for group in np.split(order, bounds):
        if 1 < len(group) <= _COMMON:
            _count_hits(recordings[group], positions[group], hits)
    found = set()
    for (first, second), offsets in hits.items():
        offset, count = offsets.most_common(1)[0]
        if count >= _HITS:
            found.add((first, second, offset))
    return found


def _count_hits(
    recordings: np.ndarray,
    positions: np.ndarray,
    hits: defaultdict[tuple[int, int], Counter[int]],
) -> None:
    """Count the offsets at which pairs of recordings share a key."""
    for i in range(len(recordings)):
        for j in range(i + 1, len(recordings)):
            if recordings[i] != recordings[j]:
                pair = (int(recordings[i]), int(recordings[j]))
                hits[pair][int(positions[j] - positions[i])] += 1


def _agrees(first: np.ndarray, second: np.ndarray, offset: int) -> bool:
    """Return whether most bits agree where the second begins `offset` frames later."""
    start = max(0, -offset)
    stop = min(len(first), len(second) - offset)
    if stop - start < _LEAST_FRAMES:
        return False
    different = first[start:stop] ^ second[start + offset : stop + offset]
    share = np.unpackbits(different.view(np.uint8)).mean()
    return bool(share <= _LARGEST_SHARE)
