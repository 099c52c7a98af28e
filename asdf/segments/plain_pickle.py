"""A pickle of plain values and arrays of labels, built by hand: nothing in it is run.

Invariant: only texts, whole numbers, tuples, lists, dictionaries and one-dimensional arrays of
numpy's are built; a pickle that asks for anything else is refused. What a file makes is not larger
than the file: parts that are named twice are shared, not copied.

`numpy.load` would unpickle a dictionary of arrays with Python's own pickle, which runs what the
file names.
"""

from __future__ import annotations

import io
import pickletools
from pickle import UnpicklingError
from typing import Any

import numpy as np

from asdf.runs.pickles import Items, Name, PickleFollower
from asdf.text import shorten

# Numbers and texts of a fixed width: neither objects nor structures.
_KINDS = "biuSU"
_ARRAYS = ("numpy.core.multiarray _reconstruct", "numpy._core.multiarray _reconstruct")
# The last is how protocol 2 writes bytes.
_NAMES = (*_ARRAYS, "numpy ndarray", "numpy dtype", "_codecs encode")
_VALUES = {
    *("INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES"),
}


class Described:
    """A type or an array of numpy's whose description may still follow.

    Attributes:
        kind: 'dtype' or 'array'.
        value: Numpy type, or the array; None of an array that was not described yet.
        objects: Content of an array of objects.
    """

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value
        self.objects: list[Any] = []


def read_plain_pickle(content: bytes) -> Any:
    """Return what a pickle describes: lists and dictionaries as `asdf.runs.pickles.Items`.

    Raises:
        UnpicklingError: it is broken, or asks for something other than plain values and arrays.
    """
    return _LabelFollower(len(content)).follow(io.BytesIO(content))


class _LabelFollower(PickleFollower):
    """Builds the arrays that a pickle describes."""

    def check_name(self, name: Name) -> None:
        """Refuse all names but those of numpy's arrays."""
        if name not in _NAMES:
            raise UnpicklingError(f"it asks for {shorten(repr(name))}, which no labels need")

    def other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Add a text, a number or bytes."""
        if instruction.name in _VALUES:
            self.stack.append(argument)
        elif instruction.name not in ("PROTO", "FRAME"):
            raise UnpicklingError(
                f"its pickle has the instruction {instruction.name}, which no labels need"
            )

    def call(self, called: Any, arguments: Any, copied: int) -> Any:
        """Return bytes, a type or an array."""
        match called, arguments:
            case (Name("_codecs encode"), (str(text), "latin1")):
                return text.encode("latin1")
            case (Name("numpy dtype"), (name, *_)):
                if name in ("O", "O8"):
                    # The type of objects, which has no content of its own.
                    return Described("dtype")
                if not isinstance(name, str) or name[:1] not in _KINDS or not name[1:].isdecimal():
                    # Not named: what stands there may be of any kind, and print for ever.
                    raise UnpicklingError("it has an array of another type than numbers and texts")
                return Described("dtype", np.dtype(name))
            case (Name(), _) if called in _ARRAYS:
                return Described("array")
        raise UnpicklingError("it calls what cannot be called")

    def build(self, target: Any, state: Any) -> None:
        """Set the order of bytes of a type, or the content of an array."""
        match getattr(target, "kind", ""), state:
            case ("dtype", (_, str(order), *_)):
                if order in ("<", ">") and target.value is not None:
                    target.value = target.value.newbyteorder(order)
            case ("array", (_, shape, Described(kind="dtype") as described, _, content)):
                if described.value is not None:
                    # By its bytes: a shape that the file only states takes no memory.
                    if described.value.itemsize == 0 or not isinstance(content, bytes):
                        raise UnpicklingError("it has an array without content")
                    target.value = np.frombuffer(content, described.value)
                    if shape != (len(target.value),):
                        raise UnpicklingError(
                            "it has an array of another shape than labels in a row"
                        )
                elif isinstance(content, Items):
                    target.objects = content.values
                else:
                    raise UnpicklingError("it has an array of objects without objects")
            case _:
                raise UnpicklingError("it describes what is not an array")
