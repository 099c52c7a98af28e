"""Every random draw of a run is a function of the seed and of what is drawn, never of what was drawn before.

That is what makes a resumed run bit-identical and a crop the same on whichever process or worker it is made.
"""

from __future__ import annotations

import zlib

import numpy as np


def generator(seed: int, *what: int | str) -> np.random.Generator:
    """A generator for one purpose, e.g. `generator(seed, "clip", epoch, utterance)`; equal arguments, equal draws."""
    return np.random.Generator(np.random.Philox(_sequence(seed, what)))


def derived_seed(seed: int, *what: int | str) -> int:
    """A 63-bit seed for libraries that take one number."""
    state = _sequence(seed, what).generate_state(2, np.uint32)
    return (int(state[0]) << 31) ^ int(state[1])


def _sequence(seed: int, what: tuple[int | str, ...]) -> np.random.SeedSequence:
    numbers = [seed, *map(_number, what)]
    # Of numbers of 32 bits an array gives the same sequence as a list, twice as fast.
    return np.random.SeedSequence(numbers if max(numbers) >> 32 else np.array(numbers, np.uint32))


def _number(key: int | str) -> int:
    return zlib.crc32(key.encode()) if isinstance(key, str) else int(key)
