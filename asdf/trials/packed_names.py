"""Names in one block of memory, for the processes that are forked to read recordings.

Invariant: the names equal the strings of a list, in the same order. A list of strings is millions
of Python objects, and reading one changes its reference count, which writes to its page of memory:
eventually each forked process has a copy of all of them. A block stays shared.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from mmap import mmap
from typing import Any, overload

import numpy as np

from asdf.arrays import AnyIntegers, Integers

_AT_ONCE = 1 << 16


class PackedStrings(Sequence[str]):
    """An immutable sequence of strings that are made when they are read."""

    # It equals a list of the same strings, and lists are not hashable.
    __hash__ = None  # type: ignore[assignment]

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        indices = range(len(self))[index]
        if isinstance(indices, int):
            return self.value(indices)
        return [self.value(index) for index in indices]

    def __iter__(self) -> Iterator[str]:
        return map(self.value, range(len(self)))

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same strings, such as a list of them."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))

    @abstractmethod
    def value(self, index: int) -> str:
        """Return the string at an index from 0 on."""


class CodedColumn(PackedStrings):
    """A column stored as the index of each value in a list of distinct values."""

    def __init__(self, values: Sequence[str], codes: AnyIntegers) -> None:
        self.values = values
        self.codes = codes

    def __len__(self) -> int:
        return len(self.codes)

    def value(self, index: int) -> str:
        return self.values[self.codes.item(index)]

    @classmethod
    def of(cls, values: Sequence[str]) -> CodedColumn:
        """Return a column of these values, whose distinct ones are sorted."""
        distinct = sorted(set(values))
        numbers = {value: number for number, value in enumerate(distinct)}
        codes = np.fromiter(map(numbers.__getitem__, values), np.intp, len(values))
        return cls(distinct, codes)


class Names(PackedStrings):
    """Names that pickle as quickly as an array.

    Attributes:
        block: Concatenated encoded names.
        ends: Offset in the block at which each name begins, and the end of the last.
    """

    def __init__(self, names: Iterable[str]) -> None:
        blocks = []
        sizes = [np.zeros(1, np.int64)]
        remaining = iter(names)
        # In blocks, so that encoded names as Python objects never take much memory.
        # File names may contain bytes that are not UTF-8, which are preserved.
        while encoded := [
            name.encode("utf-8", "surrogateescape") for name in islice(remaining, _AT_ONCE)
        ]:
            blocks.append(b"".join(encoded))
            lengths = [len(name) for name in encoded]
            sizes.append(np.array(lengths, np.int64))
        self._set(np.frombuffer(b"".join(blocks), np.uint8), np.concatenate(sizes).cumsum())

    @classmethod
    def of_arrays(cls, block: np.ndarray, ends: Integers) -> Names:
        """Return the names of a block and its ends, which are not copied."""
        names = cls.__new__(cls)
        names._set(block, ends)
        return names

    def _set(self, block: np.ndarray, ends: Integers) -> None:
        self.block = block
        self.ends = ends
        # Slicing a memoryview takes a fifth of the time of slicing an array.
        self._bytes = memoryview(block)  # type: ignore[arg-type]  # arrays are buffers

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle mapped names as a reference to their file, others as arrays."""
        return _restore, (_describe(self.block), _describe(self.ends))

    def __len__(self) -> int:
        return len(self.ends) - 1

    def value(self, index: int) -> str:
        start = self.ends.item(index)
        end = self.ends.item(index + 1)
        return str(self._bytes[start:end], "utf-8", "surrogateescape")


@dataclass(frozen=True)
class _Mapped:
    """An array in a file."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str


def _describe(array: np.ndarray) -> np.ndarray | _Mapped:
    # A part of a mapped array has the offset of the whole.
    if not isinstance(array, np.memmap) or not isinstance(array.base, mmap):
        return array
    return _Mapped(str(array.filename), array.offset, array.shape, array.dtype.str)


def _restore(block: np.ndarray | _Mapped, ends: np.ndarray | _Mapped) -> Names:
    arrays = []
    for part in (block, ends):
        if isinstance(part, _Mapped):
            part = np.memmap(part.path, part.dtype, "c", part.offset, part.shape)
        arrays.append(part)
    return Names.of_arrays(*arrays)
