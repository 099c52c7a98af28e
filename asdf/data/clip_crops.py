"""Which samples of a recording a training clip is made of.

Invariant: it follows from the seed, the clip's key and the length of the recording. So a worker
that reads clips and each process that needs their frames' labels know it, without a word between
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from numpy.random import Generator

from asdf.audio import crop_start
from asdf.audio.augmentation import Chain, source_samples

CropPosition = Literal["random", "start"]


@dataclass(frozen=True)
class Crop:
    """Samples of a recording's speech, and the speed at which they are played.

    Attributes:
        start: the first sample.
        samples: Number of samples; a shorter recording is repeated.
        speed: in percent.
    """

    start: int
    samples: int
    speed: int


def draw_crop(
    length: int, clip_size: int, position: CropPosition, augmentation: Chain, rng: Generator
) -> Crop:
    """Return the crop for a clip of `clip_size` samples out of `length` samples.

    Args:
        rng: Random numbers of the clip; a crop is the first that it draws: the speed, then the
            start.
    """
    speed = augmentation.draw_speed(rng)
    samples = source_samples(clip_size, speed)
    start = 0
    if position == "random":
        start = crop_start(length, samples, rng)
    return Crop(start, samples, speed)
