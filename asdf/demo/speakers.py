"""The speakers of the demo corpus: constant properties in all their utterances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator


@dataclass(frozen=True)
class Speaker:
    """Constant properties of a speaker.

    Attributes:
        tract: Formants relative to those of an average male.
        melody: Standard deviation of log F0.
        closure: Time constant of the glottal closure in cycles; larger values give a steeper
            spectrum.
    """

    tract: float
    f0_hz: float
    melody: float
    open_quotient: float
    closure: float
    breath: float
    jitter: float
    shimmer: float
    tempo: float


def draw_speaker(rng: Generator) -> Speaker:
    """Draw a speaker, with equal probability of a low or a high voice."""
    high = rng.random() < 0.5
    tract = 1.15 if high else 1.0
    f0_hz = 200 if high else 115
    return Speaker(
        tract=float(tract * rng.uniform(0.93, 1.07)),
        f0_hz=float(f0_hz * np.exp(rng.normal(0, 0.12))),
        melody=float(rng.uniform(0.06, 0.14)),
        open_quotient=float(rng.uniform(0.5, 0.75)),
        closure=float(np.exp(rng.uniform(np.log(0.002), np.log(0.01)))),
        breath=float(rng.uniform(0.01, 0.07)),
        jitter=float(rng.uniform(0.008, 0.025)),
        shimmer=float(rng.uniform(0.06, 0.18)),
        tempo=float(rng.uniform(0.85, 1.2)),
    )
