"""Checks of the user's own parts and vocoders: pickling, and a second of noise before a run."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.settings.class_path import searched_first

Holder = TypeVar("Holder")

TRIAL = "'a second of noise', before training"
"""Name of this test in messages."""

_LEVEL = 0.1


def second_of_noise(rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return a second of noise (T,) float32 at `rate` Hz, the same in every call."""
    noise = _LEVEL * np.random.default_rng(0).standard_normal(rate)
    return noise.astype(np.float32)


def check_sendable(part: object, name: str, method: str) -> None:
    """Refuse a part that cannot be pickled for the loader's processes.

    Args:
        method: Name of the method in which the part can create unpicklable state.
    """
    try:
        pickle.dumps(part)
    except Exception as error:
        raise UsageError(
            f"{name} cannot be sent to the loader's processes: {type(error).__name__}: {error}. "
            "Its attributes must be picklable, such as numbers, strings and arrays; open files and "
            f"lambdas are not. Create whatever else it needs in `{method}`, on first use."
        ) from error


def unpickle_from(
    kind: Callable[[Any, Path | None], Holder], pickled: bytes, folder: Path | None
) -> Holder:
    """Return `kind(objects, folder)` for pickled objects whose classes may lie in `folder`."""
    with searched_first(folder):
        return kind(pickle.loads(pickled), folder)
