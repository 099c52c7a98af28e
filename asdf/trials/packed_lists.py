"""Trial lists as arrays, which the processes of a machine can share.

Invariant: a list restored from its arrays equals the original: ids, labels, columns, origins and
references, in order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, overload

import numpy as np

from asdf.arrays import AnyIntegers
from asdf.trials.packed_names import Names
from asdf.trials.trial_list import TrialList

Arrays = dict[str, np.ndarray]

# A column whose distinct values exceed a quarter of its trials is stored as names.
_REPEATED = 4


class CodedColumn(Sequence[str]):
    """A column stored as the index of each value in a list of distinct values."""

    # It equals a list of the same values, and lists are not hashable.
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, values: Sequence[str], codes: AnyIntegers) -> None:
        self._values = values
        self._codes = codes

    def __len__(self) -> int:
        return len(self._codes)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._values[code] for code in self._codes[index].tolist()]
        return self._values[int(self._codes[index])]

    def __iter__(self) -> Iterator[str]:
        return map(self._values.__getitem__, self._codes.tolist())

    def __eq__(self, other: object) -> bool:
        """Whether `other` is a sequence of the same strings, such as a list of them."""
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(mine == theirs for mine, theirs in zip(self, other, strict=True))


@dataclass(frozen=True)
class ListRest:
    """The content of a packed list besides its arrays.

    Attributes:
        frame: List without trials that holds its name, folder and origins.
        values: Distinct values of each column; None for a column of names.
    """

    frame: TrialList
    values: Mapping[str, Sequence[str] | None]


def pack_list(trials: TrialList, **further: np.ndarray) -> tuple[Arrays, ListRest]:
    """Return a list as arrays, including `further` ones, and its remaining small content."""
    arrays: Arrays = {**further, "labels": trials.labels}
    _add_names(arrays, "ids", trials.ids)
    values: dict[str, Sequence[str] | None] = {}
    for number, (name, column) in enumerate(trials.columns.items()):
        numbers = {value: code for code, value in enumerate(dict.fromkeys(column))}
        if len(numbers) * _REPEATED > len(trials):
            values[name] = None
            _add_names(arrays, f"column {number}", column)
            continue
        values[name] = list(numbers)
        codes = map(numbers.__getitem__, column)
        # A byte per trial for most columns, which have few distinct values.
        smallest = np.min_scalar_type(len(numbers))
        arrays[f"column {number}"] = np.fromiter(codes, smallest, len(trials))
    if trials.origin is not None:
        arrays["origin"] = trials.origin
    none = trials.select(np.empty(0, np.int64))
    frame = replace(none, columns={}, origin=None)
    return arrays, ListRest(frame, values)


def unpack_list(arrays: Mapping[str, np.ndarray], rest: ListRest) -> TrialList:
    """Return the list that `pack_list` packed."""
    columns: dict[str, Sequence[str]] = {}
    for number, (name, values) in enumerate(rest.values.items()):
        if values is None:
            columns[name] = _names_of(arrays, f"column {number}")
        else:
            columns[name] = CodedColumn(values, arrays[f"column {number}"])
    further: dict[str, Any] = {"columns": columns}
    for name in ("name", "folder", "origins"):
        further[name] = getattr(rest.frame, name)
    ids = _names_of(arrays, "ids")
    return TrialList(ids, arrays["labels"], origin=arrays.get("origin"), **further)


def _add_names(arrays: Arrays, name: str, names: Sequence[str]) -> None:
    packed = names if isinstance(names, Names) else Names(names)
    arrays[name] = packed.block
    arrays[f"{name}.ends"] = packed.ends


def _names_of(arrays: Mapping[str, np.ndarray], name: str) -> Names:
    return Names.of_arrays(arrays[name], arrays[f"{name}.ends"])
