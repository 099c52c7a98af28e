"""The table of trials, and the trials of any file, collected line by line and checked as a whole.

Invariant: in every format, a trial occurs once in its file; a repetition is reported with both of
its lines. In a table, it has a label of 0 or 1 and a value in every column, and a written table is
read back unchanged.

The columns are separated by TABs: `utterance`, `label` (1 bona fide, 0 spoof), then the columns of
the corpus, by which results are broken down.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.text import AnyPath
from asdf.trials.text_lines import NumberedLines, numbered_lines
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


HEADER = ("utterance", "label")


def is_trials_file(first_line: str) -> bool:
    """Whether a file that begins with this line is a table of trials."""
    return tuple(first_line.split("\t")[:2]) == HEADER


def read_trials(path: AnyPath) -> TrialList:
    """Read a table of trials, plain or gzipped.

    Raises:
        AsdfError: a row has too few or too many values, a label is not 0 or 1, or an utterance is
            repeated, with file and line; or the header is missing, or there are no trials.
    """
    # Strip only line ends, since a TAB at the end of a line is an empty last column.
    return parse_table(numbered_lines(path, strip="\r\n"), Path(path))


def parse_table(lines: NumberedLines, path: Path) -> TrialList:
    """Read the lines of a table; values at the end of a line may be empty.

    Raises:
        AsdfError: as in `read_trials`.
    """
    number, header = next(lines, (1, ""))
    names = header.split("\t")
    if not is_trials_file(header) or len(set(names)) < len(names):
        raise AsdfError(
            f"{path}, line {number}: a table of trials begins with the names of its columns, "
            f"separated by TABs: utterance, label, and others, each once; found '{header[:120]}'."
        )
    collector = TrialCollector(path, names[2:])
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(names) or values[1] not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: expected {len(names)} values separated by TABs, the "
                f"second one 1 (bona fide) or 0 (spoof), found '{line[:120]}'."
            )
        collector.add(number, values[0], int(values[1]), values[2:])
    return collector.trials()


def write_trials(path: AnyPath, trials: TrialList) -> None:
    """Write a table of trials atomically.

    Raises:
        ValueError: a value contains a TAB or a line break.
    """
    names = [*HEADER, *trials.columns]
    labels = [str(label) for label in trials.labels.tolist()]
    rows = zip(trials.ids, labels, *trials.columns.values(), strict=True)
    with atomic_write(path) as file:
        file.write("\t".join(names) + "\n")
        for values in rows:
            for value in values:
                if "\t" in value or "\n" in value or "\r" in value:
                    raise ValueError(f"a value of {values} contains a TAB or a line break")
            file.write("\t".join(values) + "\n")
