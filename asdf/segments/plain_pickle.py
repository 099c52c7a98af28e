"""A pickle of plain values and arrays of labels, built by hand: nothing in it is run.

Invariant: only texts, whole numbers, tuples, lists, dictionaries with texts as keys, and one-
dimensional arrays of numpy's are built; a pickle that asks for anything else is refused. What a
file makes is not larger than the file: parts that are named twice are shared, not copied.

`numpy.load` would unpickle a dictionary of arrays with Python's own pickle, which runs what the
file names.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

import numpy as np
import numpy.typing as npt

# Numbers and texts of a fixed width: neither objects nor structures.
_KINDS = "biuSU"
_ARRAY_CALLS = {
    "numpy.core.multiarray _reconstruct": "array",
    "numpy._core.multiarray _reconstruct": "array",
    "numpy ndarray": "class",
    "numpy dtype": "dtype",
    # How protocol 2 writes bytes.
    "_codecs encode": "encode",
}
_CONSTANTS: dict[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY: dict[str, Callable[[], Any]] = {
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
}
_VALUES = {
    *("INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES"),
}


class Global:
    """A name that the pickle asks for, one of `_ARRAY_CALLS`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


class Described:
    """A type or an array of numpy's whose description may still follow.

    Attributes:
        kind: 'dtype' or 'array'.
        value: the numpy type, or the array; None of an array that was not described yet.
        objects: Content of an array of objects.
    """

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value
        self.objects: list[Any] = []


def read_plain_pickle(content: bytes) -> Any:
    """Return what a pickle describes.

    Raises:
        UnpicklingError: it is broken, or asks for something other than plain values and arrays.
    """
    builder = _Builder()
    try:
        for instruction, argument, _ in pickletools.genops(io.BytesIO(content)):
            if instruction.name == "STOP":
                return builder.stack[-1]
            builder.follow(instruction.name, argument)
    except (LookupError, ValueError, TypeError, AttributeError) as error:
        raise UnpicklingError(f"its pickle is broken ({error})") from None
    raise UnpicklingError("its pickle has no end")


class _Builder:
    """The stack and the memo of a pickle."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def follow(self, name: str, argument: Any) -> None:
        """Do what an instruction does."""
        match name:
            case "PROTO" | "FRAME":
                pass
            case "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[argument] = self.stack[-1]
            case "MEMOIZE":
                self._memo[len(self._memo)] = self.stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                self.stack.append(self._memo[argument])
            case "MARK":
                self._marks.append(len(self.stack))
            case _:
                self._follow_value(name, argument)

    def _follow_value(self, name: str, argument: Any) -> None:
        match name:
            case _ if name in _CONSTANTS:
                self.stack.append(_CONSTANTS[name])
            case _ if name in _EMPTY:
                self.stack.append(_EMPTY[name]())
            case _ if name in _VALUES:
                self.stack.append(argument)
            case "TUPLE":
                self.stack.append(tuple(self._pop_to_mark()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                self.stack.append(tuple(self._pop(int(name[-1]))))
            case "APPEND" | "APPENDS" | "SETITEM" | "SETITEMS":
                self._add_items(name)
            case _:
                self._follow_call(name, argument)

    def _follow_call(self, name: str, argument: Any) -> None:
        match name:
            case "GLOBAL":
                self.stack.append(_find_global(argument))
            case "STACK_GLOBAL":
                module, attribute = self._pop(2)
                self.stack.append(_find_global(f"{module} {attribute}"))
            case "REDUCE":
                called, arguments = self._pop(2)
                self.stack.append(_call(called, arguments))
            case "BUILD":
                (state,) = self._pop(1)
                _describe(self.stack[-1], state)
            case _:
                raise UnpicklingError(
                    f"its pickle has the instruction {name}, which no labels need"
                )

    def _add_items(self, name: str) -> None:
        if name.endswith("S"):
            items = self._pop_to_mark()
        else:
            items = self._pop(2 if name == "SETITEM" else 1)
        target = self.stack[-1]
        if name.startswith("APPEND") and isinstance(target, list):
            target.extend(items)
        elif name.startswith("SETITEM") and isinstance(target, dict):
            for key, value in zip(items[0::2], items[1::2], strict=True):
                # A tuple of tuples of tuples would take for ever to hash.
                if not isinstance(key, str):
                    raise UnpicklingError("a dictionary in it has keys that are no texts")
                target[key] = value
        else:
            raise UnpicklingError("it adds items to what is no list and no dictionary")

    def _pop(self, count: int) -> list[Any]:
        if count > len(self.stack):
            raise IndexError("its stack is empty")
        return self._pop_from(len(self.stack) - count)

    def _pop_to_mark(self) -> list[Any]:
        return self._pop_from(self._marks.pop())

    def _pop_from(self, start: int) -> list[Any]:
        popped = self.stack[start:]
        del self.stack[start:]
        return popped


def _find_global(name: str) -> Global:
    if name not in _ARRAY_CALLS:
        raise UnpicklingError(f"it asks for {name[:80]!r}, which no labels need")
    return Global(_ARRAY_CALLS[name])


def _call(called: Any, arguments: Any) -> Any:
    """Return what a call makes."""
    if not isinstance(called, Global):
        raise UnpicklingError("it calls what cannot be called")
    if called.kind == "encode":
        text, encoding = arguments
        if encoding != "latin1":
            raise UnpicklingError("it has bytes in an unknown encoding")
        return text.encode("latin1")
    if called.kind == "dtype":
        return Described("dtype", _type_of(arguments[0]))
    if called.kind == "array":
        return Described("array")
    raise UnpicklingError("it calls what cannot be called")


def _type_of(name: Any) -> np.dtype[Any] | None:
    """Return the type of numpy's of this name, None for that of objects."""
    if name in ("O", "O8"):
        return None
    if not isinstance(name, str) or name[:1] not in _KINDS or not name[1:].isdecimal():
        # Not named: what stands there may be of any kind, and print for ever.
        raise UnpicklingError("it has an array of another type than numbers and texts")
    return np.dtype(name)


def _describe(target: Any, state: Any) -> None:
    """Give a type its order of bytes, or an array its content."""
    if not isinstance(target, Described):
        raise UnpicklingError("it describes what is no array")
    if target.kind == "dtype":
        if state[1] in ("<", ">") and target.value is not None:
            target.value = target.value.newbyteorder(state[1])
        return
    _, shape, described_type, _, content = state
    if described_type.kind != "dtype":
        raise UnpicklingError("it has an array without a type")
    if described_type.value is None:
        if not isinstance(content, list):
            raise UnpicklingError("it has an array of objects without objects")
        target.objects = content
    else:
        target.value = _array_of(content, described_type.value, shape)


def _array_of(content: Any, kind: np.dtype[Any], shape: Any) -> npt.NDArray[Any]:
    # By its bytes: a shape that the file only states takes no memory.
    if kind.itemsize == 0 or not isinstance(content, bytes):
        raise UnpicklingError("it has an array without content")
    array = np.frombuffer(content, kind)
    if shape != (len(array),):
        raise UnpicklingError("it has an array of another shape than labels in a row")
    return array
