"""The recorder for both classes of the demo corpus, so that it does not separate them."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from asdf.audio.vocoding.frames import Array
from asdf.demo.filters import filtered


def record(sound: Array, rng: Generator) -> np.ndarray:
    """Record a sound: random polarity, a rising response, a noise floor, a level, 16 bits."""
    polarity = rng.choice((-1.0, 1.0))
    previous = np.append(0.0, sound[:-1])
    sound = polarity * (sound - 0.97 * previous)
    sound = sound / (sound.std() + 1e-12)
    white = rng.standard_normal(len(sound))
    first = rng.uniform(-0.3, 0.8)
    second = rng.uniform(-0.2, 0.4)
    floor = filtered(white, np.array([1.0, first, second]))
    is_noisy = rng.random() < 0.1
    snr_db = rng.uniform(15, 25) if is_noisy else rng.uniform(32, 50)
    floor = floor / floor.std() * 10 ** (-snr_db / 20)
    sound = sound + floor
    level_db = -rng.uniform(26, 40)
    sound = sound * 10 ** (level_db / 20)
    whole: Array = np.rint(sound.clip(-1, 1) * 32767)
    return whole.astype(np.int16)
