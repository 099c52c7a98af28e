"""Two settings that contradict each other, as the rules of this room report them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Contradiction:
    """Two settings that contradict each other; a message reads `first relation second`."""

    first: str
    relation: str
    second: str
