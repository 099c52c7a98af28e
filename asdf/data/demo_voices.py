"""Speech-like voices out of nothing but numpy: the bona fide half of the demo corpus.

Invariant: an utterance is a function of its speaker, its seconds and its generator alone, so that the corpus is
the same wherever and however often it is made. The voices are source-filter synthesis (Fant, 1960) with the
irregularity that human speech has and that vocoders lose: every glottal cycle has its own length (jitter), height
(shimmer) and open quotient, and breath noise comes and goes with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.data.demo_filters import (
    HOP,
    SAMPLE_RATE,
    Array,
    cut,
    filtered,
    overlap_add,
    resonators,
    smooth,
)

TICK = 32  # samples between the targets of articulation
_FFT = 640

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
_BANDWIDTHS_HZ = np.array([70, 90, 130, 200, 250, 350, 450], dtype=float)
# Centre and bandwidth of the noise in Hz, and its level: s, sh, f, h-like.
_FRICATIVES = (
    (5600.0, 1600.0, 0.04),
    (3300.0, 1300.0, 0.04),
    (4500.0, 5000.0, 0.02),
    (1800.0, 3000.0, 0.02),
)


@dataclass(frozen=True)
class Speaker:
    """What stays the same in all that one speaker says."""

    tract: float  # formants are this many times those of an average male
    f0_hz: float
    melody: float  # standard deviation of log F0
    open_quotient: float
    closure: float  # time constant of the glottal closure in cycles: the larger, the steeper the spectrum falls
    breath: float
    jitter: float
    shimmer: float
    tempo: float


def draw_speaker(rng: np.random.Generator) -> Speaker:
    """Draw a speaker, about as often with a low voice as with a high one."""
    high = rng.random() < 0.5
    return Speaker(
        tract=float((1.15 if high else 1.0) * rng.uniform(0.93, 1.07)),
        f0_hz=float((200 if high else 115) * np.exp(rng.normal(0, 0.12))),
        melody=float(rng.uniform(0.06, 0.14)),
        open_quotient=float(rng.uniform(0.5, 0.75)),
        closure=float(np.exp(rng.uniform(np.log(0.002), np.log(0.01)))),
        breath=float(rng.uniform(0.01, 0.07)),
        jitter=float(rng.uniform(0.008, 0.025)),
        shimmer=float(rng.uniform(0.06, 0.18)),
        tempo=float(rng.uniform(0.85, 1.2)),
    )


def speak(speaker: Speaker, seconds: float, rng: np.random.Generator) -> Array:
    """Say random syllables in a small room: `seconds` at 16 kHz, (samples,), free of recording noise."""
    samples = round(seconds * SAMPLE_RATE)
    ticks = samples // TICK + 2
    formants_hz, voicing, breath, hiss, hiss_hz = _articulate(speaker, ticks, rng)
    time = np.arange(samples) / TICK
    grid = np.arange(ticks)

    def per_sample(track: Array) -> Array:
        return np.interp(time, grid, track)

    pulses, openness = _glottis(speaker, per_sample(_log_f0(speaker, ticks, rng)), rng)
    noise = rng.standard_normal((2, samples))
    source = (
        per_sample(voicing) * (pulses + speaker.breath * openness * noise[0])
        + per_sample(breath) * noise[0]
    )
    friction = per_sample(hiss) * noise[1]
    return _room(_tract(source, formants_hz, friction, hiss_hz), rng)


def _articulate(
    speaker: Speaker, ticks: int, rng: np.random.Generator
) -> tuple[Array, Array, Array, Array, Array]:
    """Targets at each tick: formants (ticks, 7) in Hz, levels of voice, breath and hiss, and the hiss's (ticks, 2)."""
    rows: list[tuple[Array, float, float, float, float, float]] = []
    ms = SAMPLE_RATE / TICK / 1000 / speaker.tempo

    def hold(low_ms: float, high_ms: float, shape: Array, *levels: float) -> None:
        voice, breath, hiss, centre, width = (
            *levels,
            *(0.0, 0.0, 0.0, 4000.0, 3000.0)[len(levels) :],
        )
        rows.extend(
            [(shape, voice, breath, hiss, centre, width)]
            * max(1, round(rng.uniform(low_ms, high_ms) * ms))
        )

    shape = _VOWELS[rng.integers(len(_VOWELS))]
    hold(25, 120, shape)
    last = ticks - round(rng.uniform(15, 50) * ms)
    while len(rows) < last:
        vowel = _VOWELS[rng.integers(len(_VOWELS))] * rng.normal(1, 0.04, 3)
        kind = rng.random()
        if kind < 0.30:
            centre, width, level = _FRICATIVES[rng.integers(len(_FRICATIVES))]
            voiced = 0.3 if rng.random() < 0.35 else 0.0
            hold(
                60,
                130,
                vowel,
                voiced,
                0.0,
                level * rng.uniform(0.6, 1.3),
                centre * speaker.tract**0.5,
                width,
            )
        elif kind < 0.58:
            hold(35, 75, vowel, 0.08 if rng.random() < 0.4 else 0.0)
            hold(5, 12, vowel, 0.0, 0.05, rng.uniform(0.05, 0.15), rng.uniform(1200, 4500), 2500.0)
            hold(5, 45, vowel, 0.0, rng.uniform(0.01, 0.04))
        elif kind < 0.88:
            hold(
                45,
                100,
                _SONORANTS[rng.integers(len(_SONORANTS))] * rng.normal(1, 0.03, 3),
                rng.uniform(0.35, 0.6),
            )
        hold(70, 200, vowel, rng.uniform(0.7, 1.1))
        if rng.random() < 0.12:
            hold(60, 180, vowel)
    rows[last:] = [(shape, 0.0, 0.0, 0.0, 4000.0, 3000.0)] * (ticks - last)

    levels = np.array([row[1:4] for row in rows])
    low = np.stack([row[0] for row in rows])
    formants = np.concatenate([low, np.broadcast_to(_HIGH_FORMANTS_HZ, (ticks, 4))], axis=1)
    wander = smooth(rng.standard_normal((ticks, 7)), 40) * 0.08
    formants = np.minimum(smooth(formants, 35) * (1 + wander) * speaker.tract, 7700.0)
    levels = np.stack([smooth(levels[:, 0], 12), smooth(levels[:, 1], 5), smooth(levels[:, 2], 4)])
    return (
        formants,
        levels[0],
        levels[1],
        levels[2],
        smooth(np.array([row[4:] for row in rows]), 10),
    )


def _log_f0(speaker: Speaker, ticks: int, rng: np.random.Generator) -> Array:
    """Declination, phrase movements and a fine tremor: log F0 at each tick, (ticks,)."""
    seconds = np.arange(ticks) * TICK / SAMPLE_RATE
    moves = smooth(rng.standard_normal(ticks), 200)
    tremor = smooth(rng.standard_normal(ticks), 15)
    contour = speaker.melody * moves / (moves.std() + 1e-9) + 0.008 * tremor / tremor.std()
    return np.log(speaker.f0_hz) + contour - rng.uniform(0.04, 0.12) * (seconds - seconds[-1] / 2)


def _glottis(speaker: Speaker, log_f0: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """Derivative of the glottal flow, and how far the glottis is open; both (samples,).

    Each cycle is Rosenberg's (1971) pulse with the exponential return of the LF model (Fant et al., 1985).
    """
    steady = np.cumsum(np.exp(log_f0)) / SAMPLE_RATE
    cycles = int(steady[-1]) + 3
    starts = np.interp(
        np.arange(cycles) + speaker.jitter * rng.standard_normal(cycles),
        steady,
        np.arange(len(steady), dtype=float),
    )
    phase = np.interp(np.arange(len(steady)), np.maximum.accumulate(starts), np.arange(cycles))
    cycle = np.minimum(phase.astype(np.int64), cycles - 1)
    x = phase - cycle
    height = np.exp(speaker.shimmer * rng.standard_normal(cycles))[cycle]
    end = (speaker.open_quotient * np.exp(0.05 * rng.standard_normal(cycles)))[cycle].clip(0.3, 0.9)
    peak = 0.67 * end
    steepest = 0.5 * np.pi / (end - peak)
    opening = 0.5 * np.pi / peak * np.sin(np.pi * x / peak)
    closing = -steepest * np.sin(0.5 * np.pi * (x - peak) / (end - peak))
    returning = -steepest * np.exp(-np.maximum(x - end, 0) / speaker.closure)
    change = np.where(x < peak, opening, np.where(x < end, closing, returning))
    change += (
        steepest * speaker.closure * -np.expm1((end - 1) / speaker.closure)
    )  # a cycle leaves no air behind
    openness = np.where(x < end, np.sin(np.pi * x / end), 0.0) + 0.1
    return 0.1 * height * change, openness


def _tract(source: Array, formants_hz: Array, friction: Array, hiss_hz: Array) -> Array:
    """Filter both sources frame by frame through all-pole resonators and overlap-add: (samples,)."""
    frames = len(source) // HOP + 2
    at = np.minimum(np.arange(frames) * HOP // TICK, len(formants_hz) - 1)
    voice = np.fft.rfft(cut(source, frames), _FFT) / np.fft.rfft(
        resonators(formants_hz[at], _BANDWIDTHS_HZ), _FFT
    )
    hiss = np.fft.rfft(cut(friction, frames), _FFT) / np.fft.rfft(
        resonators(hiss_hz[at, :1], hiss_hz[at, 1:]), _FFT
    )
    return overlap_add(np.fft.irfft(voice + hiss, _FFT), HOP)[HOP : HOP + len(source)]


def _room(voice: Array, rng: np.random.Generator) -> Array:
    """A short reverberant tail: the direct sound and a decaying noise 18 to 28 dB below it."""
    time_s = np.arange(2400) / SAMPLE_RATE
    tail = rng.standard_normal(len(time_s)) * np.exp(-6.9 * time_s / rng.uniform(0.1, 0.3))
    tail[: round(0.002 * SAMPLE_RATE)] = 0
    tail *= 10 ** (-rng.uniform(18, 28) / 20) / np.sqrt(np.sum(tail**2))
    tail[0] = 1
    return filtered(voice, tail)
