"""The chain of augmentations of a training example, ours and the user's own classes.

To add a part of ours: write a class derived from `Part` in a file of this folder, a line in
`asdf.settings.sections.AUGMENTATIONS`, and its settings in `Augmentation` there.

Invariant: an example depends only on the recording, the material and the generator's draws, and a
part outside the chain draws nothing: with an empty chain, the example is bit-identical to one
without augmentation.

Order of the draws: the speed; then, by the caller, the position of the crop, which depends on it;
then for each part in turn whether it is applied and, if so, its own draws: first for parts that
shorten the speech, before it is repeated to the length of a clip, then for all others.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.augmentation.speed import UNCHANGED, Speed, at_speed
from asdf.audio.augmentation.user_parts import (
    SETTING,
    apply_checked,
    build_user_part,
    is_user_part,
    try_part,
)
from asdf.audio.speech import repeat_to
from asdf.audio.user_classes import unpickle_from
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import find_class, searched_first


@dataclass(frozen=True)
class Chain:
    """The parts, in the order of their application.

    Attributes:
        folder: Folder that is searched first for modules with the user's own parts; worker
            processes import them from there.
    """

    parts: tuple[Part, ...] = ()
    folder: Path | None = None

    def __reduce__(self) -> tuple[Callable[..., Chain], tuple[Any, ...]]:
        return unpickle_from, (Chain, pickle.dumps(self.parts), self.folder)

    def draw_speed(self, rng: Generator) -> int:
        """Return the speed of an example in percent; 100, without a draw, if the chain has none."""
        for part in self.parts:
            if isinstance(part, Speed):
                return part.draw(rng)
        return UNCHANGED

    def fill(
        self, speech: np.ndarray, samples: int, rng: Generator, recording: object = ""
    ) -> np.ndarray:
        """Apply the parts that shorten, and repeat the result: (samples,) float32.

        Args:
            speech: Samples of speech, (up to `samples`,) float32.
            recording: Name of the recording, for messages.

        Raises:
            AsdfError: a user's part fails, or returns something that is not speech.
        """
        for part in self.parts:
            if part.shortens:
                speech = _do_for_some(part, speech, rng, recording)
        return repeat_to(speech, samples)

    def apply(
        self,
        waveform: np.ndarray,
        percent: int,
        samples: int,
        rng: Generator,
        recording: object = "",
    ) -> np.ndarray:
        """Apply all other parts to a waveform at the drawn speed: (samples,) float32.

        Args:
            waveform: Waveform (source_samples(samples, percent),) float32.
            recording: Name of the recording, for messages.

        Raises:
            AsdfError: a recording of noise or an impulse response cannot be read, or a user's part
                fails or returns something that is not a clip.
        """
        for part in self.parts:
            if isinstance(part, Speed):
                waveform = at_speed(waveform, percent)[:samples]
            elif not part.shortens:
                waveform = _do_for_some(part, waveform, rng, recording)
        return waveform

    def describe(self) -> str:
        """Describe the parts for the log; '' without any."""
        return ", ".join(part.describe() for part in self.parts)


def _do_for_some(part: Part, waveform: np.ndarray, rng: Generator, recording: object) -> np.ndarray:
    if rng.random() >= part.probability:
        return waveform
    if is_user_part(type(part)):
        return apply_checked(part, waveform, rng, recording)
    return part.apply(waveform, rng)


def open_chain(settings: PartSettings, base: Path, folder: Path | None = None) -> Chain:
    """Return the chain of `settings`, with all its recordings listed.

    Args:
        base: Folder that those of noise and responses are relative to.
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: a folder is missing or has no suitable recordings, a codec is not installed, or
            a class does not exist or is not a part.
        AsdfError: the user's own code fails, possibly only on a second of noise.
    """
    parts: list[Part] = []
    for class_path in named_classes(SETTING, settings.augmentation.chain):
        kind = find_class(class_path, folder, SETTING, Part)  # type: ignore[type-abstract]
        if is_user_part(kind):
            part = build_user_part(kind, settings, base)
            with searched_first(folder):
                try_part(part, settings.audio.sample_rate)
            parts.append(part)
        else:
            parts.append(kind(settings, base))
    return Chain(tuple(parts), folder.resolve() if folder else None)
