"""The magnitudes of a voice with minimum or random phases.

Invariant: magnitudes come from the voice itself, frame by frame, neither smoothed nor modelled;
only the phases differ.

Most vocoders have minimum phase: Sanchez, Saratxaga, Hernaez, Navas, Erro & Raitio: Toward a
universal synthetic speech spoofing detection using phase information. IEEE Transactions on
Information Forensics and Security, 2015.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.vocoding.analysis import FFT, TINY, analyse
from asdf.audio.vocoding.frames import Array
from asdf.audio.vocoding.griffin_lim import estimate_phases, magnitudes
from asdf.audio.vocoding.synthesis import match_spectrum, per_sample
from asdf.audio.vocoding.vocoder import Vocoder, VocoderSettings, normalize
from asdf.facts import SAMPLE_RATE

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
