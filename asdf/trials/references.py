"""References of trials: recordings that each trial's recording is compared with.

Invariant: the column `reference` of a list names one recording per trial, or several separated by
semicolons; names are resolved once, to paths relative to the folder of the trial's list. If a list
tests a recording against several references, all of its trials are named `RECORDING|REFERENCE`, as
written in the list, and no trial occurs twice. In a list that tests each recording once, trials
have the same names as without references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asdf.arrays import AnyIntegers
from asdf.errors import AsdfError
from asdf.text import AnyPath
from asdf.trials.packed_names import Names
from asdf.trials.text_lines import numbered_lines

REFERENCE = "reference"
"""Name of the column of references."""

PAIR = "|"
BETWEEN = ";"


@dataclass(frozen=True, eq=False)
class References:
    """The reference recordings of the trials of a list.

    Attributes:
        paths: Paths of each trial's references, relative to the folder of its list, separated by
            semicolons; '' for a trial without references.
        lines: Line number of each trial in its list, (trials,) uint32; 0 if unknown.
        ends: Number of characters of each trial's id after the path of its recording, (trials,)
            int32.
    """

    paths: Sequence[str]
    lines: npt.NDArray[np.uint32]
    ends: npt.NDArray[np.int32]

    @classmethod
    def without_lines(cls, words: Sequence[str]) -> References:
        """Return the references of a list of which only the column is known."""
        count = len(words)
        return cls(words, np.zeros(count, np.uint32), np.zeros(count, np.int32))

    def of(self, index: int) -> list[str]:
        """Return the paths of the references of a trial, relative to the folder of its list."""
        return split_words(self.paths[index])

    def select(self, indices: AnyIntegers) -> References:
        """Return the references of the trials at `indices`, in that order."""
        paths = [self.paths[index] for index in indices.tolist()]
        return References(paths, self.lines[indices], self.ends[indices])

    def packed(self) -> References:
        """Return the references in one block of memory; see `asdf.trials.packed_names`."""
        paths = self.paths if isinstance(self.paths, Names) else Names(self.paths)
        return References(paths, self.lines, self.ends)


def join_references(parts: Sequence[References | None], sizes: Sequence[int]) -> References:
    """Join the references of several lists, some of which may have none.

    Args:
        sizes: Number of trials of each list.
    """
    paths: list[str] = []
    lines = []
    ends = []
    for part, size in zip(parts, sizes, strict=True):
        known = part if part is not None else References.without_lines([""] * size)
        paths += known.paths
        lines.append(known.lines)
        ends.append(known.ends)
    return References(paths, np.concatenate(lines), np.concatenate(ends))


def split_words(words: str) -> list[str]:
    """Return the parts of a value between semicolons, stripped of blanks."""
    return [word.strip() for word in words.split(BETWEEN) if word.strip()]


def pair_name(recording: str, words: str) -> str:
    """Return the name of a trial from its recording and the list's name of the references."""
    suffix = PAIR + words
    # A table of trials written by a run already names pairs.
    return recording if recording.endswith(suffix) else recording + suffix


def read_models(path: AnyPath) -> dict[str, str]:
    """Read the recordings of enrolled models, 'MODEL RECORDING[,RECORDING ...]' per line.

    Recordings are paths separated by commas or blanks, as in the enrolment lists of ASVspoof; a
    path with a blank must follow a TAB, and then only commas separate.

    Returns:
        Paths of the recordings of each model, separated by semicolons, by the model's name.

    Raises:
        AsdfError: the file does not exist, or a model has no recordings, is enrolled twice or has a
            path with a semicolon, with file and line.
    """
    models: dict[str, str] = {}
    for number, line in numbered_lines(path):
        model, tab, rest = line.partition("\t")
        if not tab:
            model, _, rest = line.strip().partition(" ")
        pattern = r"," if tab else r"[,\s]+"
        recordings = [word.strip() for word in re.split(pattern, rest) if word.strip()]
        if not recordings or BETWEEN in rest:
            raise AsdfError(
                f"{path}, line {number}: {line[:120]!r} is not 'MODEL RECORDING,RECORDING'. Each "
                "line is the name of a model and the paths of its recordings, without semicolons."
            )
        if model in models:
            raise AsdfError(
                f"{path}, line {number}: the model {model!r} already has a line. Write all "
                "recordings of a model on one line."
            )
        models[model] = BETWEEN.join(recordings)
    if not models:
        raise AsdfError(f"{Path(path)}: no models found. Was it copied completely?")
    return models


def resolve_words(words: str, models: Mapping[str, str], recordings: Mapping[str, str]) -> str:
    """Return the paths for a value of the column, separated by semicolons.

    Args:
        models: Paths of the recordings of models, by the models' names.
        recordings: Paths of the list's recordings, by their other names.
    """
    paths = []
    for word in split_words(words):
        named = split_words(models[word]) if word in models else [word]
        paths += [recordings.get(name, name) for name in named]
    return BETWEEN.join(paths)
