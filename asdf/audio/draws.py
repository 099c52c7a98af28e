"""The two random draws used by augmentations: an item, and a number in a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from numpy.random import Generator

Item = TypeVar("Item")


def draw_item(items: Sequence[Item], rng: Generator) -> Item:
    """Draw one of `items`, with equal probabilities."""
    index = int(rng.integers(len(items)))
    return items[index]


def draw_between(lowest: float, highest: float, rng: Generator) -> float:
    """Draw a number between `lowest` and `highest`, uniformly."""
    return float(scale(rng.random(), lowest, highest))


def scale(uniform: Any, lowest: Any, highest: Any) -> Any:
    """Scale numbers or arrays drawn from 0 to 1 to the range from `lowest` to `highest`."""
    return lowest + (highest - lowest) * uniform
