"""Speech-like voices with numpy: the bona fide half of the demo corpus.

Invariant: an utterance depends only on its speaker, its duration and its generator, so that the
corpus is reproducible everywhere. The voices are source-filter synthesis (Fant, 1960) with the
irregularity of human speech that vocoders lose: every glottal cycle has its own length (jitter),
height (shimmer) and open quotient, and breath noise varies with it. Speakers say random syllables,
towards whose targets the articulators move.

No filter runs sample by sample in Python: resonators are applied to spectra, and responses by FFT.
Both classes pass the same recorder.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import HOP, Array, cut, overlap_add, round_up, smooth
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
            centre_hz, width_hz, level = _FRICATIVES[rng.integers(len(_FRICATIVES))]
            voice = 0.3 if rng.random() < 0.35 else 0.0
            hiss = level * rng.uniform(0.6, 1.3)
            centre_hz *= speaker.tract**0.5
            hold(60, 130, Target(vowel, voice, 0.0, hiss, centre_hz, width_hz))
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
        if rng.random() < 0.12:
            hold(60, 180, Target(vowel))
    targets[last:] = [rest] * (ticks - last)
    return targets


def _draw_shape(shapes: Array, spread: float, rng: Generator) -> Array:
    """Draw a shape (3,) out of (n, 3), with a small deviation of each formant."""
    shape: Array = shapes[rng.integers(len(shapes))]
    return shape * rng.normal(1, spread, 3)


def articulate(speaker: Speaker, targets: list[Target], rng: Generator) -> Articulation:
    """Move between targets, each articulator at its own speed."""
    ticks = len(targets)
    low = np.stack([target.shape for target in targets])
    high = np.broadcast_to(_HIGH_FORMANTS_HZ, (ticks, 4))
    formants_hz = smooth(np.concatenate([low, high], axis=1), 35)
    wander = smooth(rng.standard_normal((ticks, 7)), 40) * 0.08
    formants_hz = formants_hz * (1 + wander) * speaker.tract
    voice, breath, hiss = np.array([(each.voice, each.breath, each.hiss) for each in targets]).T
    hiss_hz = np.array([(target.centre_hz, target.width_hz) for target in targets])
    # A hiss starts and ends fastest; the formants, above, move slowest.
    return Articulation(
        np.minimum(formants_hz, _HIGHEST_FORMANT_HZ),
        voice=smooth(voice, 12),
        breath=smooth(breath, 5),
        hiss=smooth(hiss, 4),
        hiss_hz=smooth(hiss_hz, 10),
    )


_FFT_MULTIPLE = 2048


def resonators(centres_hz: Array, widths_hz: Array) -> Array:
    """Return denominators (frames, 2 n + 1) of n resonators in series, with gain 1 at 0 Hz each."""
    widths_hz = np.broadcast_to(widths_hz, centres_hz.shape)
    # Radius of the pole pair of each resonator.
    radius = np.exp(-np.pi * widths_hz / SAMPLE_RATE)
    angle = 2 * np.pi * centres_hz / SAMPLE_RATE
    first = -2 * radius * np.cos(angle)
    second = radius**2
    product = np.ones((len(centres_hz), 1))
    for b1, b2 in zip(first.T, second.T, strict=True):
        # The product of two polynomials, in each frame.
        longer = np.pad(product, ((0, 0), (0, 2)))
        longer[:, 1:-1] += b1[:, None] * product
        longer[:, 2:] += b2[:, None] * product
        at_0_hz = 1 + b1 + b2
        product = longer / at_0_hz[:, None]
    return product


def filtered(signal: Array, response: Array) -> Array:
    """Convolve `signal` with the impulse `response`; the result has the length of `signal`."""
    size = round_up(len(signal) + len(response), _FFT_MULTIPLE)
    return irfft(rfft(signal, size) * rfft(response, size), size)[: len(signal)]


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


_FFT = 640
# Bandwidths of the seven formants.
_BANDWIDTHS_HZ = np.array([70, 90, 130, 200, 250, 350, 450], dtype=float)


def speak(speaker: Speaker, seconds: float, rng: Generator) -> Array:
    """Synthesise random syllables in a small room, without recording noise.

    The result is (samples,), `seconds` at 16 kHz.
    """
    samples = round(seconds * SAMPLE_RATE)
    ticks = samples // TICK + 2
    targets = draw_targets(speaker, ticks, rng)
    tracks = articulate(speaker, targets, rng)
    tick_of_sample = np.arange(samples) / TICK
    grid = np.arange(ticks)

    def per_sample(track: Array) -> Array:
        return np.interp(tick_of_sample, grid, track)

    # Log F0 has declination, phrase movements and a fine tremor.
    seconds_at = grid * TICK / SAMPLE_RATE
    moves = smooth(rng.standard_normal(ticks), 200)
    tremor = smooth(rng.standard_normal(ticks), 15)
    moves_spread = moves.std() + 1e-9
    melody = speaker.melody * moves / moves_spread
    contour = melody + 0.008 * tremor / tremor.std()
    declination = rng.uniform(0.04, 0.12) * (seconds_at - seconds_at[-1] / 2)
    log_f0 = np.log(speaker.f0_hz) + contour - declination
    pulses, openness = _move_glottis(speaker, per_sample(log_f0), rng)
    breath, friction = rng.standard_normal((2, samples))
    # Breath varies with the opening of the glottis.
    phonation = pulses + speaker.breath * openness * breath
    voiced = per_sample(tracks.voice) * phonation
    source = voiced + per_sample(tracks.breath) * breath
    hiss = per_sample(tracks.hiss) * friction
    voice = _filter_by_tract(source, tracks.formants_hz, hiss, tracks.hiss_hz)
    # The room is a short tail: a decaying noise 18 to 28 dB below the direct sound.
    time_s = np.arange(2400) / SAMPLE_RATE
    white = rng.standard_normal(len(time_s))
    # Decay by 60 dB, a factor of exp(-6.9), in this time.
    decay_s = rng.uniform(0.1, 0.3)
    tail = white * np.exp(-6.9 * time_s / decay_s)
    tail[: round(0.002 * SAMPLE_RATE)] = 0
    level_db = -rng.uniform(18, 28)
    tail *= 10 ** (level_db / 20) / np.sqrt(np.sum(tail**2))
    tail[0] = 1  # the direct sound
    return filtered(voice, tail)


def _move_glottis(speaker: Speaker, log_f0: Array, rng: Generator) -> tuple[Array, Array]:
    """Return the derivative of the glottal flow, and the opening of the glottis; both (samples,).

    Each cycle is Rosenberg's (1971) pulse with the exponential return phase of the LF model (Fant
    et al., 1985).
    """
    steady = np.cumsum(np.exp(log_f0)) / SAMPLE_RATE
    cycles = int(steady[-1]) + 3
    positions = np.arange(len(steady))
    jitter = speaker.jitter * rng.standard_normal(cycles)
    uneven = np.arange(cycles) + jitter
    # No cycle starts before the previous one.
    starts = np.maximum.accumulate(np.interp(uneven, steady, positions.astype(float)))
    # The number of cycles passed at each sample.
    phase = np.interp(positions, starts, np.arange(cycles))
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
    # The flow of a cycle sums to zero.
    returned = -np.expm1((end - 1) / speaker.closure)
    change += steepest * speaker.closure * returned
    flow = np.sin(np.pi * x / end)
    openness = np.where(x < end, flow, 0.0) + 0.1
    return 0.1 * height * change, openness


def _filter_by_tract(source: Array, formants_hz: Array, hiss: Array, hiss_hz: Array) -> Array:
    """Filter both sources frame by frame by all-pole resonators and overlap-add: (samples,)."""
    frames = len(source) // HOP + 2
    tick_of_frame = np.minimum(np.arange(frames) * HOP // TICK, len(formants_hz) - 1)
    formants = resonators(formants_hz[tick_of_frame], _BANDWIDTHS_HZ)
    constriction = resonators(*np.split(hiss_hz[tick_of_frame], 2, axis=1))
    # Division by the spectrum of the denominator is the all-pole filter.
    voice_spectrum = rfft(cut(source, frames), _FFT) / rfft(formants, _FFT)
    hiss_spectrum = rfft(cut(hiss, frames), _FFT) / rfft(constriction, _FFT)
    voice = overlap_add(irfft(voice_spectrum + hiss_spectrum, _FFT), HOP)
    return voice[HOP : HOP + len(source)]
