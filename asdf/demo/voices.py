"""Speech-like voices by numpy alone: the bona fide half of the demo corpus.

Invariant: an utterance is a function of its speaker, its duration and its generator alone, so that
the corpus is the same wherever and however often it is made. The voices are source-filter synthesis
(Fant, 1960) with the irregularity that human speech has and that vocoders lose: every glottal cycle
has its own length (jitter), height (shimmer) and open quotient, and breath noise comes and goes
with it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.demo.filters import (
    HOP,
    SAMPLE_RATE,
    Array,
    cut,
    filtered,
    overlap_add,
    resonators,
    smooth,
)

TICK = 32
"""Samples between the targets of articulation."""

_FFT = 640
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
    """What stays the same in all utterances of a speaker.

    Attributes:
        tract: the formants relative to those of an average male.
        melody: the standard deviation of log F0.
        closure: the time constant of the glottal closure in cycles; the larger it is, the steeper
            the spectrum falls.
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


@dataclass(frozen=True)
class _Target:
    """What the articulators aim at in one tick.

    Attributes:
        shape: (3,), the lowest formants in Hz.
        voice, breath, hiss: levels.
        centre_hz, width_hz: of the hiss.
    """

    shape: Array
    voice: float = 0.0
    breath: float = 0.0
    hiss: float = 0.0
    centre_hz: float = 4000.0
    width_hz: float = 3000.0


@dataclass(frozen=True)
class _Articulation:
    """Smooth tracks of an utterance: (ticks, 7) formants, (ticks,) levels, (ticks, 2) hiss."""

    formants_hz: Array
    voice: Array
    breath: Array
    hiss: Array
    hiss_hz: Array


def draw_speaker(rng: Generator) -> Speaker:
    """Draw a speaker, as often with a low voice as with a high one."""
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


def speak(speaker: Speaker, seconds: float, rng: Generator) -> Array:
    """Say random syllables in a small room, without recording noise.

    (samples,), `seconds` at 16 kHz.
    """
    samples = round(seconds * SAMPLE_RATE)
    ticks = samples // TICK + 2
    targets = _draw_targets(speaker, ticks, rng)
    tracks = _articulate(speaker, targets, rng)
    tick_of_sample = np.arange(samples) / TICK
    grid = np.arange(ticks)

    def per_sample(track: Array) -> Array:
        return np.interp(tick_of_sample, grid, track)

    log_f0 = per_sample(_draw_log_f0(speaker, ticks, rng))
    pulses, openness = _move_glottis(speaker, log_f0, rng)
    breath, friction = rng.standard_normal((2, samples))
    # Breath comes and goes with the opening of the glottis.
    phonation = pulses + speaker.breath * openness * breath
    voiced = per_sample(tracks.voice) * phonation
    source = voiced + per_sample(tracks.breath) * breath
    hiss = per_sample(tracks.hiss) * friction
    voice = _filter_by_tract(source, tracks.formants_hz, hiss, tracks.hiss_hz)
    return _add_room(voice, rng)


def _draw_targets(speaker: Speaker, ticks: int, rng: Generator) -> list[_Target]:
    """Draw syllables, a target per tick, between two silences."""
    targets: list[_Target] = []
    ticks_per_ms = SAMPLE_RATE / TICK / 1000 / speaker.tempo

    def hold(shortest_ms: float, longest_ms: float, target: _Target) -> None:
        duration = round(rng.uniform(shortest_ms, longest_ms) * ticks_per_ms)
        targets.extend([target] * max(1, duration))

    rest = _Target(_VOWELS[rng.integers(len(_VOWELS))])
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
            hold(35, 75, _Target(vowel, voice=voice_bar))
            hold(5, 12, _draw_burst(vowel, rng))
            hold(5, 45, _Target(vowel, breath=rng.uniform(0.01, 0.04)))
        elif kind < 0.88:
            sonorant = _draw_shape(_SONORANTS, 0.03, rng)
            hold(45, 100, _Target(sonorant, voice=rng.uniform(0.35, 0.6)))
        # Else the syllable is its vowel.
        hold(70, 200, _Target(vowel, voice=rng.uniform(0.7, 1.1)))
        has_pause = rng.random() < 0.12
        if has_pause:
            hold(60, 180, _Target(vowel))
    targets[last:] = [rest] * (ticks - last)
    return targets


def _draw_shape(shapes: Array, spread: float, rng: Generator) -> Array:
    """Draw a shape (3,) out of (n, 3), each formant of which is a little off."""
    shape = shapes[rng.integers(len(shapes))]
    return shape * rng.normal(1, spread, 3)


def _draw_fricative(speaker: Speaker, vowel: Array, rng: Generator) -> _Target:
    centre_hz, width_hz, level = _FRICATIVES[rng.integers(len(_FRICATIVES))]
    voice = 0.3 if rng.random() < 0.35 else 0.0
    return _Target(
        vowel,
        voice=voice,
        hiss=level * rng.uniform(0.6, 1.3),
        centre_hz=centre_hz * speaker.tract**0.5,
        width_hz=width_hz,
    )


def _draw_burst(vowel: Array, rng: Generator) -> _Target:
    return _Target(
        vowel,
        breath=0.05,
        hiss=rng.uniform(0.05, 0.15),
        centre_hz=rng.uniform(1200, 4500),
        width_hz=2500.0,
    )


def _articulate(speaker: Speaker, targets: list[_Target], rng: Generator) -> _Articulation:
    """Move from target to target, each articulator at its own speed."""
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
    # A hiss begins and ends most quickly; the formants, above, move most slowly.
    return _Articulation(
        np.minimum(formants_hz, _HIGHEST_FORMANT_HZ),
        voice=smooth(voice, 12),
        breath=smooth(breath, 5),
        hiss=smooth(hiss, 4),
        hiss_hz=smooth(hiss_hz, 10),
    )


def _draw_log_f0(speaker: Speaker, ticks: int, rng: Generator) -> Array:
    """Return log F0 at each tick, (ticks,): declination, phrase movements and a fine tremor."""
    seconds = np.arange(ticks) * TICK / SAMPLE_RATE
    moves = smooth(rng.standard_normal(ticks), 200)
    tremor = smooth(rng.standard_normal(ticks), 15)
    moves_spread = moves.std() + 1e-9
    melody = speaker.melody * moves / moves_spread
    contour = melody + 0.008 * tremor / tremor.std()
    middle = seconds[-1] / 2
    declination = rng.uniform(0.04, 0.12) * (seconds - middle)
    return np.log(speaker.f0_hz) + contour - declination


def _move_glottis(speaker: Speaker, log_f0: Array, rng: Generator) -> tuple[Array, Array]:
    """Return the derivative of the glottal flow, and how far the glottis is open; both (samples,).

    Each cycle is Rosenberg's (1971) pulse with the exponential return of the LF model (Fant et al.,
    1985).
    """
    phase, cycles = _draw_phase(speaker, log_f0, rng)
    cycle = np.minimum(phase.astype(np.int64), cycles - 1)
    # From 0 to 1 in each cycle.
    x = phase - cycle
    shimmer = speaker.shimmer * rng.standard_normal(cycles)
    height = np.exp(shimmer)[cycle]
    unevenness = np.exp(0.05 * rng.standard_normal(cycles))
    open_quotient = speaker.open_quotient * unevenness
    end = open_quotient[cycle].clip(0.3, 0.9)
    peak = 0.67 * end
    closing_time = end - peak
    steepest = 0.5 * np.pi / closing_time
    rise = np.sin(np.pi * x / peak)
    opening = 0.5 * np.pi / peak * rise
    since_peak = x - peak
    fall = np.sin(0.5 * np.pi * since_peak / closing_time)
    closing = -steepest * fall
    since_end = np.maximum(x - end, 0)
    return_phase = np.exp(-since_end / speaker.closure)
    returning = -steepest * return_phase
    after_peak = np.where(x < end, closing, returning)
    change = np.where(x < peak, opening, after_peak)
    # The flow of a cycle adds up to nothing.
    returned = -np.expm1((end - 1) / speaker.closure)
    change += steepest * speaker.closure * returned
    flow = np.sin(np.pi * x / end)
    openness = np.where(x < end, flow, 0.0) + 0.1
    return 0.1 * height * change, openness


def _draw_phase(speaker: Speaker, log_f0: Array, rng: Generator) -> tuple[Array, int]:
    """Return how many cycles have passed at each sample, (samples,), and how many there may be."""
    steady = np.cumsum(np.exp(log_f0)) / SAMPLE_RATE
    cycles = int(steady[-1]) + 3
    positions = np.arange(len(steady))
    jitter = speaker.jitter * rng.standard_normal(cycles)
    uneven = np.arange(cycles) + jitter
    starts = np.interp(uneven, steady, positions.astype(float))
    # No cycle begins before the last one does.
    in_order = np.maximum.accumulate(starts)
    return np.interp(positions, in_order, np.arange(cycles)), cycles


def _filter_by_tract(source: Array, formants_hz: Array, hiss: Array, hiss_hz: Array) -> Array:
    """Filter both sources frame by frame by all-pole resonators and overlap-add: (samples,)."""
    frames = len(source) // HOP + 2
    tick_of_frame = np.arange(frames) * HOP // TICK
    tick_of_frame = np.minimum(tick_of_frame, len(formants_hz) - 1)
    formants = resonators(formants_hz[tick_of_frame], _BANDWIDTHS_HZ)
    hiss_at = hiss_hz[tick_of_frame]
    centres_hz, widths_hz = np.split(hiss_at, 2, axis=1)
    constriction = resonators(centres_hz, widths_hz)
    voice_spectrum = rfft(cut(source, frames), _FFT)
    voice_spectrum = voice_spectrum / rfft(formants, _FFT)
    hiss_spectrum = rfft(cut(hiss, frames), _FFT)
    hiss_spectrum = hiss_spectrum / rfft(constriction, _FFT)
    filtered_frames = irfft(voice_spectrum + hiss_spectrum, _FFT)
    voice = overlap_add(filtered_frames, HOP)
    return voice[HOP : HOP + len(source)]


def _add_room(voice: Array, rng: Generator) -> Array:
    """Add a short reverberant tail: a decaying noise 18 to 28 dB below the direct sound."""
    time_s = np.arange(2400) / SAMPLE_RATE
    white = rng.standard_normal(len(time_s))
    # 60 dB, a factor of exp(-6.9), in this time.
    decay_s = rng.uniform(0.1, 0.3)
    decay = np.exp(-6.9 * time_s / decay_s)
    tail = white * decay
    first_echo = round(0.002 * SAMPLE_RATE)
    tail[:first_echo] = 0
    level_db = -rng.uniform(18, 28)
    norm = np.sqrt(np.sum(tail**2))
    tail *= 10 ** (level_db / 20) / norm
    tail[0] = 1
    return filtered(voice, tail)
