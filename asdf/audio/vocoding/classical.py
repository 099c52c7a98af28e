"""Our vocoders: four methods of signal processing, each of which loses something else of a voice.

Invariant: of Griffin-Lim, only the magnitudes of the spectrogram reach the copy; the source-filter
vocoder has minimum phase, whatever the phases of the voice; for linear prediction a frame is either
voiced or unvoiced, so breath in a voice is lost; replacing phases leaves the magnitudes of each
frame as they are, neither smoothed nor modelled.

Most vocoders have minimum phase: Sanchez, Saratxaga, Hernaez, Navas, Erro & Raitio: Toward a
universal synthetic speech spoofing detection using phase information. IEEE Transactions on
Information Forensics and Security, 2015.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding import Vocoder, VocoderSettings, normalize
from asdf.audio.vocoding.analysis import (
    BINS,
    FFT,
    HOP,
    TINY,
    Array,
    Excitation,
    analyse,
    cut_for_vocoder,
    draw_noise,
    excite,
    invert,
    match_spectrum,
    mel_filters,
    per_sample,
    predict_linearly,
    regular_wave,
)
from asdf.facts import SAMPLE_RATE

_MAGNITUDES = 257


class GriffinLim(Vocoder):
    """A spectrogram in 80 mel bands, and 16 rounds of estimation of its phases."""

    bands = 80
    rounds = 16

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return griffin_lim(normalize(samples), rng, self.bands, self.rounds)


def griffin_lim(voice: Array, rng: Generator, bands: int, rounds: int) -> Array:
    """Invert a mel spectrogram by rounds of phase estimation.

    Griffin & Lim, 1984.
    """
    in_bands = magnitudes(voice) @ mel_filters(bands, _MAGNITUDES).T
    magnitude = np.maximum(in_bands @ _from_bands(bands), 0)
    wave = estimate_phases(magnitude, len(voice), rng, rounds)
    return match_spectrum(wave, voice)


def magnitudes(voice: Array) -> Array:
    """Return the magnitudes of a spectrogram that `estimate_phases` inverts, (frames, 257)."""
    frames = len(voice) // HOP + 5
    return np.abs(rfft(cut_for_vocoder(voice, frames)))


def estimate_phases(magnitude: Array, samples: int, rng: Generator, rounds: int) -> Array:
    """Return a waveform (samples,) with approximately these magnitudes, from random phases."""
    frames = len(magnitude)
    phase = 2j * np.pi * rng.random(magnitude.shape)
    spectrum = magnitude * np.exp(phase)
    wave = invert(spectrum, samples)
    for _ in range(rounds - 1):
        # The phases of the waveform, combined with the known magnitudes.
        spectrum = rfft(cut_for_vocoder(wave, frames))
        spectrum *= magnitude / (np.abs(spectrum) + TINY)
        wave = invert(spectrum, samples)
    return wave


@cache
def _from_bands(bands: int) -> Array:
    """Return the pseudo-inverse of the mel filters, (bands, 257)."""
    inverse = np.linalg.pinv(mel_filters(bands, _MAGNITUDES))
    return np.asarray(inverse.T, np.float64)


class SourceFilter(Vocoder):
    """An envelope of 41 cepstral coefficients, with pulses and noise, as in WORLD."""

    coefficients = 41

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        return excite_envelope(normalize(samples), rng, self.coefficients)


def excite_envelope(voice: Array, rng: Generator, coefficients: int) -> Array:
    """Copy a voice with a minimum-phase cepstral envelope, excited by pulses and noise.

    The method follows Morise et al., WORLD, 2016; pulses fade into noise at higher frequencies.
    """
    analysis = analyse(voice)
    floor = 1e-9 * analysis.power.mean()
    log_magnitude = 0.5 * np.log(analysis.power + floor)
    cepstrum = irfft(log_magnitude)[:, :coefficients]
    angle = np.pi * np.arange(coefficients) / coefficients
    cepstrum *= 0.5 + 0.5 * np.cos(angle)
    # Minimum phase is a cepstrum without negative times.
    cepstrum[:, 1:] *= 2
    response = np.exp(rfft(cepstrum, FFT))
    # The voiced proportion at each frequency.
    fading = np.linspace(0.97, 0.3, BINS)
    strength = analysis.voiced[:, None] * fading
    dispersion = rng.uniform(0.01, 0.08)
    pulses = regular_wave(analysis.f0_hz, len(voice), dispersion)
    noise = draw_noise(voice, rng)
    voiced = Excitation(response * np.sqrt(strength), pulses)
    hiss = Excitation(response * np.sqrt(1 - strength), noise)
    return excite(voice, voiced, hiss)


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


# Half of the longest window around a pulse, longer than the longest period of `analyse`.
_REACH = 256
# Minimum relative to a frame's highest magnitude; deeper zeros would ring beyond the frame.
_FLOOR = 1e-3


class PhaseReplacement(Vocoder):
    """Replaces the phases by those of the kind `vocoding.phase`."""

    def __init__(self, settings: VocoderSettings) -> None:
        super().__init__(settings)
        self.kind: Literal["minimum", "random", "either"] = settings.vocoding.phase

    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of `samples` (T,): (T,)."""
        voice = normalize(samples)
        is_random = self.kind == "random"
        if self.kind == "either":
            is_random = rng.random() < 0.5
        replace = random_phases if is_random else minimum_phases
        return match_spectrum(replace(voice, rng), voice)


def random_phases(voice: Array, rng: Generator) -> Array:
    """Replace the phases of a spectrogram by random ones: (samples,)."""
    return estimate_phases(magnitudes(voice), len(voice), rng, rounds=1)


def minimum_phases(voice: Array, rng: Generator) -> Array:
    """Replace the phases of each period by those of a minimum phase: (samples,).

    In unvoiced parts, periods of the interpolated F0 are excited by noise instead of a pulse.
    """
    analysis = analyse(voice)
    padded = np.pad(voice, _REACH)
    # Pulses continue beyond the ends, so that windows sum to 1 there too.
    position = np.arange(-_REACH, len(voice) + _REACH).clip(0, len(voice) - 1)
    f0_hz = per_sample(analysis.f0_hz, len(voice))[position]
    voiced = per_sample(analysis.voiced, len(voice))[position]
    cycles = np.floor(np.cumsum(f0_hz) / SAMPLE_RATE)
    pulses = np.flatnonzero(np.diff(cycles))
    distance = np.abs(np.arange(-_REACH, _REACH)) / (SAMPLE_RATE / f0_hz[pulses])[:, None]
    windows = 0.5 + 0.5 * np.cos(np.pi * np.minimum(distance, 1))
    # The samples around `centres`, (centres, 2 reach); 0 beyond the ends.
    longer = np.pad(padded, _REACH)
    positions = pulses[:, None] + np.arange(2 * _REACH)
    around: Array = longer[positions]
    frames = around * windows
    # Spectra (frames, 513) of these magnitudes whose responses start at sample 0.
    magnitude = np.abs(rfft(frames, FFT))
    floor = _FLOOR * magnitude.max(axis=1, keepdims=True) + TINY
    cepstrum = irfft(np.log(magnitude + floor))
    # Minimum phase is a cepstrum without negative times.
    cepstrum[:, 1 : FFT // 2] *= 2
    cepstrum[:, FFT // 2 + 1 :] = 0
    spectra: np.ndarray = np.exp(rfft(cepstrum))
    # Noise in windows (pulses, 2 reach), which overall is as loud as pulses.
    noise = rng.standard_normal(windows.shape) * windows
    # The squares of windows that overlap by half sum to 3/4.
    energy = 0.75 * np.sum(windows**2, axis=1, keepdims=True)
    sources: Array = noise / np.sqrt(energy)
    is_voiced = voiced[pulses] > 0.5
    sources[is_voiced] = 0
    # A pulse in the middle, at the window's maximum.
    sources[is_voiced, _REACH] = 1
    responses = irfft(spectra * rfft(sources, FFT))
    # A source starts its reach before the pulse, for which there is padding. The responses (count,
    # points) are added from their starts on: (samples,).
    total = np.zeros(len(padded) + _REACH + responses.shape[1])
    for start, response in zip(pulses, responses, strict=True):
        total[start : start + len(response)] += response
    return total[2 * _REACH :][: len(voice)]
