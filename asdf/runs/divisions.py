"""Work on a list that is divided among processes which do not know each other.

Invariant: parts 1 to N of a division are disjoint and together all of the work, whoever does them,
whenever, in whatever order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from asdf.errors import UsageError

T = TypeVar("T")

_PART = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Part:
    """The `number`-th of `of` parts, from 1 on."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Part:
        """Read '3/40'.

        Raises:
            UsageError: it is none of the parts that it counts.
        """
        match = _PART.fullmatch(text)
        if match is None or not 1 <= int(match[1]) <= int(match[2]):
            raise UsageError(
                f"--part {text}: give which of how many parts, from 1/N to N/N, such as 3/40."
            )
        return cls(int(match[1]), int(match[2]))

    def indices(self, count: int) -> range:
        """Return the indices of the part among `count` entries: neighbours."""
        return range((self.number - 1) * count // self.of, self.number * count // self.of)

    def every(self, count: int) -> range:
        """Return the indices of the part among `count` entries, each `of`-th of them.

        For entries that are sorted by their cost, so that all parts take as long.
        """
        return range(self.number - 1, count, self.of)

    def of_every(self, entries: Sequence[T]) -> list[T]:
        """Return each `of`-th of some entries."""
        return [entries[index] for index in self.every(len(entries))]

    def label(self) -> str:
        """Return 'part-3-of-40', for names of files."""
        return f"part-{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"


def parts_of(count: int) -> list[Part]:
    """Return all parts of a division into `count`."""
    return [Part(number, count) for number in range(1, count + 1)]
