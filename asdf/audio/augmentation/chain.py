"""The augmentations of a training example, one after the other.

Invariant: an example is a function of the recording, the material and the generator's draws, and a part that is not in
the chain draws nothing: with an empty chain the example is, bit for bit, what it is without augmentation.

Order of the draws: the speed; then, by the caller, the place of the crop, which depends on it; then for each other
part of the chain in turn, whether it is done and, if so, its own draws.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asdf.audio.augmentation.codecs import check_codecs, draw_coding, transcode
from asdf.audio.augmentation.files import find_noises, find_responses
from asdf.audio.augmentation.noise import draw_noise, mix
from asdf.audio.augmentation.reverberation import draw_response, reverberate
from asdf.audio.augmentation.speed import AS_IT_IS, at_speed, draw_speed
from asdf.settings.sections import Augmentation


@dataclass(frozen=True)
class Chain:
    """What is done, and the recordings that it takes; plain values, which a worker process gets as they are."""

    settings: Augmentation = field(default_factory=Augmentation)
    noises: tuple[str, ...] = ()
    responses: tuple[str, ...] = ()

    def draw_speed(self, rng: np.random.Generator) -> int:
        """The speed of an example in percent; 100, and no draw, when the chain has none."""
        return draw_speed(self.settings, rng) if "speed" in self.settings.chain else AS_IT_IS

    def apply(
        self, waveform: np.ndarray, percent: int, samples: int, rng: np.random.Generator
    ) -> np.ndarray:
        """`waveform` (source_samples(samples, percent),) float32 with all parts of the chain: (samples,) float32.

        Raises:
            AsdfError: a recording of noise or an impulse response cannot be read.
        """
        for part in self.settings.chain:
            if part == "speed":
                waveform = at_speed(waveform, percent)[:samples]
            elif rng.random() < getattr(self.settings, f"{part}_probability"):
                waveform = self._do(part, waveform, rng)
        return waveform

    def _do(self, part: str, waveform: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if part == "noise":
            noise, snr_db = draw_noise(self.noises, len(waveform), self.settings, rng)
            return mix(waveform, noise, snr_db)
        if part == "reverberation":
            return reverberate(waveform, draw_response(self.responses, rng))
        return transcode(waveform, *draw_coding(self.settings.codecs, rng))

    def describe(self) -> str:
        """The parts in words, for the log; '' for none."""
        found = {
            "noise": f" ({len(self.noises)} recordings)",
            "reverberation": f" ({len(self.responses)} impulse responses)",
            "codec": f" ({', '.join(self.settings.codecs)})",
        }
        return ", ".join(part + found.get(part, "") for part in self.settings.chain)


def open_chain(settings: Augmentation, base: Path) -> Chain:
    """The chain of `settings`, with all its recordings found; their folders are relative to `base`.

    Raises:
        UsageError: a folder is missing or holds nothing that fits, or a codec is not there.
    """
    parts = settings.chain
    if "codec" in parts:
        check_codecs(settings.codecs)
    return Chain(
        settings,
        find_noises(settings.noise_folders, base) if "noise" in parts else (),
        find_responses(settings.reverberation_folders, base) if "reverberation" in parts else (),
    )
