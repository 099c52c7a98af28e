"""Trials and what a corpus says of each: the table that results by attack, codec or speaker are made from.

Invariant: a trial stands in it once, with a label that is 0 or 1 and a value in every column; what is written is read
back the same. Utterances are found by their id or by their bare name (`flac/LA_0001.flac` and `LA_0001` are the same
trial), since score files of others hold the bare names of the protocols; two trials of one bare name are found by
their whole ids only.

The file is a table with TABs: `utterance`, `label` (1 bona fide, 0 spoof), then the corpus's own columns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES
from asdf.runs.files import atomic_write
from asdf.trials.lines import numbered_lines

HEADER = ("utterance", "label")


@dataclass(frozen=True)
class Trials:
    """Trials of an evaluation set.

    Attributes:
        labels: 1 bona fide, 0 spoof.
        columns: 'speaker', 'attack' ('-' for bona fide), 'codec' ...: one value a trial, '' where it is not known.
    """

    ids: Sequence[str]
    labels: npt.NDArray[np.int64]
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)

    def index_of(self, utterance: str) -> int | None:
        """Return the index of the trial with this id, or else with this bare name, or None."""
        index = self._indices.get(utterance)
        if index is None:
            return self._indices.get(bare_name(utterance))
        return index

    @cached_property
    def _indices(self) -> dict[str, int]:
        """The index of each id, and of each bare name that a single trial has."""
        indices: dict[str, int] = {}
        ambiguous = set()
        for index, utterance in enumerate(self.ids):
            name = bare_name(utterance)
            if name in indices:
                ambiguous.add(name)
            indices[name] = index
        for name in ambiguous:
            del indices[name]
        # Whole ids come last: the id of one trial may be the bare name of another.
        for index, utterance in enumerate(self.ids):
            indices[utterance] = index
        return indices


def bare_name(utterance: str) -> str:
    """`LA_0001` of `flac/LA_0001.flac`; only the suffixes of recordings are taken off."""
    name = utterance.rsplit("/", 1)[-1]
    stem, suffix = os.path.splitext(name)  # noqa: PTH122 (three times as fast as a path, a million times over)
    return stem if suffix.lower() in AUDIO_SUFFIXES else name


def is_trials_file(first_line: str) -> bool:
    """Whether a file that begins with this line is a table of trials."""
    return tuple(first_line.split("\t")[:2]) == HEADER


def read_trials(path: str | os.PathLike[str]) -> Trials:
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
    return Trials(list(first), np.array(labels, np.int64), columns)


def write_trials(path: str | os.PathLike[str], trials: Trials) -> None:
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
