"""Sounds for degradations: noises, rooms, music, and changes of time and pitch.

Invariant: each function depends on its arguments and the generator's draws, and returns float32
samples at 16 kHz; nothing is clipped here.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.arrays import Floats
from asdf.audio.augmentation.filtering import filter_clip, find_fast_size, low_pass
from asdf.facts import SAMPLE_RATE

# Coloured noise is flat below this frequency: without a limit, brown noise is an offset.
_LOWEST_HZ = 20.0
# A room decays by 60 dB in its reverberation time.
_SIXTY_DB = math.log(1000)
_FIRST_REFLECTION_S = 0.0025
_FRAME = 512
_HOP = 128
_ORDER = 5
_CHORD_S = 0.6
_CHORDS = ((0, 4, 7), (9, 12, 16), (5, 9, 12), (7, 11, 14))
_MIDDLE_C_HZ = 261.63
_HARMONICS = 6


def coloured_noise(samples: int, slope: float, rng: Generator) -> Floats:
    """Return (samples,) of Gaussian noise with power proportional to 1 / frequency^slope.

    Args:
        slope: Exponent: 0 for white, 1 for pink, 2 for brown noise.
    """
    spectrum = rfft(rng.standard_normal(samples))
    hertz = np.arange(len(spectrum)) * SAMPLE_RATE / samples
    # Half of the slope, which is that of the power: a spectrum holds amplitudes.
    spectrum *= np.maximum(hertz, _LOWEST_HZ) ** (-slope / 2)
    noise = irfft(spectrum, samples)
    level = math.sqrt(float(np.mean(noise**2))) or 1.0
    return (noise / level).astype(np.float32)


def room_response(rt60_s: float, rng: Generator) -> Floats:
    """Return the impulse response of a simulated room: direct sound and decaying noise.

    The reverberation has the energy of the direct sound, and decays by 60 dB in `rt60_s`.
    """
    times = np.arange(round(rt60_s * SAMPLE_RATE)) / SAMPLE_RATE
    tail = rng.standard_normal(len(times)) * np.exp(-_SIXTY_DB * times / rt60_s)
    tail[times < _FIRST_REFLECTION_S] = 0
    tail /= np.sqrt(tail @ tail)
    tail[0] = 1  # the direct sound
    return tail.astype(np.float32)


def music(samples: int, rng: Generator) -> Floats:
    """Return (samples,) of a sequence of plucked chords, as a substitute for recorded music."""
    length = round(_CHORD_S * SAMPLE_RATE)
    times = np.arange(length) / SAMPLE_RATE
    first = int(rng.integers(len(_CHORDS)))
    key = int(rng.integers(-5, 7))  # all twelve keys
    parts = []
    for number in range(-(-samples // length)):
        chord = np.zeros(length)
        for semitone in _CHORDS[(first + number) % len(_CHORDS)]:
            pitch = _MIDDLE_C_HZ * 2 ** ((semitone + key) / 12)
            for harmonic in range(1, _HARMONICS + 1):
                phase = rng.uniform(0, 2 * np.pi)
                wave = np.sin(2 * np.pi * harmonic * pitch * times + phase)
                # A plucked string: higher harmonics are weaker and die away sooner.
                chord += wave * np.exp(-3 * harmonic * times) / harmonic
        parts.append(chord)
    return np.concatenate(parts)[:samples].astype(np.float32)


def high_pass(waveform: np.ndarray, limit_hz: float) -> np.ndarray:
    """Remove from `waveform` (T,) the frequencies below `limit_hz`: (T,) float32."""
    coefficients = -low_pass(limit_hz)
    # All frequencies less the low ones: the middle tap alone passes everything, in time.
    coefficients[len(coefficients) // 2] += 1
    return filter_clip(waveform, [coefficients])


def butterworth(waveform: Floats, share: float, *, is_high: bool) -> Floats:
    """Filter `waveform` (T,) by a digital Butterworth filter of order 5: (T,) float32.

    The filter is designed by the bilinear transform, like `scipy.signal.butter`.

    Args:
        share: Cut-off frequency as a proportion of half of the sampling rate.
    """
    # A second of zeros, so that ringing does not wrap around to the start.
    points = find_fast_size(len(waveform) + SAMPLE_RATE)
    angles = np.pi * np.arange(points // 2 + 1) / points
    ratio = 1j * np.tan(angles) / math.tan(np.pi * share / 2)
    response = np.ones(len(ratio), np.complex128)
    for number in range(_ORDER):
        pole = np.exp(1j * np.pi * (2 * number + _ORDER + 1) / (2 * _ORDER))
        # 1 / ratio, as textbooks write a high-pass, would divide by zero at 0 Hz.
        response *= ratio / (1 - pole * ratio) if is_high else 1 / (ratio - pole)
    filtered = irfft(rfft(waveform.astype(np.float64), points) * response, points)
    return filtered[: len(waveform)].astype(np.float32)


def stretch(waveform: Floats, speed: float) -> Floats:
    """Play `waveform` (T,) at another tempo with the same pitch: (round(T / speed),) float32.

    This is a phase vocoder: Flanagan and Golden, "Phase vocoder", Bell System Technical Journal
    1966.
    """
    import torch
    from torchaudio.functional import phase_vocoder

    window = torch.hann_window(_FRAME)
    samples = torch.from_numpy(np.ascontiguousarray(waveform, np.float32))
    # Short recordings must fill a frame.
    samples = torch.nn.functional.pad(samples, (0, max(0, _FRAME - len(samples))))
    spectrum = torch.stft(samples, _FRAME, _HOP, window=window, return_complex=True)
    # (bins, 1), in radians per hop
    advance = torch.linspace(0, math.pi * _HOP, _FRAME // 2 + 1)[:, None]
    slower = phase_vocoder(spectrum, speed, advance)
    length = max(1, round(len(waveform) / speed))
    played = torch.istft(slower, _FRAME, _HOP, window=window, length=length)
    result: Floats = played.numpy()
    return result


def shift_pitch(waveform: Floats, semitones: float) -> Floats:
    """Raise or lower the pitch of `waveform` (T,) at the same tempo: (T,) float32."""
    longer = stretch(waveform, 2 ** (-semitones / 12)).astype(np.float64)
    # Resample the whole, band-limited, to its original length.
    length = len(waveform)
    spectrum = rfft(longer)[: length // 2 + 1]
    # irfft divides by its own length, and the spectrum is that of the longer waveform.
    return (irfft(spectrum, length) * (length / len(longer))).astype(np.float32)


def clip_share(waveform: Floats, per_cent: float) -> Floats:
    """Clip the loudest `per_cent` of the samples of `waveform` (T,): (T,) float32."""
    limit = np.quantile(np.abs(waveform), 1 - per_cent / 100)
    return np.clip(waveform, -limit, limit).astype(np.float32)


def quantise(waveform: Floats, levels: float) -> Floats:
    """Round `waveform` (T,) to `levels` levels between its lowest and highest sample."""
    low = float(waveform.min())
    span = float(waveform.max()) - low
    if not span:
        return waveform
    steps = np.round((waveform - low) / span * (levels - 1))
    return (steps / (levels - 1) * span + low).astype(np.float32)


def smooth(waveform: Floats, window: float) -> Floats:
    """Return the moving average of `waveform` (T,) over a window of samples."""
    width = round(window)
    # As long as before, and centred, so that speech is not shifted.
    padded = np.pad(waveform.astype(np.float64), (width // 2, width - width // 2 - 1))
    return np.convolve(padded, np.full(width, 1 / width), "valid").astype(np.float32)


def echo(waveform: Floats, volume: float, delay_s: float = 0.1) -> Floats:
    """Add one echo to `waveform` (T,), and keep its peak: (T,) float32."""
    delay = round(delay_s * SAMPLE_RATE) - 1
    echoed = waveform.astype(np.float64)
    # max: a negative end would count from the end of a recording shorter than the delay.
    echoed[delay:] += volume * waveform[: max(0, len(waveform) - delay)]
    peak = float(np.abs(echoed).max())
    level = float(np.abs(waveform).max()) / peak if peak else 1.0
    return (level * echoed).astype(np.float32)
