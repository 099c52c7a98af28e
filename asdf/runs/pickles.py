"""A pickle reader that executes nothing.

Invariant: no content of a file is imported or called. A subclass of `PickleFollower` defines the
meaning of names and calls for one kind of file. Values are never hashed, compared or copied, so the
work is proportional to the size of the file.

A pickle refers to an earlier value in two bytes. A tuple that holds another one twice, nested many
times, is small in the file but takes exponential time to hash as a dictionary key; a call that
copies a long list may also be repeated. Shared values therefore count each time they appear.
"""

from __future__ import annotations

import pickletools
from abc import ABC, abstractmethod
from pickle import UnpicklingError
from typing import IO, Any, Literal

from asdf.text import printable, shorten

MAX_TUPLE_VALUES = 1000
"""Values in a tuple and in those inside it. The widest that is saved is Python's random state, of
630."""
SMALL_FILE_COPIES = 1_000_000
"""How many values the calls of a small file may copy; of a larger file, as many as it has bytes."""

Kind = Literal["list", "dict", "call"]
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Kind] = {"EMPTY_LIST": "list", "EMPTY_DICT": "dict"}
# Target and number of values of each adding instruction; None for all since the last mark.
_ADDING: dict[str, tuple[Kind, int | None]] = {
    "APPEND": ("list", 1),
    "APPENDS": ("list", None),
    "SETITEM": ("dict", 2),
    "SETITEMS": ("dict", None),
}


class Name(str):
    """A name that the pickle refers to: 'MODULE ATTRIBUTE'."""


class Items:
    """A list, a dictionary or the result of a call.

    Attributes:
        values: Values in the order of the file; for a dictionary, its keys and values in turn.
        copied: Maximum number of values that a call may have copied into it.
    """

    def __init__(self, kind: Kind, copied: int = 0) -> None:
        self.kind = kind
        self.values: list[Any] = []
        self.copied = copied


class _Tuple(tuple[Any, ...]):
    """A tuple with its total size: itself and its values, shared ones counted repeatedly."""

    total: int


class PickleFollower(ABC):
    """The stack and the memo of a pickle.

    A subclass defines names, calls and all instructions except those of lists, dictionaries and
    tuples.

    Args:
        file_size: Size of the file in bytes, which limits how much its calls may copy.
    """

    def __init__(self, file_size: int) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}
        self._copies_left = max(file_size, SMALL_FILE_COPIES)

    def follow(self, file: IO[bytes]) -> Any:
        """Return what the pickle at the file's position describes.

        Raises:
            UnpicklingError: it is damaged, holds a tuple of too many values, copies too much, or
                uses a refused name or instruction.
        """
        try:
            for instruction, argument, _ in pickletools.genops(file):
                if instruction.name != "STOP":
                    self._follow(instruction, argument)
            return self.stack[-1]
        except (LookupError, ValueError, TypeError) as error:
            reason = shorten(printable(str(error), one_line=True))
            raise UnpicklingError(f"its pickle is broken ({reason})") from None

    @abstractmethod
    def check_name(self, name: Name) -> None:
        """Raise an UnpicklingError for a name that is not allowed."""

    @abstractmethod
    def other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Follow an instruction that is not for lists, dictionaries or tuples."""

    def call(self, called: Any, arguments: Any, copied: int) -> Any:
        """Return the result of a call, which may copy up to `copied` values of its arguments."""
        return Items("call", copied)

    def build(self, target: Any, state: Any) -> None:
        """Set the state of an object; a state may be copied."""
        self._count_copies(state)

    def _follow(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        match instruction.name:
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                self.stack.append(self._memo[argument])
            case "MARK":
                self._marks.append(len(self.stack))
            case "GLOBAL":
                self._push_name(argument)
            case "STACK_GLOBAL":
                # Only texts: converting nested lists to text could take exponential time.
                module, attribute = map(_as_text, self.pop(2))
                self._push_name(f"{module} {attribute}")
            case "REDUCE" | "NEWOBJ":
                called, arguments = self.pop(2)
                self.stack.append(self.call(called, arguments, self._count_copies(arguments)))
            case "BUILD":
                (state,) = self.pop(1)
                self.build(self.stack[-1], state)
            case _:
                self._follow_values(instruction, argument)

    def _follow_values(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        match instruction.name:
            case name if name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            case name if name in _EMPTY:
                self.stack.append(Items(_EMPTY[name]))
            case name if name in _ADDING:
                kind, count = _ADDING[name]
                self._add(kind, self.pop(count))
            case "TUPLE":
                self.stack.append(_make_tuple(self.pop()))
            case "EMPTY_TUPLE" | "TUPLE1" | "TUPLE2" | "TUPLE3" as name:
                length = 0 if name == "EMPTY_TUPLE" else int(name[-1])
                self.stack.append(_make_tuple(self.pop(length)))
            case _:
                self.other(instruction, argument)

    def _push_name(self, name: str) -> None:
        self.check_name(Name(name))
        self.stack.append(Name(name))

    def _add(self, kind: Kind, items: list[Any]) -> None:
        target = self.stack[-1]
        if not isinstance(target, Items) or target.kind not in (kind, "call"):
            raise UnpicklingError("it adds items to what is neither a list nor a dictionary")
        if kind == "dict" and len(items) % 2:
            raise ValueError("a key has no value")
        target.values.extend(items)

    def _count_copies(self, arguments: Any) -> int:
        """Return how many argument values a call may copy, for example into a set or bytes."""
        copied = 0
        waiting = [arguments]
        while waiting:
            value = waiting.pop()
            copied += 1
            if isinstance(value, _Tuple):
                waiting.extend(value)
            elif isinstance(value, Items):
                copied += value.copied + len(value.values)
            elif isinstance(value, (str, bytes)) and not isinstance(value, Name):
                copied += len(value)
            if copied > self._copies_left:
                raise UnpicklingError("its calls copy the same values over and over")
        self._copies_left -= copied
        return copied

    def pop(self, count: int | None = None) -> list[Any]:
        """Remove the last `count` values from the stack; None for all since the last mark."""
        start = self._marks.pop() if count is None else len(self.stack) - count
        if start < 0:
            raise IndexError("its stack is empty")
        popped = self.stack[start:]
        del self.stack[start:]
        return popped


def _as_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a name is not a string")
    return value


def _make_tuple(values: list[Any]) -> _Tuple:
    made = _Tuple(values)
    made.total = 1
    for value in values:
        made.total += value.total if isinstance(value, _Tuple) else 1
    if made.total > MAX_TUPLE_VALUES:
        raise UnpicklingError(
            f"it holds a tuple of more than {MAX_TUPLE_VALUES:,} values, shared ones counted as "
            "often as they appear"
        )
    return made
