"""The augmentations of a training example, one after the other.

Invariant: an example is a function of the recording, the material and the generator's draws, and a
part that is not in the chain draws nothing: with an empty chain the example is, bit for bit, what
it is without augmentation.

Order of the draws: the speed; then, by the caller, the position of the crop, which depends on it;
then for each other part of the chain in turn, whether it is done and, if so, its own draws.

To add a part: write a class that is a `Part`, add a line to `_PARTS`, and its settings to
`asdf.settings.sections.Augmentation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.codecs import open_coding
from asdf.audio.augmentation.noise import open_noise
from asdf.audio.augmentation.reverberation import open_reverberation
from asdf.audio.augmentation.speed import UNCHANGED, Speed, at_speed
from asdf.settings.sections import Augmentation


class Part(Protocol):
    """What is done to a clip without changing its length: plain values, for worker processes.

    Attributes:
        probability: the proportion of the clips that it is done to.
    """

    @property
    def probability(self) -> float: ...

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Return `clip` (T,) float32 as it is after this part: (T,) float32."""

    def describe(self) -> str:
        """Return the part in words, for the log."""


@dataclass(frozen=True)
class Chain:
    """The parts in the order in which they are done."""

    parts: tuple[Speed | Part, ...] = ()

    def draw_speed(self, rng: Generator) -> int:
        """Return the speed of an example in percent; 100, and no draw, when the chain has none."""
        for part in self.parts:
            if isinstance(part, Speed):
                return part.draw(rng)
        return UNCHANGED

    def apply(self, waveform: np.ndarray, percent: int, samples: int, rng: Generator) -> np.ndarray:
        """Do all parts of the chain to a waveform at the drawn speed: (samples,) float32.

        Args:
            waveform: (source_samples(samples, percent),) float32.

        Raises:
            AsdfError: a recording of noise or an impulse response cannot be read.
        """
        for part in self.parts:
            if isinstance(part, Speed):
                waveform = at_speed(waveform, percent)[:samples]
            elif rng.random() < part.probability:
                waveform = part.apply(waveform, rng)
        return waveform

    def describe(self) -> str:
        """Return the parts in words, for the log; '' for none."""
        return ", ".join(part.describe() for part in self.parts)


def _open_speed(settings: Augmentation, base: Path) -> Speed:
    return Speed(settings.speed_probability, settings.speed_min, settings.speed_max)


_PARTS: dict[str, Callable[[Augmentation, Path], Speed | Part]] = {
    "speed": _open_speed,
    "noise": open_noise,
    "reverberation": open_reverberation,
    "codec": open_coding,
}


def open_chain(settings: Augmentation, base: Path) -> Chain:
    """Return the chain of `settings`, with all its recordings found.

    Args:
        base: what the folders of noise and responses are relative to.

    Raises:
        UsageError: a folder is missing or holds nothing that fits, or a codec is not installed.
    """
    parts: list[Speed | Part] = []
    for name in settings.chain:
        open_part = _PARTS[name]
        parts.append(open_part(settings, base))
    return Chain(tuple(parts))
