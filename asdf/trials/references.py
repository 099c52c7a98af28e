"""References of trials: recordings that the recording of each trial is compared with.

Invariant: the column `reference` of a list names one recording of each trial, or several with
semicolons between them; what it names is resolved once, to paths relative to the folder of the
trial's list. A list may test a recording against several references: then all of its trials are
named `RECORDING|REFERENCE`, as the list has both, and no trial occurs twice. A list that tests each
recording once has the names that it would have without references.
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
"""Column of the references of trials."""

PAIR = "|"
BETWEEN = ";"


@dataclass(frozen=True, eq=False)
class References:
    """The reference recordings of the trials of a list.

    Attributes:
        paths: Paths of each trial's references, relative to the folder of its list, with semicolons
            between them; '' for a trial without any.
        lines: (trials,) uint32, the number of each trial's line in its list; 0 where not known.
        ends: (trials,) int32, the number of characters of each trial's id behind the path of its
            recording.
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
        """Return those of the trials at `indices`, in that order."""
        paths = [self.paths[index] for index in indices.tolist()]
        return References(paths, self.lines[indices], self.ends[indices])

    def packed(self) -> References:
        """Return the same in one block of memory; see `asdf.trials.packed_names`."""
        paths = self.paths if isinstance(self.paths, Names) else Names(self.paths)
        return References(paths, self.lines, self.ends)


def join_references(parts: Sequence[References | None], sizes: Sequence[int]) -> References:
    """Join those of several lists, of which some may have none.

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
    """Return what stands between the semicolons of a value, without blanks around it."""
    return [word.strip() for word in words.split(BETWEEN) if word.strip()]


def pair_name(recording: str, words: str) -> str:
    """Return the name of the trial of a recording and what its list calls the references."""
    suffix = PAIR + words
    # A table of trials that was written by a run has the names of pairs already.
    return recording if recording.endswith(suffix) else recording + suffix


def read_models(path: AnyPath) -> dict[str, str]:
    """Read the recordings of enrolled models, 'MODEL RECORDING[,RECORDING ...]' per line.

    Recordings are paths, with commas or blanks between them, as in the enrolment lists of ASVspoof;
    a path that has a blank stands after a TAB, and commas separate then.

    Returns:
        Paths of the recordings of each model, with semicolons between them, by the model's name.

    Raises:
        AsdfError: no such file, or names the file and the line of a model without recordings, one
            that is enrolled twice, or a path with a semicolon.
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
                f"{path}, line {number}: the model {model!r} has an earlier line. Write all "
                "recordings of a model into one line."
            )
        models[model] = BETWEEN.join(recordings)
    if not models:
        raise AsdfError(f"{Path(path)}: no model in it. Was it copied whole?")
    return models


def resolve_words(words: str, models: Mapping[str, str], recordings: Mapping[str, str]) -> str:
    """Return the paths of what a value of the column names, with semicolons between them.

    Args:
        models: Paths of the recordings of models, by the models' names.
        recordings: Paths of the recordings of the list, by whatever else they are called.
    """
    paths = []
    for word in split_words(words):
        named = split_words(models[word]) if word in models else [word]
        paths += [recordings.get(name, name) for name in named]
    return BETWEEN.join(paths)
