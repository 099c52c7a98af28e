"""Safe reading of pickles of plain values and arrays of labels, without executing them.

Invariant: only texts, integers, tuples, lists, dictionaries and one-dimensional numpy arrays are
built; a pickle with anything else is refused. The result is not larger than the file: objects that
are referenced twice are shared, not copied.

`numpy.load` would unpickle a dictionary of arrays with Python's own pickle, which executes code
that the file names.
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
# The last one is how protocol 2 writes bytes.
_NAMES = (*_ARRAYS, "numpy ndarray", "numpy dtype", "_codecs encode")
_VALUES = {
    *("INT", "LONG", "LONG1", "BININT", "BININT1", "BININT2"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES"),
}


class Described:
    """A numpy type or array whose description may still follow.

    Attributes:
        kind: Kind of the object, 'dtype' or 'array'.
        value: Numpy type, or the array; None for an array that is not described yet.
        objects: Content of an array of objects.
    """

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind = kind
        self.value = value
        self.objects: list[Any] = []


def read_plain_pickle(content: bytes) -> Any:
    """Return the content of a pickle: lists and dictionaries as `asdf.runs.pickles.Items`.

    Raises:
        UnpicklingError: it is broken, or contains other objects than plain values and arrays.
    """
    return _LabelFollower(len(content)).follow(io.BytesIO(content))


class _LabelFollower(PickleFollower):
    """Builds the arrays of a pickle."""

    def check_name(self, name: Name) -> None:
        """Refuse all names except those of numpy's arrays."""
        if name not in _NAMES:
            raise UnpicklingError(f"it requests {shorten(repr(name))}, which labels do not need")

    def other(self, instruction: pickletools.OpcodeInfo, argument: Any) -> None:
        """Add a text, a number or bytes."""
        if instruction.name in _VALUES:
            self.stack.append(argument)
        elif instruction.name not in ("PROTO", "FRAME"):
            raise UnpicklingError(
                f"its pickle has the instruction {instruction.name}, which labels do not need"
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
                    # Not printed: the value may be of any type, and arbitrarily long.
                    raise UnpicklingError("it has an array of another type than numbers and texts")
                return Described("dtype", np.dtype(name))
            case (Name(), _) if called in _ARRAYS:
                return Described("array")
        raise UnpicklingError("it calls an object that cannot be called")

    def build(self, target: Any, state: Any) -> None:
        """Set the byte order of a type, or the content of an array."""
        match getattr(target, "kind", ""), state:
            case ("dtype", (_, str(order), *_)):
                # '|' is of types without a byte order.
                if order in ("<", ">") and target.value is not None:
                    target.value = target.value.newbyteorder(order)
            case ("array", (_, shape, Described(kind="dtype") as described, _, content)):
                if described.value is not None:
                    # Sized by its bytes, so that a shape stated in the file allocates no memory.
                    if described.value.itemsize == 0 or not isinstance(content, bytes):
                        raise UnpicklingError("it has an array without content")
                    target.value = np.frombuffer(content, described.value)
                    if shape != (len(target.value),):
                        raise UnpicklingError(
                            "it has an array of another shape than a row of labels"
                        )
                elif isinstance(content, Items):
                    target.objects = content.values
                else:
                    raise UnpicklingError("it has an array of objects without objects")
            case _:
                raise UnpicklingError("it describes something other than an array")
