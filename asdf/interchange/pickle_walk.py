"""A pickle that is followed, not run: what its storages claim, how many values its calls copy.

Invariant: nothing is built but numbers, texts and tuples, which is all that a storage's description
is made of; of lists and dictionaries the values are counted, and anything else is `None`.

A pickle names what it made before in two bytes. So a tuple of two that holds another twice, and so
on, is small in the file and takes for ever to hash as a dictionary's key; and a call that copies a
long list may be repeated any number of times. Both are counted here as often as they appear. What
is only printed and compared is bounded after the file was read (`plain_values.py`).
"""

from __future__ import annotations

import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from pickle import UnpicklingError
from typing import IO, Any

MAX_TUPLE_VALUES = 1000
"""Values in a tuple and in those inside it. The widest that is saved is Python's random state, of
630."""
SMALL_FILE_COPIES = 1_000_000
"""How many values the calls of a small file may copy; of a larger file, as many as it has bytes."""

_ELEMENT_SIZES = {
    **dict.fromkeys(("DoubleStorage", "LongStorage", "ComplexFloatStorage"), 8),
    **dict.fromkeys(("FloatStorage", "IntStorage"), 4),
    **dict.fromkeys(("HalfStorage", "BFloat16Storage", "ShortStorage"), 2),
    **dict.fromkeys(("CharStorage", "ByteStorage", "BoolStorage", "UntypedStorage"), 1),
}
# complex128; a kind that is not listed counts as the largest, never as too small.
_LARGEST_ELEMENT = 16


@dataclass(frozen=True)
class Storage:
    """What a pickle says of a storage: the name of its record, and its size in bytes."""

    key: str
    size: int


class _Tuple(tuple[Any, ...]):
    """A tuple, and how many values it is made of: itself, and shared ones each time they appear."""

    values: int


class _Items:
    """A list, a dictionary or what a call made, of which only the length is followed."""

    length = 0


def storages(file: IO[bytes], file_size: int) -> Iterator[Storage]:
    """Yield every storage that the pickle at the file's position names, with the size it claims.

    Raises:
        UnpicklingError: it is broken, holds a tuple of too many values, or copies too much.
    """
    walk = _Walk(max(file_size, SMALL_FILE_COPIES))
    for instruction, argument, _ in pickletools.genops(file):
        try:
            # torch.save uses persistent ids for storages and for nothing else.
            if instruction.name == "BINPERSID":
                yield _read_storage(walk.stack.pop())
                walk.stack.append(None)
            else:
                walk.follow(instruction, argument)
        except (LookupError, ValueError, TypeError) as error:
            raise UnpicklingError(f"its pickle is broken at {instruction.name}") from error


class _Walk:
    """The stack and the memo of a pickle, as far as they matter here.

    Attributes:
        copies_left: Number of values that further calls may copy.
    """

    def __init__(self, copies: int) -> None:
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.copies_left = copies

    def follow(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Do to the stack what `instruction` does, building nothing."""
        match instruction.name:
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self.memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self.memo[len(self.memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                self.stack.append(self.memo[argument])
            case "MARK":
                self.marks.append(len(self.stack))
            case "GLOBAL":
                self.stack.append(_check_global(argument))
            case "STACK_GLOBAL":
                self.stack.append(_check_global(self._pop(2)[-1]))
            case "REDUCE" | "NEWOBJ":
                _, arguments = self._pop(2)
                self.stack.append(self._count_call(arguments))
            # The object stays on the stack; its __setstate__ may copy the argument.
            case "BUILD":
                self._count_call(*self._pop(1))
            case _:
                self._follow_values(instruction, argument)

    def _follow_values(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        match instruction.name:
            case "TUPLE":
                self.stack.append(_make_tuple(self._pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                length = int(instruction.name[-1])
                self.stack.append(_make_tuple(self._pop(length)))
            case "EMPTY_LIST" | "EMPTY_DICT":
                self.stack.append(_Items())
            case "APPEND":
                self._count_items(self._pop(1))
            case "SETITEM":
                self._count_items(self._pop(2))
            case "APPENDS" | "SETITEMS":
                self._count_items(self._pop_to_mark())
            case _:
                self._follow_other(instruction, argument)

    def _follow_other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Change the stack as pickletools describes the instruction."""
        before = instruction.stack_before
        if pickletools.markobject in before:
            self._pop_to_mark()
            before = before[: before.index(pickletools.markobject)]
        self._pop(len(before))
        is_constant = not instruction.stack_before and len(instruction.stack_after) == 1
        if is_constant:
            self.stack.append(argument)
        else:
            self.stack.extend([None] * len(instruction.stack_after))

    def _count_items(self, items: list[Any]) -> None:
        if isinstance(self.stack[-1], _Items):
            self.stack[-1].length += len(items)

    def _count_call(self, arguments: Any) -> _Items:
        """Return what a call makes, which may copy all its arguments: a set, bytes, a size."""
        made = _Items()
        waiting = [arguments]
        while waiting:
            value = waiting.pop()
            if isinstance(value, _Tuple):
                waiting.extend(value)
            made.length += 1 + _length_of(value)
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


def _make_tuple(values: list[Any]) -> _Tuple:
    made = _Tuple(values)
    made.values = 1 + sum(getattr(value, "values", 1) for value in values)
    if made.values > MAX_TUPLE_VALUES:
        raise UnpicklingError(
            f"it holds a tuple of more than {MAX_TUPLE_VALUES:,} values, shared ones counted as "
            "often as they appear"
        )
    return made


def _length_of(value: Any) -> int:
    if isinstance(value, _Items):
        return value.length
    return len(value) if isinstance(value, (str, bytes)) else 0


def _check_global(name: str) -> str:
    """Return the last part of the name, which is all that a storage's description needs."""
    last = name.split(" ")[-1]
    if last == "bytearray":
        raise UnpicklingError("it asks for a bytearray, whose size nothing bounds")
    return last


def _read_storage(description: Any) -> Storage:
    match description:
        case (_, str(kind), key, _, int(count), *_) if count >= 0:
            return Storage(str(key), count * _ELEMENT_SIZES.get(kind, _LARGEST_ELEMENT))
    raise UnpicklingError("it describes a storage in a way that cannot be followed")
