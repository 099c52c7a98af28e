"""The user's own parts of the chain: created, and applied with checks of their results.

Invariant: a mistake in such a part ends the run with one message that names the part and, if a clip
is involved, the recording.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings
from asdf.audio.user_classes import TRIAL, check_sendable, second_of_noise
from asdf.errors import AsdfError, UsageError
from asdf.settings.class_path import UserErrors

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
    problem = _find_problem(result, samples, part.shortens)
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


def _find_problem(result: object, samples: int, shortens: bool) -> str:
    """Return what is wrong with the result of a part, with a fix; '' if it is correct."""
    if not isinstance(result, np.ndarray):
        return f"{type(result).__name__}, not a numpy array: {result!r:.60}. Return the clip."
    length = len(result) if result.ndim == 1 else 0
    fits = 1 <= length <= samples if shortens else length == samples
    if not fits:
        wanted = f"1 to {samples:,}" if shortens else f"{samples:,}"
        return f"an array of shape {result.shape}, but a clip has {wanted} samples: (T,)."
    if result.dtype != np.float32:
        return f"samples of {result.dtype}. End it with `.astype(np.float32)`."
    broken = np.count_nonzero(~np.isfinite(result))
    if broken:
        return (
            f"{broken:,} of {samples:,} samples that are not finite numbers. Look for divisions "
            "by the level of a silent clip, or for logarithms of 0."
        )
    return ""


def _name(kind: type[Part]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
