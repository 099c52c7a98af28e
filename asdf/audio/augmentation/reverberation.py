"""Speech as it sounds in a room: convolved with the room's impulse response.

Invariant: the direct sound, the response's greatest peak, arrives when the speech did, and the energy of the example
stays what it was; so neither the place of the speech nor its level tells that a room was added.

Responses: Tom Ko, Vijayaditya Peddinti, Daniel Povey, Michael L. Seltzer, Sanjeev Khudanpur: A study on data
augmentation of reverberant speech for robust speech recognition. ICASSP 2017.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import soundfile

from asdf.audio.reading import audio_length
from asdf.audio.resampling import resample
from asdf.errors import AsdfError


def draw_response(responses: Sequence[str], rng: np.random.Generator) -> np.ndarray:
    """One of the impulse responses at 16 kHz: (T,) float32.

    Raises:
        AsdfError: it cannot be read, or is silent.
    """
    return read_response(responses[int(rng.integers(len(responses)))])


def read_response(path: str) -> np.ndarray:
    """The first channel: the mean over the microphones of an array would be a comb filter, not a room.

    Raises:
        AsdfError: as `draw_response`.
    """
    try:
        audio_length(path)
        try:
            channels, rate = soundfile.read(path, dtype="float32", always_2d=True)
        except soundfile.LibsndfileError as error:
            raise AsdfError(
                f"{path} cannot be decoded ({error}): copy it again, or remove it."
            ) from None
        if not np.isfinite(channels[:, 0]).all() or not channels[:, 0].any():
            raise AsdfError(f"{path} is silent, or holds samples that are not finite: remove it.")
    except AsdfError as error:
        raise AsdfError(
            f"an impulse response of augmentation.reverberation_folders cannot be used: {error}"
        ) from None
    return resample(np.ascontiguousarray(channels[:, 0]), rate)


def reverberate(waveform: np.ndarray, response: np.ndarray) -> np.ndarray:
    """`waveform` (T,) in the room of `response` (N,), which is not all 0: (T,) float32."""
    energy = np.square(waveform, dtype=np.float64).sum()
    if energy == 0:
        return waveform
    length, direct = len(waveform), int(np.abs(response).argmax())
    points = _fast_size(length + len(response) - 1)
    spectrum = np.fft.rfft(waveform, points) * np.fft.rfft(response, points)
    wet = np.fft.irfft(spectrum, points)[direct : direct + length].astype(np.float64)
    return (np.sqrt(energy / (wet @ wet)) * wet).astype(np.float32)


def _fast_size(least: int) -> int:
    """The smallest 2^a, 3 * 2^a or 5 * 2^a that is not below `least`."""
    return min(factor << max(0, (-(-least // factor) - 1).bit_length()) for factor in (1, 3, 5))
