"""The chain of augmentations of a training example, ours and the user's own classes.

To add a part of ours: write a class derived from `Part` in a file of this folder, a line in
`asdf.settings.sections.AUGMENTATIONS`, and its settings in `Augmentation` there.

Invariant: an example depends only on the recording, the material and the generator's draws, and a
part outside the chain draws nothing: with an empty chain, the example is bit-identical to one
without augmentation. A mistake in a user's part ends the run with one message that names the part
and, if a clip is involved, the recording.

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

from asdf.audio.augmentation.filtering import UNCHANGED, Speed, at_speed
from asdf.audio.augmentation.part import (
    TRIAL,
    Part,
    PartSettings,
    check_sendable,
    second_of_noise,
    unpickle_from,
)
from asdf.audio.speech import repeat_to
from asdf.errors import AsdfError, UsageError
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import UserErrors, find_class, searched_first

SETTING = "augmentation.chain"
_ADVICE = "Fix it, or take it off the chain."


def is_user_part(kind: type[Part]) -> bool:
    """Whether a class is the user's own."""
    return not kind.__module__.startswith("asdf.")


def build_user_part(kind: type[Part], settings: PartSettings, base: Path) -> Part:
    """Return a user's part that can be sent to a worker process.

    Raises:
        AsdfError: its constructor fails.
        UsageError: its probability is not a number from 0 to 1, or pickle cannot copy it.
    """
    name = _name(kind)
    with UserErrors(f"{SETTING}: {name}(settings, base) failed", _ADVICE):
        part = kind(settings, base)
        # A user's constructor may not call that of `Part`.
        if "probability" not in vars(part):
            part.read_probability(settings)
    # `True` would count as the number 1.
    is_number = type(part.probability) is not bool and isinstance(part.probability, int | float)
    if not is_number or not 0 <= part.probability <= 1:
        raise UsageError(
            f"{SETTING}: {name} has the probability {part.probability!r}; a number from 0 to 1 is "
            "needed."
        )
    check_sendable(part, f"{SETTING}: {name}", "apply")
    return part


def apply_checked(part: Part, clip: np.ndarray, rng: Generator, recording: object) -> np.ndarray:
    """Return the result of the part for `clip` (T,) float32.

    Args:
        recording: Name of the recording, for messages.

    Raises:
        AsdfError: the part fails, or returns something that is not a clip.
    """
    where = f"{SETTING}: {_name(type(part))}.apply, for the recording {recording},"
    samples = len(clip)
    with UserErrors(f"{where} failed", _ADVICE):
        result: object = part.apply(clip, rng)
    shape: tuple[int, ...] = result.shape if isinstance(result, np.ndarray) else ()
    length = shape[0] if len(shape) == 1 else 0
    fits = 1 <= length <= samples if part.shortens else length == samples
    problem = ""
    if not isinstance(result, np.ndarray):
        problem = f"{type(result).__name__}, not a numpy array: {result!r:.60}. Return the clip."
    elif not fits:
        wanted = f"1 to {samples:,}" if part.shortens else f"{samples:,}"
        problem = f"an array of shape {shape}, but a clip has {wanted} samples: (T,)."
    elif result.dtype != np.float32:
        problem = f"samples of {result.dtype}. End it with `.astype(np.float32)`."
    elif broken := np.count_nonzero(~np.isfinite(result)):
        problem = (
            f"{broken:,} of {samples:,} samples that are not finite numbers. Look for divisions "
            "by the level of a silent clip, or for logarithms of 0."
        )
    if problem:
        raise AsdfError(f"{where} returned {problem}")
    assert isinstance(result, np.ndarray)
    # torch accepts no array with negative strides, such as `clip[::-1]`.
    return np.ascontiguousarray(result)


def try_part(part: Part, rate: int) -> None:
    """Apply a user's part to a second of noise, and check the result.

    A copy is used, so that state created on first use is not sent to worker processes.

    Args:
        rate: Sampling rate of the clips, in Hz.

    Raises:
        AsdfError: as in `apply_checked`.
    """
    copied: Part = pickle.loads(pickle.dumps(part))
    apply_checked(copied, second_of_noise(rate), np.random.default_rng(0), TRIAL)


def _name(kind: type[Part]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


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
    if sum(isinstance(part, Speed) for part in parts) > 1:
        raise UsageError(f"{SETTING} names 'speed' twice, but a clip has one speed. Name it once.")
    return Chain(tuple(parts), folder.resolve() if folder else None)
