"""A second of noise, on which the user's own parts and vocoders are tried before a run."""

from __future__ import annotations

import numpy as np

from asdf.facts import SAMPLE_RATE

TRIAL = "'a second of noise', before training"
"""What messages call it."""

_LEVEL = 0.1


def second_of_noise() -> np.ndarray:
    """Return a second of noise (T,) float32, the same in every call."""
    noise = _LEVEL * np.random.default_rng(0).standard_normal(SAMPLE_RATE)
    return noise.astype(np.float32)
