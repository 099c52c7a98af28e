"""Conversion of values to arrays, for sharing by files; does not import torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

T = TypeVar("T")
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Packed:
    """A value as arrays, and the small rest that is needed to restore it."""

    arrays: Arrays
    rest: Any = None


@dataclass(frozen=True)
class Form(Generic[T]):
    """The conversion of a kind of value to arrays and back."""

    pack: Callable[[T], Packed]
    unpack: Callable[[Packed], T]
