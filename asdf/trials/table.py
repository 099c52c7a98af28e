"""The table of trials: an utterance per row, with its label and what its corpus says of it.

Invariant: a trial is in the table once, with a label that is 0 or 1 and a value in every column; what
is written is read back the same.

The file has TABs between its columns: `utterance`, `label` (1 bona fide, 0 spoof), then the columns
of the corpus, which results are broken down by.
"""

from __future__ import annotations

import os

import numpy as np

from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.trials.lines import numbered_lines
from asdf.trials.trial_list import TrialList

HEADER = ("utterance", "label")


def is_trials_file(first_line: str) -> bool:
    """Whether a file that begins with this line is a table of trials."""
    return tuple(first_line.split("\t")[:2]) == HEADER


def read_trials(path: str | os.PathLike[str]) -> TrialList:
    """Read a table of trials, plain or gzipped.

    Raises:
        AsdfError: names file and line of a row with too few or too many values, a label other than 0 and 1, or a
            repeated utterance; or there is no header or no trial.
    """
    lines = numbered_lines(path, strip="\r\n")
    number, header = next(lines, (1, ""))
    names = header.split("\t")
    if not is_trials_file(header) or len(set(names)) < len(names):
        raise AsdfError(
            f"{path}, line {number}: a table of trials begins with the names of its columns, apart by TABs: "
            f"utterance, label, and others, none of them twice; found '{header[:120]}'."
        )
    columns: dict[str, list[str]] = {name: [] for name in names[2:]}
    labels: list[int] = []
    first: dict[str, int] = {}
    # One string for all cells that say the same: a cell of its own for each would take gigabytes.
    same: dict[str, str] = {}
    for number, line in lines:
        values = line.split("\t")
        if len(values) != len(names) or values[1] not in ("0", "1"):
            raise AsdfError(
                f"{path}, line {number}: expected {len(names)} values apart by TABs, the second one 1 (bona fide) or "
                f"0 (spoof), found '{line[:120]}'."
            )
        if first.setdefault(values[0], number) != number:
            raise AsdfError(
                f"{path}, line {number}: '{values[0]}' stands already in line {first[values[0]]}."
            )
        labels.append(int(values[1]))
        for column, value in zip(columns.values(), values[2:], strict=True):
            column.append(same.setdefault(value, value))
    if not first:
        raise AsdfError(f"{path}: no trial in it, only the names of the columns.")
    return TrialList(list(first), np.array(labels, np.int8), columns=columns)


def write_trials(path: str | os.PathLike[str], trials: TrialList) -> None:
    """Write a table of trials atomically.

    Raises:
        ValueError: a value holds a TAB or a line break, or a column has another number of values.
    """
    names = [*HEADER, *trials.columns]
    columns = [
        trials.ids,
        [str(label) for label in trials.labels.tolist()],
        *trials.columns.values(),
    ]
    with atomic_write(path) as file:
        file.write("\t".join(names) + "\n")
        for values in zip(*columns, strict=True):
            if any(character in value for value in values for character in "\t\n\r"):
                raise ValueError(f"a value of {values} holds a TAB or a line break")
            file.write("\t".join(values) + "\n")
