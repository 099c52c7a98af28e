"""A recording of noise added at a drawn signal-to-noise ratio.

Invariant: the ratio is that of the energies over the whole example. Where either is digital silence there is no ratio,
and the example stays as it is.

Recordings: David Snyder, Guoguo Chen, Daniel Povey: MUSAN: a music, speech, and noise corpus. arXiv:1510.08484.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asdf.audio.cropping import crop_start, repeat_to
from asdf.audio.reading import audio_length, read_audio
from asdf.errors import AsdfError
from asdf.settings.sections import Augmentation


def draw_noise(
    noises: Sequence[str], samples: int, settings: Augmentation, rng: np.random.Generator
) -> tuple[np.ndarray, float]:
    """A random part (samples,) of one of `noises`, repeated where it is shorter, and the ratio in dB.

    Order of the draws: the recording, the ratio, the part.

    Raises:
        AsdfError: the recording cannot be read.
    """
    path = noises[int(rng.integers(len(noises)))]
    snr_db = (
        settings.noise_snr_min_db
        + (settings.noise_snr_max_db - settings.noise_snr_min_db) * rng.random()
    )
    try:
        length = audio_length(path)
        noise = read_audio(path, crop_start(length, samples, rng), min(length, samples))
    except AsdfError as error:
        raise AsdfError(
            f"a recording of augmentation.noise_folders cannot be used: {error}"
        ) from None
    return repeat_to(noise, samples), snr_db


def mix(waveform: np.ndarray, noise: np.ndarray, snr_db: float) -> np.ndarray:
    """`waveform` (T,) with `noise` (T,), scaled to `snr_db` below it: (T,) float32."""
    speech, disturbance = waveform.astype(np.float64), noise.astype(np.float64)
    energy, noise_energy = speech @ speech, disturbance @ disturbance
    if energy == 0 or noise_energy == 0:
        return waveform
    level = np.sqrt(energy / noise_energy) / 10 ** (snr_db / 20)
    return (speech + level * disturbance).astype(np.float32)
