"""Linear prediction: an all-pole envelope, excited by pulses or noise.

Invariant: a frame is either voiced or unvoiced, so breath in a voice is lost.
"""

from __future__ import annotations

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import FFT, analyse, predict_linearly
from asdf.audio.vocoding.frames import Array
from asdf.audio.vocoding.synthesis import Excitation, draw_noise, excite, per_sample, regular_wave
from asdf.audio.vocoding.vocoder import Vocoder, normalize


class LinearPrediction(Vocoder):
    """Linear prediction of order 20, its residual replaced."""

    order = 20

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return predict_and_excite(normalize(samples), rng, self.order)


def predict_and_excite(voice: Array, rng: Generator, order: int) -> Array:
    """Copy a voice by linear prediction with regular pulses or noise (Atal & Hanauer, 1971)."""
    analysis = analyse(voice)
    correlation = irfft(analysis.power)[:, : order + 1]
    # A little white noise keeps the predictor stable.
    correlation[:, 0] *= 1.0001
    error, predictor = predict_linearly(correlation)
    gain = np.sqrt(error)[:, None]
    response = gain / rfft(predictor, FFT)
    dispersion = rng.uniform(0.1, 0.4)
    pulses = regular_wave(analysis.f0_hz, len(voice), dispersion)
    is_voiced = per_sample(analysis.voiced, len(voice)) > 0.5
    source = np.where(is_voiced, pulses, draw_noise(voice, rng))
    return excite(voice, Excitation(response, source))
