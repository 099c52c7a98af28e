"""Trial lists as arrays, which the processes of a machine can share.

Invariant: a list restored from its arrays equals the original: ids, labels, columns, origins and
references, in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from asdf.trials.packed_names import CodedColumn, Names
from asdf.trials.trial_list import TrialList

Arrays = dict[str, np.ndarray]

# A column whose distinct values exceed a quarter of its trials is stored as names.
_REPEATED = 4


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
