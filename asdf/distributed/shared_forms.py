"""Values as arrays, for processes that share them by files; loaded without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Packed:
    """A value as arrays, and what else is needed to make it of them, which is small."""

    arrays: Arrays
    rest: Any = None


@dataclass(frozen=True)
class Form(Generic[T]):
    """How a kind of value becomes arrays, and arrays that value."""

    pack: Callable[[T], Packed]
    unpack: Callable[[Packed], T]
