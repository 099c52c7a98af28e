"""Frames and spectra of a voice, its envelope and F0, and the way back to a waveform.

Invariant: an analysis is deterministic and the same for all vocoders. No Python loop runs over
samples; a filter that changes over time is applied by FFT in windowed frames that sum to the
signal. A copy differs from its voice only in structure: long-term spectrum and level, which would
reveal it to a level meter, are restored by `match_spectrum`.

Our vocoders: four methods of signal processing, each of which loses something else of a voice.

Invariant: of Griffin-Lim, only the magnitudes of the spectrogram reach the copy; the source-filter
vocoder has minimum phase, whatever the phases of the voice; for linear prediction a frame is either
voiced or unvoiced, so breath in a voice is lost; replacing phases leaves the magnitudes of each
frame as they are, neither smoothed nor modelled.

Most vocoders have minimum phase: Sanchez, Saratxaga, Hernaez, Navas, Erro & Raitio: Toward a
universal synthetic speech spoofing detection using phase information. IEEE Transactions on
Information Forensics and Security, 2015.

The base class of vocoders, the vocoders in the settings, and the processing of copies.

Invariant: a copy depends only on the samples and the generator's draws. It has the length and level
of its speech, and 16-bit samples like recordings, so none of these reveals it. Silence is
unchanged. A vocoder consists of plain values, so that it can be sent to the loader's processes.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator
from numpy.typing import NDArray

from asdf.audio.user_classes import TRIAL, check_sendable, second_of_noise, unpickle_from
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class, is_ours
from asdf.settings.sections import Vocoding

Array = NDArray[np.float64]

HOP = 128
"""Number of samples between frames."""


def smooth(track: Array, width: int) -> Array:
    """Average `track` (time, ...) along time by a Hann window of about `width` points.

    The first and last values are repeated beyond the ends.
    """
    # Without the ends of the window, which are 0.
    window = np.hanning(width + 2)[1:-1]
    weights = window / window.sum()
    before = width // 2
    after = width - 1 - before
    start = np.repeat(track[:1], before, 0)
    end = np.repeat(track[-1:], after, 0)
    padded = np.concatenate([start, track, end])
    columns = padded.reshape(len(padded), -1).T
    averaged = [np.convolve(column, weights, mode="valid") for column in columns]
    return np.stack(averaged, axis=1).reshape(track.shape)


def squared_sine(points: int) -> Array:
    """Return a window (points,) whose half-overlapping copies sum to 1."""
    half_steps = np.arange(points) + 0.5
    return np.sin(np.pi * half_steps / points) ** 2


def cut(signal: Array, frames: int) -> Array:
    """Cut `signal` into Hann-windowed frames of 2 HOP samples, (frames, 2 HOP).

    They overlap by half, so that their windows sum to 1.
    """
    length = 2 * HOP
    padded = np.zeros((frames + 1) * HOP)
    padded[HOP : HOP + len(signal)] = signal
    frames_without_window = slide(padded, length)[::HOP]
    return frames_without_window * squared_sine(length)


def slide(signal: Array, length: int) -> Array:
    """Return all windows of `length` of a signal (samples,), each one sample later."""
    return np.lib.stride_tricks.sliding_window_view(signal, length)


def overlap_add(frames: Array, hop: int) -> Array:
    """Sum frames (count, length), a multiple of `hop` long, that start `hop` samples apart."""
    count, length = frames.shape
    parts = length // hop
    total = np.zeros((count + parts - 1, hop))
    for part in range(parts):
        start = part * hop
        of_frames = frames[:, start : start + hop]
        total[part : part + count] += of_frames
    return total.reshape(-1)


def round_up(number: int, multiple: int) -> int:
    """Return the smallest multiple of `multiple` that is at least `number`."""
    return -(-number // multiple) * multiple


_WINDOW = 512
FFT = 1024
BINS = FFT // 2 + 1
# Lags of F0 between 73 and 355 Hz, in samples.
_FIRST_LAG = 45
_LAST_LAG = 220
_LAGS = 240
# Added to divisors that may be 0.
TINY = 1e-12


@dataclass(frozen=True)
class Analysis:
    """The analysis of a voice, frame by frame.

    Attributes:
        power: Power spectra of unit-variance scale, (frames, 513).
        f0_hz: Smoothed F0, (frames,), interpolated in unvoiced frames.
        voiced: Voicing, (frames,), 0 or 1.
    """

    power: Array
    f0_hz: Array
    voiced: Array


def analyse(voice: Array) -> Analysis:
    """Analyse a voice (samples,) at 16 kHz; F0 by autocorrelation (Boersma, 1993)."""
    frames = len(voice) // HOP + 2
    cut_voice = cut_for_vocoder(voice, frames + 1)[1:]
    spectra = rfft(cut_voice, FFT)
    energy_of_window = np.sum(_hann() ** 2)
    power = np.abs(spectra) ** 2 / energy_of_window
    correlation = irfft(power)[:, :_LAGS]
    energy = correlation[:, :1]
    # The window lowers the correlation at longer lags, which would favour a high F0.
    spectrum_of_window = rfft(_hann(), FFT)
    of_window = irfft(np.abs(spectrum_of_window) ** 2)[:_LAGS]
    normal_of_window = of_window / of_window[0]
    normal = correlation / (energy + TINY) / normal_of_window
    lag, top = _find_pitch_lags(normal)
    is_loud = correlation[:, 0] > 1e-3 * energy.max()
    voiced = (top > 0.5) & is_loud
    f0_hz = _smooth_f0(SAMPLE_RATE / lag, voiced)
    return Analysis(power, f0_hz, voiced.astype(float))


def _find_pitch_lags(normal: Array) -> tuple[Array, Array]:
    """Return the lag of the highest peak, and its height, (frames,) each.

    The lag is in fractional samples.

    Args:
        normal: Normalised autocorrelations, (frames, lags).
    """
    # A slight preference for short lags prevents octave errors of F0.
    preference = 0.0006 * np.arange(_LAST_LAG - _FIRST_LAG)
    preferred = normal[:, _FIRST_LAG:_LAST_LAG] - preference
    lag = _FIRST_LAG + np.argmax(preferred, axis=1)
    row = np.arange(len(normal))
    left = normal[row, lag - 1]
    top = normal[row, lag]
    right = normal[row, lag + 1]
    # The vertex of the parabola through the three points.
    curvature = left - 2 * top + right - 1e-9
    offset = 0.5 * (left - right) / curvature
    return lag + offset.clip(-0.5, 0.5), top


def _smooth_f0(f0_hz: Array, voiced: NDArray[np.bool_]) -> Array:
    """Return F0 in Hz, interpolated over unvoiced frames, smoothed by median and average."""
    log_f0 = np.log(f0_hz)
    frames = len(f0_hz)
    known = np.flatnonzero(voiced)
    if len(known):
        contour = np.interp(np.arange(frames), known, log_f0[known])
    else:
        contour = np.full(frames, np.log(120.0))
    padded = np.pad(contour, 3, mode="edge")
    middle = np.median(slide(padded, 7), axis=1)
    return np.exp(smooth(middle, 9))


def predict_linearly(correlation: Array) -> tuple[Array, Array]:
    """Solve for linear predictors by the Levinson-Durbin recursion.

    Args:
        correlation: Autocorrelations, (frames, order + 1).

    Returns:
        Prediction error (frames,) and predictor (frames, order + 1).
    """
    predictor = np.zeros_like(correlation)
    predictor[:, 0] = 1
    error = correlation[:, 0] + TINY
    for order in range(1, correlation.shape[1]):
        reversed_correlation = correlation[:, order:0:-1]
        products = predictor[:, :order] * reversed_correlation
        reflection = -np.sum(products, axis=1) / error
        reversed_predictor = predictor[:, order - 1 :: -1][:, :order]
        correction = reflection[:, None] * reversed_predictor
        predictor[:, 1 : order + 1] += correction
        error = error * (1 - reflection**2)
    return error, predictor


def cut_for_vocoder(signal: Array, count: int) -> Array:
    """Return Hann-windowed frames (count, 512); frame i is centred on sample (i - 1) HOP."""
    padded = np.zeros((count + 3) * HOP)
    padded[3 * HOP :][: len(signal)] = signal
    return slide(padded, _WINDOW)[::HOP] * _hann()


def invert(spectrum: NDArray[np.complex128], samples: int) -> Array:
    """Return the waveform of a spectrogram of `cut_for_vocoder`, (samples,)."""
    frames = irfft(spectrum) * _hann()
    wave = overlap_add(frames, HOP)
    # The squares of windows that overlap four times sum to 1.5.
    return wave[3 * HOP :][:samples] / 1.5


@cache
def _hann() -> Array:
    return squared_sine(_WINDOW)


@cache
def mel_filters(bands: int, bins: int) -> Array:
    """Return triangular filters evenly spaced in mel, (bands, bins)."""
    hz = np.linspace(0, SAMPLE_RATE / 2, bins)
    mel = 2595 * np.log10(1 + hz / 700)
    centres = np.linspace(0, mel[-1], bands)
    distance = np.abs(mel - centres[:, None])
    width = centres[1]
    filters: Array = np.maximum(0, 1 - distance / width)
    return filters


_WAVE_POINTS = 2048
# Number of bands in which a copy gets the spectrum of its voice, and their frequencies.
_MATCHED_BANDS = 24
_MATCHED_BINS = 1024


@dataclass(frozen=True)
class Excitation:
    """A source (samples,), and the filter for each of its frames: (frames, 513)."""

    response: NDArray[np.inexact]
    source: Array


def regular_wave(f0_hz: Array, samples: int, dispersion: float) -> Array:
    """Return a perfectly regular wave of unit variance, (samples,), of equal harmonics.

    The phase of each harmonic is `dispersion` cycles after that of the previous one. Dispersed
    pulses sound less buzzy (LPC-10), without the sharp closures of a glottis.
    """
    below_nyquist = SAMPLE_RATE / 2 // np.median(f0_hz)
    harmonics = np.arange(1.0, below_nyquist + 1)
    spectrum = np.zeros(_WAVE_POINTS // 2 + 1, dtype=complex)
    phases = -1j * np.pi * dispersion * harmonics**2
    spectrum[1 : len(harmonics) + 1] = np.exp(phases)
    cycle = irfft(spectrum)
    cycles = np.cumsum(per_sample(f0_hz, samples)) / SAMPLE_RATE
    point = cycles % 1 * _WAVE_POINTS
    # The point after the last is the first of the next cycle.
    closed = np.append(cycle, cycle[0])
    wave = np.interp(point, np.arange(_WAVE_POINTS + 1), closed)
    normalized: Array = wave / cycle.std()
    return normalized


def per_sample(track: Array, samples: int) -> Array:
    """Interpolate a track of frames: (samples,)."""
    frame_of_sample = np.arange(samples) / HOP
    return np.interp(frame_of_sample, np.arange(len(track)), track)


def draw_noise(voice: Array, rng: Generator) -> Array:
    """Draw white noise of unit variance, as long as `voice`."""
    return rng.standard_normal(len(voice))


def excite(voice: Array, *parts: Excitation) -> Array:
    """Filter sources by responses and sum them, with the spectrum and level of `voice`."""
    frames = len(voice) // HOP + 2
    total = np.zeros((frames, BINS), dtype=complex)
    for part in parts:
        spectrum = rfft(cut(part.source, frames), FFT)
        total += part.response * spectrum
    wave = overlap_add(irfft(total), HOP)
    return match_spectrum(wave[HOP : HOP + len(voice)], voice)


def match_spectrum(copy: Array, voice: Array) -> Array:
    """Give `copy` the long-term spectrum of `voice` in 24 mel bands."""
    size = round_up(len(voice), 2 * _MATCHED_BINS)
    bands = mel_filters(_MATCHED_BANDS, _MATCHED_BINS + 1)[:, :_MATCHED_BINS]
    spectrum = rfft(copy, size)
    wanted = _measure_levels(rfft(voice, size), bands)
    ratio = wanted / _measure_levels(spectrum, bands)
    share_of_bands = bands / bands.sum(0)
    gain = np.sqrt(ratio) @ share_of_bands
    frequencies_per_bin = size // (2 * _MATCHED_BINS)
    centres = np.arange(_MATCHED_BINS) * frequencies_per_bin
    gain_of_frequency = np.interp(np.arange(len(spectrum)), centres, gain)
    shaped = spectrum * gain_of_frequency
    return irfft(shaped, size)[: len(voice)]


def _measure_levels(spectrum: NDArray[np.complex128], bands: Array) -> Array:
    """Return the mean power of a spectrum in bands (count, bins): (count,)."""
    power = np.abs(spectrum) ** 2
    bins = bands.shape[1]
    frequencies_of_bins = power[:-1].reshape(bins, -1)
    levels: Array = bands @ frequencies_of_bins.mean(1) + 1e-9
    return levels


class VocoderSettings(Protocol):
    """The settings that our vocoders need; a user's own gets all sections."""

    @property
    def vocoding(self) -> Vocoding: ...


class Vocoder(ABC):
    """Base class of vocoders, which copy a recording through analysis and synthesis.

    Args:
        settings: Sections of all settings, including the user's own.

    Examples:
        >>> import numpy as np
        >>> from asdf.audio.vocoding import Vocoder
        >>> from asdf.settings import Sections
        >>> class Noisy(Vocoder):
        ...     def vocode(self, samples, rng):
        ...         magnitudes = np.abs(np.fft.rfft(samples))
        ...         phases = rng.uniform(0, 2 * np.pi, len(magnitudes))
        ...         return np.fft.irfft(magnitudes * np.exp(1j * phases), len(samples))
        >>> speech = np.random.default_rng(0).normal(0, 0.1, 400).astype(np.float32)
        >>> Noisy(Sections()).vocode(speech, np.random.default_rng(1)).shape
        (400,)
    """

    def __init__(self, settings: VocoderSettings) -> None: ...  # noqa: B027

    @abstractmethod
    def vocode(self, samples: np.ndarray, rng: Generator) -> np.ndarray:
        """Return a copy of speech (T,) float32 at 16 kHz, T >= 1, which is not silent: (T,).

        Its level does not matter, since it is set to that of the speech. All draws come from `rng`.
        """


def normalize(samples: np.ndarray) -> Array:
    """Return speech that is not silent as float64 of unit power, which the analysis relies on."""
    voice = samples.astype(np.float64)
    normalized: Array = voice / np.sqrt(np.mean(voice**2))
    return normalized


SETTING = "vocoding.vocoders"
_STEPS = 2**15


@dataclass(frozen=True)
class Vocoders:
    """Vocoders by their names in the settings, as plain values for worker processes.

    Attributes:
        folder: Folder that is searched first for modules with the user's own vocoders, also by
            worker processes.
    """

    by_name: Mapping[str, Vocoder] = field(default_factory=dict)
    folder: Path | None = None

    def __reduce__(self) -> tuple[Callable[..., Vocoders], tuple[Any, ...]]:
        return unpickle_from, (Vocoders, pickle.dumps(self.by_name), self.folder)

    def copy(
        self, name: str, speech: np.ndarray, rng: Generator, recording: object = ""
    ) -> np.ndarray:
        """Copy speech (T,) float32 at 16 kHz through the vocoder `name`: (T,) float32.

        Args:
            recording: Name of the recording, for messages.

        Raises:
            AsdfError: the vocoder fails, or returns something other than such samples.
        """
        power = _measure_power(speech)
        if power == 0:
            return speech
        where = f"{SETTING}: {name}.vocode, for the recording {recording},"
        with UserErrors(f"{where} failed"):
            copy = self.by_name[name].vocode(speech, rng)
        _check_copy(copy, len(speech), where)
        exact = copy.astype(np.float64)
        power_of_copy = _measure_power(exact)
        if power_of_copy > 0:
            exact = exact * np.sqrt(power / power_of_copy)
        # Rounded to 16 bits, like recordings.
        steps = np.rint(exact * _STEPS).clip(-_STEPS, _STEPS - 1)
        rounded: np.ndarray = steps / _STEPS
        return rounded.astype(np.float32)


def open_vocoders(settings: VocoderSettings, folder: Path | None) -> Vocoders:
    """Build the vocoders in the settings.

    Args:
        folder: Folder of the recipe, which is searched first for the user's own.

    Raises:
        UsageError: one of them does not exist, is not a `Vocoder`, or cannot be pickled.
        AsdfError: a user's own fails.
    """
    by_name: dict[str, Vocoder] = {}
    for name in settings.vocoding.vocoders:
        path = class_path_of(SETTING, name)
        kind = find_class(path, folder, SETTING, Vocoder)  # type: ignore[type-abstract]
        with UserErrors(f"{SETTING}: {name} cannot be made"):
            by_name[name] = kind(settings)
        check_sendable(by_name[name], f"{SETTING}: {name}", "vocode")
    return Vocoders(by_name, folder)


def try_vocoders(settings: VocoderSettings, folder: Path | None) -> None:
    """Copy a second of noise through each of the user's own vocoders, and check the copy.

    Raises:
        UsageError, AsdfError: as in `open_vocoders` and `Vocoders.copy`.
    """
    vocoders = open_vocoders(settings, folder)
    for name, vocoder in vocoders.by_name.items():
        if not is_ours(f"{type(vocoder).__module__}."):
            vocoders.copy(name, second_of_noise(), np.random.default_rng(0), TRIAL)


def _check_copy(copy: object, samples: int, where: str) -> None:
    """Refuse a copy that is not a valid training example, before it affects a network."""
    if not isinstance(copy, np.ndarray):
        problem = f"returned {type(copy).__name__}, not a numpy array"
    elif copy.shape != (samples,):
        problem = f"returned samples of shape {copy.shape} for speech of shape ({samples},)"
    elif copy.dtype.kind != "f":
        problem = f"returned samples of type {copy.dtype}; floats between -1 and 1 are needed"
    elif not np.isfinite(copy).all():
        problem = "returned samples that are not finite"
    else:
        return
    raise AsdfError(
        f"{where} {problem}. A copy must have as many samples as its speech: (T,) floats."
    )


def _measure_power(samples: np.ndarray) -> float:
    """Return the mean square of samples; 0 for no samples."""
    if len(samples) == 0:
        return 0.0
    return float(np.mean(np.square(samples, dtype=np.float64)))


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
