"""A recording of noise added at a drawn signal-to-noise ratio.

Invariant: the ratio is that of the energies over the whole example. If either is digital silence,
there is no ratio, and the example stays unchanged.

Recordings: David Snyder, Guoguo Chen, Daniel Povey: MUSAN: a music, speech, and noise corpus.
arXiv:1510.08484.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.material import find_material
from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.draws import draw_between, draw_item
from asdf.audio.reading import audio_length, read_audio
from asdf.audio.speech import crop_start, repeat_to
from asdf.errors import AsdfError
from asdf.settings.sections import Audio


class Noise(Part):
    """Recordings of noise, and the signal-to-noise ratios at which they are added.

    Raises:
        UsageError: as in `find_material`.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.probability = section.noise_probability
        self.recordings = find_material("noise", section.noise_folders, base)
        self.min_snr_db = section.noise_snr_min_db
        self.max_snr_db = section.noise_snr_max_db
        self.audio = Audio(settings.audio.sample_rate)

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Add a part of a recording to `clip` (T,) float32: (T,) float32.

        Raises:
            AsdfError: the recording cannot be read.
        """
        noise, snr_db = self.draw(len(clip), rng)
        return mix(clip, noise, snr_db)

    def draw(self, samples: int, rng: Generator) -> tuple[np.ndarray, float]:
        """Draw a part (samples,) of a recording, repeated if it is shorter, and a ratio in dB.

        Order of the draws: the recording, the ratio, the part.

        Raises:
            AsdfError: the recording cannot be read.
        """
        path = draw_item(self.recordings, rng)
        snr_db = draw_between(self.min_snr_db, self.max_snr_db, rng)
        return _read_random_part(path, samples, rng, self.audio), snr_db

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"noise ({len(self.recordings)} recordings)"


def _read_random_part(path: str, samples: int, rng: Generator, audio: Audio) -> np.ndarray:
    try:
        length = audio_length(path, audio)
        start = crop_start(length, samples, rng)
        noise = read_audio(path, start, min(length, samples), audio)
    except AsdfError as error:
        raise AsdfError(
            f"a recording of augmentation.noise_folders cannot be used: {error}"
        ) from None
    return repeat_to(noise, samples)


def mix(waveform: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """Add `noise` (T,), scaled to `snr_db` below it, to `waveform` (T,): (T,) float32."""
    exact_speech = waveform.astype(np.float64)
    exact_noise = noise.astype(np.float64)
    energy = exact_speech @ exact_speech
    noise_energy = exact_noise @ exact_noise
    if energy == 0 or noise_energy == 0:
        return waveform
    ratio = 10 ** (snr_db / 20)
    level = np.sqrt(energy / noise_energy) / ratio
    mixed = exact_speech + level * exact_noise
    return mixed.astype(np.float32)
