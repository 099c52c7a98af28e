"""Numpy numbers in a checkpoint, such as fairseq's validation loss, read as Python numbers.

Invariant: no numpy function is called with content of a file, since numpy types may have any size
and structure although the file that names one is small.
"""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any

import numpy as np

from asdf.text import printable, shorten

# Neither 'O', which is any object, nor 'S' and 'V', which have any size.
_KINDS = ("b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8")


class NumberType:
    """The type of a single number, read instead of `numpy.dtype`."""

    def __init__(self, name: str, *_: object) -> None:
        if name not in _KINDS:
            wanted = shorten(printable(repr(name), one_line=True))
            raise UnpicklingError(
                f"it asks for numpy's type {wanted}, which is not a single number"
            )
        self.dtype = np.dtype(name)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        """Set the byte order; the rest of a state is for types of several numbers."""
        if state[1] in ("<", ">"):
            self.dtype = self.dtype.newbyteorder(state[1])


def read_number(kind: NumberType, data: bytes) -> float | int | bool:
    """Return the number for these bytes, in place of numpy's constructor."""
    if not isinstance(kind, NumberType) or not isinstance(data, bytes):
        raise UnpicklingError("it describes a number of numpy's in a way that cannot be followed")
    numbers = np.frombuffer(data, kind.dtype, count=1)
    value: float | int | bool = numbers[0].item()
    return value


# numpy renamed the module of its scalars.
NUMPY_NUMBERS = [
    (NumberType, "numpy.dtype"),
    (read_number, "numpy.core.multiarray.scalar"),
    (read_number, "numpy._core.multiarray.scalar"),
]
"""Types for torch's `safe_globals`."""
