"""Names as one block of memory, for the processes that are forked to read recordings.

Invariant: they are the same strings in the same order as a list of them. A list of strings is millions of Python
objects, and to look at one counts a reference to it, which writes to its page of memory: sooner or later each forked
process has a copy of all of them. A block is shared for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

import numpy as np

_AT_ONCE = 1 << 16


class Names(Sequence[str]):
    """A sequence of strings that cannot be changed, and is as quick to pickle as an array."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, names: Iterable[str]) -> None:
        blocks, sizes = [], [np.zeros(1, np.int64)]
        rest = iter(names)
        while encoded := [
            name.encode("utf-8", "surrogateescape") for name in islice(rest, _AT_ONCE)
        ]:
            blocks.append(b"".join(encoded))
            sizes.append(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        self._bytes, self._ends = b"".join(blocks), np.concatenate(sizes).cumsum()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        places = range(len(self))[index]
        return (
            [self._name(place) for place in places]
            if isinstance(places, range)
            else self._name(places)
        )

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same strings, such as a list of them."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    def _name(self, place: int) -> str:
        name = self._bytes[self._ends.item(place) : self._ends.item(place + 1)]
        return name.decode("utf-8", "surrogateescape")
