"""A pickle followed, not run: what its storages claim, and how many values its calls copy.

Invariant: nothing is built but numbers, texts and tuples, which is all that a storage's description
is made of; lists and dictionaries are counted, and anything else stands for itself as `None`.

A pickle names what it made before in two bytes. So a tuple of two that holds another twice, and so
on, is small in the file and takes for ever to hash as a dictionary's key; and a call that copies a
long list may stand there over and over. Both are counted here as often as they appear. What is only
printed and compared is bounded after the file was read (`plain_values.py`).
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from pickle import UnpicklingError
from typing import IO, Any

WIDEST_TUPLE = 1000
"""The most values in a tuple and in those inside it. The widest that is saved is Python's random
state, of 630."""
LEAST_COPIES = 1_000_000
"""How many values the calls of a small file may copy; of a larger file, as many as it has bytes."""

_ELEMENT_SIZES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
}
_LARGEST_ELEMENT = 16


class _Tuple(tuple[Any, ...]):
    """A tuple, and how many values it is made of: itself, and shared ones each time they appear."""

    values: int


class _Items:
    """A list, a dictionary or what a call made, of which only the length is followed."""

    length = 0


def storages(file: IO[bytes], file_size: int) -> Iterator[tuple[str, int]]:
    """Key and claimed bytes of every storage that the pickle at the file's position names.

    Raises:
        UnpicklingError: it is broken, holds a tuple of too many values, or copies too much.
    """
    walk = _Walk(max(file_size, LEAST_COPIES))
    for instruction, argument, _ in pickletools.genops(file):
        try:
            if instruction.name == "BINPERSID":
                yield _storage(walk.stack.pop())
                walk.stack.append(None)
            else:
                walk.follow(instruction, argument)
        except (LookupError, ValueError, TypeError) as error:
            raise UnpicklingError(f"its pickle is broken at {instruction.name}") from error


class _Walk:
    """The stack and the memo of a pickle, as far as they matter here."""

    def __init__(self, copies: int) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.copies_left = copies

    def follow(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        name, stack = instruction.name, self.stack
        if name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "MARK":
            self.marks.append(len(stack))
        elif name in ("GLOBAL", "STACK_GLOBAL"):
            stack.append(_checked_global(argument if name == "GLOBAL" else self._pop(2)[-1]))
        elif name == "TUPLE":
            stack.append(_tuple(self._pop_to_mark()))
        elif name in ("TUPLE1", "TUPLE2", "TUPLE3"):
            stack.append(_tuple(self._pop(int(name[-1]))))
        elif name in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append(_Items())
        elif name in ("APPEND", "SETITEM"):
            self._add(self._pop(1 if name == "APPEND" else 2))
        elif name in ("APPENDS", "SETITEMS"):
            self._add(self._pop_to_mark())
        elif name in ("REDUCE", "NEWOBJ"):
            _, arguments = self._pop(2)
            stack.append(self._called(arguments))
        elif name == "BUILD":
            self._called(*self._pop(1))
        else:
            self._follow_other(instruction, argument)

    def _follow_other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        before = instruction.stack_before
        if pickletools.markobject in before:
            self._pop_to_mark()
            before = before[: before.index(pickletools.markobject)]
        self._pop(len(before))
        constant = not instruction.stack_before and len(instruction.stack_after) == 1
        self.stack.extend([argument] if constant else [None] * len(instruction.stack_after))

    def _add(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], _Items):
            self.stack[-1].length += len(items)

    def _called(self, arguments: Any) -> _Items:
        """What a call makes, which may copy all that is in its arguments: a set, bytes, a size."""
        made = _Items()
        waiting = [arguments]
        while waiting:
            value = waiting.pop()
            if isinstance(value, _Tuple):
                waiting.extend(value)
            made.length += 1 + _length(value)
            if made.length > self.copies_left:
                raise UnpicklingError("its calls copy the same values over and over")
        self.copies_left -= made.length
        return made

    def _pop(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise IndexError(count)
        return self._pop_from(len(self.stack) - count)

    def _pop_to_mark(self) -> list[Any]:
        return self._pop_from(self.marks.pop())

    def _pop_from(self, start: int) -> list[Any]:
        popped = self.stack[start:]
        del self.stack[start:]
        return popped


def _tuple(values: list[Any]) -> _Tuple:
    made = _Tuple(values)
    made.values = 1 + sum(getattr(value, "values", 1) for value in values)
    if made.values > WIDEST_TUPLE:
        raise UnpicklingError(
            f"it holds a tuple of more than {WIDEST_TUPLE:,} values, shared ones counted as often "
            "as they appear"
        )
    return made


def _length(value: Any) -> int:
    if isinstance(value, _Items):
        return value.length
    return len(value) if isinstance(value, (str, bytes)) else 0


def _checked_global(name: str) -> str:
    """The last part of the name, which is all that is looked at."""
    last = name.split(" ")[-1]
    if last == "bytearray":
        raise UnpicklingError("it asks for a bytearray, whose size nothing bounds")
    return last


def _storage(description: Any) -> tuple[str, int]:
    match description:
        case (_, str(kind), key, _, int(count), *_) if count >= 0:
            return str(key), count * _ELEMENT_SIZES.get(kind, _LARGEST_ELEMENT)
    raise UnpicklingError("it describes a storage in a way that cannot be followed")
