"""Trials read line by line from a list, protocol or table, and checked as a whole.

Invariant: in every format, a trial occurs once in its file; a repetition is reported with both of
its lines.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.trials.trial_list import Repeats, TrialList, find_repeats, same_recording


class TrialCollector:
    """The trials of a file, added in the order of its lines.

    Args:
        path: Path of the file, for messages.
        columns: Names of the columns whose values are added with each trial.
    """

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self._path = path
        # As Python integers, line numbers of a million trials would take nine times the memory.
        self._lines = array("I")
        self._ids: list[str] = []
        self._labels = array("b")
        self._columns: dict[str, list[str]] = {name: [] for name in columns}
        # Equal values share one string, since a string for each would take gigabytes.
        self._shared: dict[str, str] = {}

    def add(self, line: int, utterance: str, label: int, values: Sequence[str] = ()) -> None:
        """Add the trial of a line, with a value for each column."""
        self._lines.append(line)
        self._ids.append(utterance)
        self._labels.append(label)
        if not self._columns:
            return
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(self._shared.setdefault(value, value))

    def trials(self) -> TrialList:
        """Return all trials.

        Raises:
            AsdfError: there is none, or one is repeated, maybe in another spelling of its path.
        """
        if not self._ids:
            raise AsdfError(f"{self._path}: no trials found. Was it copied completely?")
        # Paths that differ only in spelling are the same recording, which would count twice.
        repeats = find_repeats([same_recording(utterance) for utterance in self._ids])
        if repeats is not None:
            raise AsdfError(self._describe(repeats))
        labels = np.array(self._labels, np.int8)
        return TrialList(self._ids, labels, columns=self._columns)

    def _describe(self, repeats: Repeats) -> str:
        index = repeats.indices[0]
        earlier = repeats.earlier[0]
        spelling = ""
        if self._ids[earlier] != self._ids[index]:
            spelling = f" as {self._ids[earlier]!r}"
        count = "1 line repeats an utterance"
        if len(repeats.indices) > 1:
            count = f"{len(repeats.indices)} lines repeat an utterance"
        contradiction = ""
        pairs = zip(repeats.indices, repeats.earlier, strict=True)
        if any(self._labels[index] != self._labels[earlier] for index, earlier in pairs):
            contradiction = " Some of them have both labels, one of which is wrong."
        return (
            f"{self._path}, line {self._lines[index]}: {self._ids[index]!r} is already in line "
            f"{self._lines[earlier]}{spelling} ({count}). Every trial counts once: remove the "
            f"repeated lines.{contradiction}"
        )
