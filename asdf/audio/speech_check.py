"""Detection of any speech in a recording, before a verdict about its voice.

Invariant: the result depends only on the samples: not on their level, on installed packages or on
other checked recordings. In doubt there is speech, since a refused recording gets no verdict, while
other sounds taken for speech are scored as before.

Speech is detected in segments of up to 4 s by properties of its production: energy that varies 2 to
9 times a second, the rate of syllables (Houtgast and Steeneken, Journal of the Acoustical Society
of America 77, 1985); voices with gliding pitch, between unpitched sounds; spectra that change as a
mouth moves. 60 small decision trees combine 26 such features. They were trained on recordings of
speech (genuine, synthetic, over telephone, in noise, over music, in rooms) and of other sounds;
benchmarks/RESULTS.md lists these, with error rates on others.

Silero VAD gives probabilities of speech by a small recurrent network, for whoever chooses it, here
or as speech activity detector. A recording's result depends only on its samples: the network has a
state between windows, so it is reset for each recording, and each thread has its own network.

Silero Team: Silero VAD: pre-trained enterprise-grade voice activity detector, number detector and
language classifier. github.com/snakers4/silero-vad. The package `silero-vad` (MIT licence) includes
the network; nothing is downloaded.
"""

from __future__ import annotations

import json
import threading
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.runs.systems import call_in_forked_processes

MIN_S = 1.0
"""Minimum duration of checked recordings: a syllable or two has no rhythm."""

_SEGMENT = 4 * SAMPLE_RATE
_FRAME = 512
_HOP = 256
_FFT = 1024
_MIN_ACTIVE = 8
_MIN_VOICED = 3
# Frequencies for the spectral flatness, from 94 to 3,800 Hz.
_FLAT = slice(6, 243)
# Modulation rates in Hz: all, of syllables, and faster than a mouth moves.
_MODULATION_FFT = 512
_ALL_RATES = (0.5, 28.0)
_SYLLABLES = (2.0, 9.0)
_RATTLE = (12.0, 28.0)
# Band edges in Hz, within the bandwidth of a telephone line.
_EDGES = (100, 250, 400, 630, 920, 1270, 1720, 2320, 3150, 3800)
# Frequencies from 70 to 1,600 Hz, for the pitch, and its lags from 64 to 400 Hz, in samples.
_PITCHED = slice(5, 103)
_FIRST_LAG = 40
_LAST_LAG = 250
# OpenBLAS multiplies matrices of up to 2**18 products with one thread.
_FRAMES_AT_ONCE = 12
_VOICED = 0.6
# Root mean square level, relative to full scale.
_LEVEL = 0.1
_TINY = 1e-12
# About a syllable or two, at the default threshold of the package.
_SILERO_THRESHOLD = 0.5
_SILERO_S = 0.25


WINDOW = 512
"""Number of samples of a window at 16 kHz, the only length that the network takes."""

_PACKAGE = "silero-vad"
_OLDEST = 5

_of_thread = threading.local()
_loading = threading.Lock()


def _replace_lock() -> None:
    """Create a new lock in a forked process: the thread that may hold the old one is gone."""
    global _loading
    _loading = threading.Lock()


call_in_forked_processes(_replace_lock)


def silero_version(option: str = "sad.detector") -> str:
    """Return the version of the package, and so of its network.

    Args:
        option: Name of the setting or argument with the value 'silero', for the message.

    Raises:
        UsageError: the package is not installed, or is too old.
    """
    # Imported here, for those who have the setting: it loads the packages of e-mail.
    from importlib.metadata import PackageNotFoundError, version

    try:
        installed = version(_PACKAGE)
    except PackageNotFoundError:
        installed = ""
    if not installed or int(installed.split(".")[0]) < _OLDEST:
        problem = f"version {installed} is installed" if installed else "it is not installed"
        other = "energy" if option == "sad.detector" else "built-in"
        raise UsageError(
            f"{option} = 'silero' needs the package {_PACKAGE}, version {_OLDEST} or newer, and "
            f"{problem}: pip install '{_PACKAGE}>={_OLDEST}', or use {option} = '{other}'."
        )
    return installed


def speech_probabilities(waveform: np.ndarray) -> np.ndarray:
    """Return the probability of speech in each window of `waveform` (T,), T >= 1.

    The result is (ceil(T / WINDOW),) float32. The last window is padded with zeros.

    Raises:
        UsageError: as in `silero_version`.
    """
    import torch

    if not hasattr(_of_thread, "network"):
        silero_version()
        with _loading, warnings.catch_warnings():
            # Ignore warnings of newer versions of Python and torch about the package.
            warnings.simplefilter("ignore")
            threads = torch.get_num_threads()
            try:
                _of_thread.network = import_module("silero_vad").load_silero_vad()
            finally:
                # The package sets a single thread for the whole program.
                torch.set_num_threads(threads)
    network: Any = _of_thread.network
    padded = np.pad(np.asarray(waveform, np.float32), (0, -len(waveform) % WINDOW))
    with torch.inference_mode():
        batch = torch.from_numpy(padded)[None]
        probabilities: torch.Tensor = network.audio_forward(batch, SAMPLE_RATE)[0]
        return probabilities.numpy()


def speech_finder(name: str) -> Callable[[np.ndarray], bool] | None:
    """Return the function that detects speech, 'built-in' or 'silero'; None for 'off'.

    Raises:
        UsageError: the name is unknown, or the package is not installed.
    """
    if name == "off":
        return None
    if name == "built-in":
        return has_speech
    if name != "silero":
        raise UsageError(f"speech_check = {name!r}: give 'built-in', 'silero' or 'off'.")
    silero_version("speech_check")
    return _silero_finds_speech


def _silero_finds_speech(waveform: np.ndarray) -> bool:
    speech = speech_probabilities(waveform) >= _SILERO_THRESHOLD
    return bool(speech.sum() * WINDOW >= _SILERO_S * SAMPLE_RATE)


def has_speech(waveform: np.ndarray) -> bool:
    """Return whether any 4 s of a recording (T,) at 16 kHz contain speech; in doubt True."""
    if len(waveform) < MIN_S * SAMPLE_RATE:
        return True
    last = max(0, len(waveform) - _SEGMENT)
    starts = [*range(0, last, _SEGMENT // 2), last]
    threshold = _trees().threshold
    # Most speech is detected in the first segment.
    return any(evidence(waveform[start : start + _SEGMENT]) >= threshold for start in starts)


def evidence(segment: np.ndarray) -> float:
    """Return the trees' sum for a segment (T,) of at least a second, higher for speech."""
    return _trees().weigh(np.nan_to_num(describe(segment)))


class _Trees(NamedTuple):
    """Decision trees, (trees, nodes), in which a leaf leads to itself."""

    threshold: float
    base: float
    feature: Integers
    limit: Floats
    left: Integers
    right: Integers
    value: Floats
    depth: int

    def weigh(self, features: Floats) -> float:
        """Return the sum of the leaves reached by the features (26,)."""
        rows = np.arange(len(self.feature))
        node = np.zeros(len(rows), np.int64)
        for _ in range(self.depth):
            is_low = features[self.feature[rows, node]] <= self.limit[rows, node]
            node = np.where(is_low, self.left[rows, node], self.right[rows, node])
        return self.base + float(self.value[rows, node].sum())


@cache
def _trees() -> _Trees:
    # Rows of nodes, with threshold, base and depth.
    content = json.loads((files("asdf.audio") / "speech_check.json").read_text())
    integers = {name: np.array(content[name], np.int64) for name in ("feature", "left", "right")}
    floats = {name: np.array(content[name], np.float64) for name in ("limit", "value")}
    return _Trees(**{**content, **integers, **floats})


class _Frames(NamedTuple):
    """Spectra of frames of 32 ms, 16 ms apart.

    Attributes:
        power_NF: Power at each frequency.
        bands_NB: Power in each band.
        level_N: Level over all bands in dB relative to the loudest frames, at least -50.
        active_N: Mask of frames within 30 dB of the loudest, or the 8 loudest.
    """

    power_NF: np.ndarray
    bands_NB: np.ndarray
    level_N: Floats
    active_N: np.ndarray


class _Tables(NamedTuple):
    """What is the same for all segments.

    Attributes:
        edges: First frequency of each band, and the one after the last.
        lags_FL: Autocorrelations, at the lag 0 and those of pitches, of a cosine of each frequency
            for the pitch, divided by that of the window.
    """

    window: np.ndarray
    edges: np.ndarray
    lags_FL: np.ndarray


@cache
def _tables() -> _Tables:
    window = np.asarray(np.hanning(_FRAME + 1)[:-1], np.float32)
    edges = np.searchsorted(np.fft.rfftfreq(_FFT, 1 / SAMPLE_RATE), _EDGES)
    lags = np.array([0, *range(_FIRST_LAG, _LAST_LAG)])
    correlation = np.fft.irfft(np.abs(np.fft.rfft(window, _FFT)) ** 2)
    # Constant where it is no longer meaningful.
    correlation = np.maximum(correlation[lags], 1e-3 * correlation[0])
    angles = 2 * np.pi / _FFT * np.outer(np.arange(_FFT // 2)[_PITCHED], lags)
    lags_FL = (2 / _FFT * np.cos(angles) / correlation).astype(np.float32)
    return _Tables(window, edges, lags_FL)


def _analyse(segment: np.ndarray) -> _Frames:
    # Normalise the level, so that constants for finite logarithms have no effect.
    level = float(np.std(segment)) + _TINY
    samples = segment * (_LEVEL / level)
    frames = np.lib.stride_tricks.sliding_window_view(samples, _FRAME)[::_HOP]
    windowed = (frames - frames.mean(axis=1, keepdims=True)) * _tables().window
    edges = _tables().edges
    spectra = np.fft.rfft(windowed, _FFT, axis=1)[:, : edges[-1]]
    power: np.ndarray = np.abs(spectra).astype(np.float32) ** 2
    bands = np.add.reduceat(power, edges[:-1], axis=1)
    total = bands.sum(axis=1)
    # Not the maximum, which may be a click.
    loudest = np.quantile(total, 0.98) + _TINY
    level_N = _decibels(total / loudest, 1e-5)
    active = level_N > -30
    if active.sum() < _MIN_ACTIVE:
        loud = np.sort(level_N)
        active = level_N >= loud[-_MIN_ACTIVE]
    return _Frames(power, bands, level_N, active)


def _decibels(ratio: np.ndarray, floor: float) -> np.ndarray:
    return np.asarray(10 * np.log10(np.maximum(ratio, floor)))


def describe(segment: np.ndarray) -> Floats:
    """Return the 26 features of a segment (T,) of at least a second."""
    frames = _analyse(segment)
    peaks, pitch = _find_pitch(frames.power_NF)
    seconds = len(segment) / SAMPLE_RATE
    numbers = _measure_rhythm(frames)
    numbers += _measure_voice(frames.active_N, peaks, pitch, seconds)
    numbers += _measure_movement(frames)
    # Pitch peaks correlate with the level, since vowels are voiced and louder.
    voicing = peaks[frames.active_N]
    level = frames.level_N[frames.active_N]
    is_constant = not voicing.std() or not level.std()
    correlation = 0.0
    if len(level) > 5 and not is_constant:
        correlation = float(np.corrcoef(voicing, level)[0, 1])
    numbers.append(correlation)
    return np.array(numbers, np.float64)


def _measure_rhythm(frames: _Frames) -> list[float]:
    """Return how strongly and fast the level varies, over all bands and in each."""
    loudest = np.quantile(frames.bands_NB, 0.98, axis=0)
    bands_dB = _decibels(frames.bands_NB / (loudest + _TINY), 1e-4)
    depth = bands_dB.std(axis=0)
    power_RB = _modulations(np.column_stack([frames.level_N, bands_dB]))
    syllables_B = _share(power_RB, _SYLLABLES)
    rattle_B = _share(power_RB, _RATTLE)
    return [
        frames.level_N.std(),
        frames.active_N.mean(),
        syllables_B[0],
        rattle_B[0],
        syllables_B[1:].mean(),
        rattle_B[1:].mean(),
        depth.mean(),
        depth.min(),
    ]


def _modulations(level_NB: np.ndarray) -> np.ndarray:
    """Return the power of modulation at each rate, for each column."""
    centred = level_NB - level_NB.mean(axis=0)
    tapered = centred * np.hanning(len(centred))[:, None]
    power: np.ndarray = np.abs(np.fft.rfft(tapered, _MODULATION_FFT, axis=0)) ** 2
    return power


def _share(power_RB: Floats, band: tuple[float, float]) -> Floats:
    """Return the proportion of modulation at rates from `band[0]` up to `band[1]` Hz."""
    rates = np.fft.rfftfreq(_MODULATION_FFT, _HOP / SAMPLE_RATE)
    of_band, of_all = (
        power_RB[(rates >= low) & (rates < high)].sum(axis=0) for low, high in (band, _ALL_RATES)
    )
    share: Floats = of_band / (of_all + 1e-9)
    return share


def _find_pitch(power_NF: Floats) -> tuple[Floats, Floats]:
    """Return the height of each frame's pitch peak, 0 without one, and the pitch in semitones.

    It uses the autocorrelation divided by that of the window (Boersma, Proceedings of the Institute
    of Phonetic Sciences 17, Amsterdam, 1993).
    """
    heard = power_NF[:, _PITCHED]
    starts = range(0, len(heard), _FRAMES_AT_ONCE)
    products = [heard[start : start + _FRAMES_AT_ONCE] @ _tables().lags_FL for start in starts]
    correlation = np.concatenate(products)
    relative = correlation[:, 1:] / np.maximum(correlation[:, :1], _TINY)
    best = relative.argmax(axis=1)
    highest = np.take_along_axis(relative, best[:, None], axis=1)
    peaks = np.clip(highest[:, 0], 0, 1.2)
    # A maximum at an end of the range is not a peak.
    last = relative.shape[1] - 1
    is_peak = (best > 0) & (best < last)
    lags = best + _FIRST_LAG
    pitch = 12 * np.log2(SAMPLE_RATE / lags)
    return np.where(is_peak, peaks, 0), pitch


def _measure_voice(active: np.ndarray, peaks: Floats, pitch: Floats, seconds: float) -> list[float]:
    """Return the proportion of voicing and the movement of pitch: voices glide, begin and end."""
    voiced = active & (peaks > _VOICED)
    both = voiced[1:] & voiced[:-1]
    steps = np.abs(np.diff(pitch))
    is_near = steps < 2
    near = steps[both & is_near]
    glide = near.mean() if len(near) > _MIN_VOICED else 0.0
    voices = pitch[voiced]
    spread = voices.std() if len(voices) > _MIN_VOICED else 0.0
    jumps = (both & ~is_near).sum()
    edges = np.diff(np.pad(voiced.astype(int), 1))
    lengths = np.flatnonzero(edges == -1) - np.flatnonzero(edges == 1)
    long_runs = lengths >= 4
    frames = active.sum()
    return [
        voiced.sum() / frames,
        glide,
        (near > 0.15).sum() / frames,
        jumps / max(1, both.sum()),
        spread,
        long_runs.sum() / seconds,
        peaks[active].std(),
        peaks[active].mean(),
    ]


def _measure_movement(frames: _Frames) -> list[float]:
    """Return the movement of the spectral shape, as cepstra of the bands, and its flatness."""
    active = frames.active_N
    # The first five cepstral coefficients of the levels of bands.
    bands_NB = frames.bands_NB
    audible = np.maximum(bands_NB, bands_NB.sum(axis=1, keepdims=True) * 1e-5)
    level = 10 * np.log10(audible + _TINY)
    count = level.shape[1]
    angles = np.outer(np.arange(1, 6), np.arange(count) + 0.5) * (np.pi / count)
    cosines = np.cos(angles) * np.sqrt(2 / count)
    cepstra = (level - level.mean(axis=1, keepdims=True)) @ cosines.T
    numbers = cepstra[active].std(axis=0).tolist()
    # From one frame to the next, and over a tenth of a second.
    for lag in (1, 6):
        moves = cepstra[lag:] - cepstra[:-lag]
        counted = active[lag:] & active[:-lag]
        distances = np.linalg.norm(moves, axis=1)[counted]
        numbers.append(distances.mean() if len(distances) else 0.0)
    heard = frames.power_NF[:, _FLAT]
    geometric = np.exp(np.log(heard + 1e-10).mean(axis=1))
    flatness = (geometric / (heard.mean(axis=1) + 1e-10))[active]
    logs = np.log(flatness + 1e-4)
    return [*numbers, logs.mean(), logs.std()]
