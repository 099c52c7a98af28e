"""Names as one block of memory, for the processes that are forked to read recordings.

Invariant: they are the same strings in the same order as a list of them. A list of strings is
millions of Python objects, and to look at one counts a reference to it, which writes to its page of
memory: sooner or later each forked process has a copy of all of them. A block stays shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

import numpy as np

_AT_ONCE = 1 << 16


class Names(Sequence[str]):
    """A sequence of strings that cannot be changed, and is as quick to pickle as an array."""

    # It equals a list of the same names, and lists have no hash.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, names: Iterable[str]) -> None:
        blocks = []
        sizes = [np.zeros(1, np.int64)]
        remaining = iter(names)
        # In parts, so that encoded names as Python objects never take much memory.
        while encoded := [_encode(name) for name in islice(remaining, _AT_ONCE)]:
            blocks.append(b"".join(encoded))
            lengths = [len(name) for name in encoded]
            sizes.append(np.array(lengths, np.int64))
        self._bytes = b"".join(blocks)
        self._ends = np.concatenate(sizes).cumsum()

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        indices = range(len(self))[index]
        if isinstance(indices, int):
            return self._name(indices)
        return [self._name(index) for index in indices]

    def __iter__(self) -> Iterator[str]:
        return map(self._name, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same strings, such as a list of them."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    def _name(self, index: int) -> str:
        start = self._ends.item(index)
        end = self._ends.item(index + 1)
        return self._bytes[start:end].decode("utf-8", "surrogateescape")


def _encode(name: str) -> bytes:
    # A file's name may hold bytes that are no UTF-8: they come back as they were.
    return name.encode("utf-8", "surrogateescape")
