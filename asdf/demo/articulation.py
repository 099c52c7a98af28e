"""Speakers, random syllables, and the movements of the articulators for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from asdf.audio.vocoding.analysis import Array, smooth
from asdf.facts import SAMPLE_RATE

TICK = 32
"""Number of samples between targets of articulation."""

_HIGHEST_FORMANT_HZ = 7700.0

# F1, F2, F3 of an adult male in Hz (Peterson & Barney, 1952), then nasals and liquids.
_VOWELS = np.array(
    [
        [270, 2290, 3010],
        [390, 1990, 2550],
        [530, 1840, 2480],
        [660, 1720, 2410],
        [730, 1090, 2440],
        [570, 840, 2410],
        [440, 1020, 2240],
        [300, 870, 2240],
        [490, 1350, 1690],
    ],
    dtype=float,
)
_SONORANTS = np.array(
    [[250, 1050, 2200], [280, 1600, 2500], [360, 1300, 2700], [320, 1100, 1600]], dtype=float
)
_HIGH_FORMANTS_HZ = (3500.0, 4500.0, 5450.0, 6400.0)
# Centre and bandwidth of the noise in Hz, and its level: s, sh, f, h-like.
_FRICATIVES = (
    (5600.0, 1600.0, 0.04),
    (3300.0, 1300.0, 0.04),
    (4500.0, 5000.0, 0.02),
    (1800.0, 3000.0, 0.02),
)


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


@dataclass(frozen=True)
class Target:
    """The target of the articulators in one tick.

    Attributes:
        shape: Lowest formants in Hz, (3,).
        voice, breath, hiss: Levels.
        centre_hz, width_hz: Centre and width of the hiss.
    """

    shape: Array
    voice: float = 0.0
    breath: float = 0.0
    hiss: float = 0.0
    centre_hz: float = 4000.0
    width_hz: float = 3000.0


@dataclass(frozen=True)
class Articulation:
    """Smooth tracks of an utterance: (ticks, 7) formants, (ticks,) levels, (ticks, 2) hiss."""

    formants_hz: Array
    voice: Array
    breath: Array
    hiss: Array
    hiss_hz: Array


def draw_targets(speaker: Speaker, ticks: int, rng: Generator) -> list[Target]:
    """Draw syllables, a target per tick, between two silences."""
    targets: list[Target] = []
    ticks_per_ms = SAMPLE_RATE / TICK / 1000 / speaker.tempo

    def hold(shortest_ms: float, longest_ms: float, target: Target) -> None:
        duration = round(rng.uniform(shortest_ms, longest_ms) * ticks_per_ms)
        targets.extend([target] * max(1, duration))

    rest = Target(_VOWELS[rng.integers(len(_VOWELS))])
    hold(25, 120, rest)
    final_rest_ms = rng.uniform(15, 50)
    last = ticks - round(final_rest_ms * ticks_per_ms)
    while len(targets) < last:
        vowel = _draw_shape(_VOWELS, 0.04, rng)
        kind = rng.random()
        if kind < 0.30:
            hold(60, 130, _draw_fricative(speaker, vowel, rng))
        elif kind < 0.58:
            # A plosive: closure, burst, aspiration.
            voice_bar = 0.08 if rng.random() < 0.4 else 0.0
            hold(35, 75, Target(vowel, voice=voice_bar))
            burst_hiss = rng.uniform(0.05, 0.15)
            burst_hz = rng.uniform(1200, 4500)
            hold(5, 12, Target(vowel, 0.0, 0.05, burst_hiss, burst_hz, width_hz=2500.0))
            hold(5, 45, Target(vowel, breath=rng.uniform(0.01, 0.04)))
        elif kind < 0.88:
            sonorant = _draw_shape(_SONORANTS, 0.03, rng)
            hold(45, 100, Target(sonorant, voice=rng.uniform(0.35, 0.6)))
        # Otherwise the syllable is only its vowel.
        hold(70, 200, Target(vowel, voice=rng.uniform(0.7, 1.1)))
        has_pause = rng.random() < 0.12
        if has_pause:
            hold(60, 180, Target(vowel))
    targets[last:] = [rest] * (ticks - last)
    return targets


def _draw_shape(shapes: Array, spread: float, rng: Generator) -> Array:
    """Draw a shape (3,) out of (n, 3), with a small deviation of each formant."""
    shape: Array = shapes[rng.integers(len(shapes))]
    return shape * rng.normal(1, spread, 3)


def _draw_fricative(speaker: Speaker, vowel: Array, rng: Generator) -> Target:
    centre_hz, width_hz, level = _FRICATIVES[rng.integers(len(_FRICATIVES))]
    voice = 0.3 if rng.random() < 0.35 else 0.0
    return Target(
        vowel,
        voice=voice,
        hiss=level * rng.uniform(0.6, 1.3),
        centre_hz=centre_hz * speaker.tract**0.5,
        width_hz=width_hz,
    )


def articulate(speaker: Speaker, targets: list[Target], rng: Generator) -> Articulation:
    """Move between targets, each articulator at its own speed."""
    ticks = len(targets)
    low = np.stack([target.shape for target in targets])
    high = np.broadcast_to(_HIGH_FORMANTS_HZ, (ticks, 4))
    formants_hz = smooth(np.concatenate([low, high], axis=1), 35)
    wander = smooth(rng.standard_normal((ticks, 7)), 40) * 0.08
    formants_hz = formants_hz * (1 + wander) * speaker.tract
    voice = np.array([target.voice for target in targets])
    breath = np.array([target.breath for target in targets])
    hiss = np.array([target.hiss for target in targets])
    hiss_hz = np.array([(target.centre_hz, target.width_hz) for target in targets])
    # A hiss starts and ends fastest; the formants, above, move slowest.
    return Articulation(
        np.minimum(formants_hz, _HIGHEST_FORMANT_HZ),
        voice=smooth(voice, 12),
        breath=smooth(breath, 5),
        hiss=smooth(hiss, 4),
        hiss_hz=smooth(hiss_hz, 10),
    )
