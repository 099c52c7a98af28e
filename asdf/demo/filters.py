"""Filters of the demo corpus's voices, and the recorder that both classes pass.

Invariant: no filter runs sample by sample in Python; callers apply resonators to spectra, and
responses are applied by FFT.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import Array, round_up
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
