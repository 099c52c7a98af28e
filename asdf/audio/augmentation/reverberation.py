"""Speech as it sounds in a room: convolved with the room's impulse response.

Invariant: the direct sound, the response's highest peak, arrives at the time of the speech, and the
energy of the example is unchanged, so neither position nor level reveals that a room was added.

Responses: Tom Ko, Vijayaditya Peddinti, Daniel Povey, Michael L. Seltzer, Sanjeev Khudanpur: A
study on data augmentation of reverberant speech for robust speech recognition. ICASSP 2017.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
from numpy.fft import irfft, rfft
from numpy.random import Generator

from asdf.audio.augmentation.filtering import find_fast_size
from asdf.audio.augmentation.material import find_material
from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_item
from asdf.audio.reading import audio_length
from asdf.audio.sample_rates import resample
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE


class Reverberation(Part):
    """Convolution with impulse responses of rooms.

    Raises:
        UsageError: as in `find_material`.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.reverberation_probability
        self.responses = find_material("reverberation", section.reverberation_folders, base)
        self.rate = settings.audio.sample_rate

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Put `clip` (T,) float32 into a drawn room: (T,) float32.

        Raises:
            AsdfError: the response cannot be read, or is silent.
        """
        return reverberate(clip, self.draw(rng))

    def draw(self, rng: Generator) -> np.ndarray:
        """Draw an impulse response: (N,) float32.

        Raises:
            AsdfError: the response cannot be read, or is silent.
        """
        return read_response(draw_item(self.responses, rng), self.rate)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"reverberation ({len(self.responses)} impulse responses)"


def read_response(path: str, to: int = SAMPLE_RATE) -> np.ndarray:
    """Read an impulse response at `to` Hz: (T,) float32.

    The first of several channels is used, since the mean over the microphones of an array would be
    a comb filter rather than a room.

    Raises:
        AsdfError: the response cannot be read, or is silent.
    """
    try:
        samples, rate = _read_first_channel(path)
    except AsdfError as error:
        raise AsdfError(
            f"an impulse response of augmentation.reverberation_folders cannot be used: {error}"
        ) from None
    return resample(samples, rate, to)


def _read_first_channel(path: str) -> tuple[np.ndarray, int]:
    """Return the samples (T,) float32 of the first channel, and their rate in Hz."""
    # For its messages on files that are missing or truncated.
    audio_length(path)
    try:
        channels, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError as error:
        raise AsdfError(
            f"{path} cannot be decoded ({error}): copy it again, or remove it."
        ) from None
    first = np.ascontiguousarray(channels[:, 0])
    if not np.isfinite(first).all() or not first.any():
        raise AsdfError(f"{path} is silent, or holds samples that are not finite: remove it.")
    return first, rate


def reverberate(waveform: np.ndarray, response: np.ndarray) -> np.ndarray:
    """Put `waveform` (T,) into the room of `response` (N,), which is not all 0: (T,) float32."""
    energy = np.square(waveform, dtype=np.float64).sum()
    if energy == 0:
        return waveform
    length = len(waveform)
    direct = int(np.abs(response).argmax())
    points = find_fast_size(length + len(response) - 1)
    spectrum = rfft(waveform, points) * rfft(response, points)
    convolved = irfft(spectrum, points)
    wet = convolved[direct : direct + length]
    wet = wet.astype(np.float64)
    level = np.sqrt(energy / (wet @ wet))
    scaled: np.ndarray = level * wet
    return scaled.astype(np.float32)
