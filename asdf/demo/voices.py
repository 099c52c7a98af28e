"""Speech-like voices with numpy: the bona fide half of the demo corpus.

Invariant: an utterance depends only on its speaker, its duration and its generator, so that the
corpus is reproducible everywhere. The voices are source-filter synthesis (Fant, 1960) with the
irregularity of human speech that vocoders lose: every glottal cycle has its own length (jitter),
height (shimmer) and open quotient, and breath noise varies with it.

Filters of the demo corpus's voices, and the recorder that both classes pass.

Invariant: no filter runs sample by sample in Python; callers apply resonators to spectra, and
responses are applied by FFT.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import HOP, Array, cut, overlap_add, round_up, smooth
from asdf.demo.articulation import TICK, Speaker, articulate, draw_targets
from asdf.facts import SAMPLE_RATE

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
    spectrum = rfft(signal, size)
    spectrum = spectrum * rfft(response, size)
    convolved = irfft(spectrum, size)
    return convolved[: len(signal)]


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

    log_f0 = per_sample(_draw_log_f0(speaker, ticks, rng))
    pulses, openness = _move_glottis(speaker, log_f0, rng)
    breath, friction = rng.standard_normal((2, samples))
    # Breath varies with the opening of the glottis.
    phonation = pulses + speaker.breath * openness * breath
    voiced = per_sample(tracks.voice) * phonation
    source = voiced + per_sample(tracks.breath) * breath
    hiss = per_sample(tracks.hiss) * friction
    voice = _filter_by_tract(source, tracks.formants_hz, hiss, tracks.hiss_hz)
    return _add_room(voice, rng)


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
    log_f0: Array = np.log(speaker.f0_hz) + contour - declination
    return log_f0


def _move_glottis(speaker: Speaker, log_f0: Array, rng: Generator) -> tuple[Array, Array]:
    """Return the derivative of the glottal flow, and the opening of the glottis; both (samples,).

    Each cycle is Rosenberg's (1971) pulse with the exponential return phase of the LF model (Fant
    et al., 1985).
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
    # The flow of a cycle sums to zero.
    returned = -np.expm1((end - 1) / speaker.closure)
    change += steepest * speaker.closure * returned
    flow = np.sin(np.pi * x / end)
    openness = np.where(x < end, flow, 0.0) + 0.1
    return 0.1 * height * change, openness


def _draw_phase(speaker: Speaker, log_f0: Array, rng: Generator) -> tuple[Array, int]:
    """Return the number of cycles passed at each sample, (samples,), and its maximum."""
    steady = np.cumsum(np.exp(log_f0)) / SAMPLE_RATE
    cycles = int(steady[-1]) + 3
    positions = np.arange(len(steady))
    jitter = speaker.jitter * rng.standard_normal(cycles)
    uneven = np.arange(cycles) + jitter
    starts = np.interp(uneven, steady, positions.astype(float))
    # No cycle starts before the previous one.
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
    # Division by the spectrum of the denominator is the all-pole filter.
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
    # Decay by 60 dB, a factor of exp(-6.9), in this time.
    decay_s = rng.uniform(0.1, 0.3)
    decay = np.exp(-6.9 * time_s / decay_s)
    tail = white * decay
    first_echo = round(0.002 * SAMPLE_RATE)
    tail[:first_echo] = 0
    level_db = -rng.uniform(18, 28)
    norm = np.sqrt(np.sum(tail**2))
    tail *= 10 ** (level_db / 20) / norm
    tail[0] = 1  # the direct sound
    return filtered(voice, tail)
