"""Random draws that depend only on the seed and their purpose, never on earlier draws.

A resumed run is therefore bit-identical, and a crop is the same on every process and worker.
"""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, *purpose: int | str) -> np.random.Generator:
    """Return a generator for one purpose, e.g. `generator(seed, "clip", epoch, utterance)`.

    Equal arguments give equal draws.
    """
    return np.random.Generator(np.random.Philox(_sequence(seed, purpose)))


def derived_seed(seed: int, *purpose: int | str) -> int:
    """Return a 63-bit seed for libraries that take one number."""
    state = _sequence(seed, purpose).generate_state(2, np.uint32)
    return (int(state[0]) << 31) ^ int(state[1])


def _sequence(seed: int, purpose: tuple[int | str, ...]) -> np.random.SeedSequence:
    # Not hash(), which differs between processes.
    keys = [zlib.crc32(key.encode()) if isinstance(key, str) else int(key) for key in purpose]
    numbers = [seed, *keys]
    if max(numbers) >> 32:
        return np.random.SeedSequence(numbers)
    # For 32-bit numbers, an array gives the same sequence as a list, twice as fast.
    return np.random.SeedSequence(np.array(numbers, np.uint32))
