"""Sources of recordings: their classes, the probabilities of a network, and files of these.

Invariant: training and evaluation follow one rule. The class of a trial is its value in the column;
bona fide trials have no class, a class of their own, or the value of the column
(`source.bona_fide`). '' and '-' are not values. The probabilities are over the network's classes
alone and sum to 1: a recording of another source gets probabilities too, so low ones indicate an
unknown source. Each trial is in a file once, with finite numbers; the same scores give the same
bytes.

Columns are separated by TABs: `utterance`; the column of the classes, with the class of the trial
('-' if it has none or it is unknown); `energy`, the logarithm of the sum of the classes' odds; then
the natural logarithm of each class's probability, under the class names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError, UsageError
from asdf.runs.files import atomic_write
from asdf.scoring.columns import Request, ScoreColumn
from asdf.settings.sections import Source
from asdf.text import AnyPath, and_more, did_you_mean, quoted_and_more, read_number
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import TrialList, find_repeated_recordings

BONA_FIDE_CLASS = "bona fide"
"""Name of the class of bona fide trials, if they form a class."""

NO_CLASS = "-"
"""Value of a trial that has no class."""

BonaFideRule = Literal["left_out", "class", "by_column"]
BONA_FIDE_RULES = get_args(BonaFideRule)
_NO_VALUES = ("", NO_CLASS)
SUFFIX = ".sources.tsv"
"""Suffix of the file next to a score file, instead of its '.txt'."""
_BEFORE_CLASSES = 3  # utterance, class, energy
_SHOWN = 5
_SUM_TOLERANCE = 1e-3
"""Tolerance of the sum of a row's probabilities, for files with few digits."""
_ROUNDING = 1e-6
"""Tolerance of a log probability above 0."""


@dataclass(frozen=True)
class SourceClasses:
    """The classes of a network, or of an evaluation.

    Attributes:
        column: Column of trial lists with the classes.
        names: Names of the classes, in the order of a network's outputs.
        bona_fide: Class of the bona fide trials.
    """

    column: str
    names: tuple[str, ...]
    bona_fide: BonaFideRule = "left_out"


def classes_of_list(trials: TrialList, source: Source) -> SourceClasses:
    """Return the classes of a training list: from the settings, or else all its values, sorted.

    Raises:
        UsageError: the list lacks the column, or a class of the settings, or has fewer than two.
    """
    column = str(source.column)
    existing = sorted(set(values_of(trials, column, source.bona_fide)) - {NO_CLASS})
    # In the order of the settings, which is that of the network's outputs.
    names = source.classes
    if names is None:
        names = tuple(existing)
    missing = [name for name in names if name not in existing]
    if missing:
        raise UsageError(
            f"source.classes names {missing[0]!r}, but no trial of the training list has it in "
            f"the column {column}, which has {and_more(existing, 8)}."
            f"{did_you_mean(missing[0], existing)}"
        )
    if len(names) < 2:
        raise UsageError(
            f"source.column = {column!r}: the training list has {len(names)} class in it "
            f"({', '.join(names) or 'none'}), but two are needed. Choose another column, or set "
            "source.bona_fide = 'class' to make bona fide trials a class too."
        )
    return SourceClasses(column, tuple(names), source.bona_fide)


def classes_of_trials(trials: TrialList, classes: SourceClasses) -> np.ndarray:
    """Return the class index of each trial, (trials,) int64; -1 for a trial of none of them.

    Raises:
        UsageError: the list lacks the column.
    """
    indices = {name: index for index, name in enumerate(classes.names)}
    values = values_of(trials, classes.column, classes.bona_fide)
    return np.array([indices.get(value, -1) for value in values], np.int64)


def values_of(trials: TrialList, column: str, bona_fide: BonaFideRule) -> list[str]:
    """Return the class of each trial, known to the network or not; `NO_CLASS` for none.

    Raises:
        UsageError: the list lacks the column.
    """
    if column not in trials.columns:
        raise UsageError(
            f"source tracing needs the column {column!r} of {trials.name or 'the list'}, which has "
            f"{', '.join(trials.columns) or 'no columns'}. Set source.column to one of them."
        )
    values = []
    labels: Sequence[int] = trials.labels.tolist()
    for value, label in zip(trials.columns[column], labels, strict=True):
        if label == 1 and bona_fide != "by_column":
            values.append(BONA_FIDE_CLASS if bona_fide == "class" else NO_CLASS)
        else:
            values.append(NO_CLASS if value in _NO_VALUES else value)
    return values


@dataclass(frozen=True, eq=False)
class Sources:
    """The classes of sources with their probabilities for a recording.

    Attributes:
        column: Column of the training list with the classes: attack, vocoder, language ...
        log_probabilities: Natural logarithms of the probabilities, by class name.
        energy: Logarithm of the sum of the classes' odds: a low value indicates an unknown source
            (`asdf.tasks.tracing.source_measures`).
    """

    column: str
    log_probabilities: dict[str, float]
    energy: float

    @property
    def probabilities(self) -> dict[str, float]:
        """The probabilities by the names of the classes."""
        return {name: float(np.exp(value)) for name, value in self.log_probabilities.items()}

    @property
    def best(self) -> str:
        """The class with the highest probability; the first one of equal classes."""
        return max(self.log_probabilities, key=self.log_probabilities.__getitem__)


class SourceColumn(ScoreColumn):
    """The sources of a recording, if the network traces them."""

    key = "sources"
    cells = ("source", "source_probability")
    place = (10, 40)

    def __init__(self, column: str) -> None:
        self._column = column

    @classmethod
    def wanted(cls, request: Request) -> SourceColumn | None:
        classes = getattr(request.extras.get(cls.key), "classes", None)
        return None if classes is None else cls(classes.column)

    def heading(self) -> dict[str, Any]:
        return {"source_column": self._column}

    @classmethod
    def row(cls, value: Sources) -> tuple[Any, ...]:
        return value.best, value.probabilities[value.best]

    @classmethod
    def entry(cls, value: Sources) -> dict[str, Any]:
        return {"source": value.best, "sources": value.probabilities}

    @classmethod
    def words(cls, value: Sources) -> str:
        return f"{value.column} {value.best} ({value.probabilities[value.best]:.2f})"

    def saved(self, value: Sources) -> dict[str, Any]:
        return asdict(value)

    def restored(self, saved: Mapping[str, Any]) -> Sources:
        return Sources(**saved)


def name_sources(column: str, names: Sequence[str], logits_K: np.ndarray) -> Sources:
    """Return the sources of a recording from its logits, (classes,)."""
    exact = logits_K.astype(np.float64)
    # The exponential of a logit beyond 709 would overflow.
    energy = float(np.logaddexp.reduce(exact))
    logarithms = (exact - energy).tolist()
    return Sources(column, dict(zip(names, logarithms, strict=True)), energy)


@dataclass(frozen=True, eq=False)
class SourceScores:
    """Trials with a network's outputs on their sources.

    Attributes:
        column: Column of trial lists with the classes.
        classes: Classes that the network knows.
        truths: Class of each trial, known to the network or not; `NO_CLASS` for none.
        energies: Energies of the trials, (trials,) float64.
        log_probabilities: Natural-log probabilities, (trials, classes) float64.
    """

    ids: Sequence[str]
    column: str
    classes: tuple[str, ...]
    truths: Sequence[str]
    energies: Floats
    log_probabilities: Floats

    @classmethod
    def of_logits(
        cls,
        ids: Sequence[str],
        column: str,
        classes: tuple[str, ...],
        truths: Sequence[str],
        logits_NK: np.ndarray,
    ) -> SourceScores:
        """Return the scores from a network's logits, (trials, classes)."""
        exact = logits_NK.astype(np.float64)
        # The exponential of a logit beyond 709 would overflow.
        energies = np.logaddexp.reduce(exact, axis=1)
        return cls(ids, column, classes, truths, energies, exact - energies[:, None])

    def __len__(self) -> int:
        return len(self.ids)


def trace(trials: TrialList, classes: SourceClasses, logits_NK: np.ndarray) -> SourceScores:
    """Return the scores from a network's logits, (trials, classes), with the trials' classes.

    If the list lacks the column, all classes are unknown.
    """
    truths = [NO_CLASS] * len(trials)
    if classes.column in trials.columns:
        truths = values_of(trials, classes.column, classes.bona_fide)
    return SourceScores.of_logits(trials.ids, classes.column, classes.names, truths, logits_NK)


def sources_file(score_file: Path) -> Path:
    """Return the path of the file of sources that belongs to a score file NAME.txt."""
    return score_file.with_name(score_file.stem + SUFFIX)


def write_source_scores(path: AnyPath, scores: SourceScores) -> None:
    """Write the file atomically; numbers are float32, in the shortest exact form.

    Raises:
        AsdfError: a number is not finite; an existing file is unchanged.
        ValueError: a name contains a TAB or a line break.
    """
    numbers = np.column_stack([scores.energies, scores.log_probabilities]).astype(np.float32)
    broken = np.flatnonzero(~np.isfinite(numbers).all(axis=1))
    if len(broken):
        names = [scores.ids[index] for index in broken.tolist()]
        raise AsdfError(
            f"cannot write {Path(path)}: {len(names)} of {len(scores)} utterances got numbers that "
            f"are not finite: {quoted_and_more(names, _SHOWN)}. Score in fp32, with a network that "
            "did not diverge."
        )
    header = ["utterance", scores.column, "energy", *scores.classes]
    with atomic_write(path) as file:
        file.write(_line(header))
        for utterance, truth, row in zip(scores.ids, scores.truths, numbers, strict=True):
            # The text of a float32 is the shortest one that is read as this float32.
            file.write(_line([utterance, truth, *map(str, row)]))


def _line(cells: Sequence[str]) -> str:
    for cell in cells:
        if "\t" in cell or "\n" in cell or "\r" in cell:
            raise ValueError(f"{cell!r} holds a TAB or a line break")
    return "\t".join(cells) + "\n"


def read_source_scores(path: AnyPath) -> SourceScores:
    """Read a file of traced sources, plain or gzipped.

    Raises:
        AsdfError: a row has too few or too many values, a value that is not a finite number, or
            probabilities that do not sum to 1 (the message names file and line); or the header
            differs, there is no trial, or a trial is repeated.
    """
    lines = numbered_lines(path, strip="\r\n")
    header = next(lines, (1, ""))[1].split("\t")
    if len(header) < _BEFORE_CLASSES + 2 or header[0] != "utterance" or header[2] != "energy":
        raise AsdfError(
            f"{path}: a file of traced sources begins with the names of its columns, with TABs "
            "between them: utterance, the column of the classes, energy, and two classes or more. "
            "Stage 2 of a run with source.column writes it as scores/NETWORK/SET.sources.tsv."
        )
    ids = []
    truths = []
    rows = []
    for number, line in lines:
        cells = line.split("\t")
        try:
            row = np.array(list(map(read_number, cells[2:])))
        except ValueError:
            # Refused below, like a number that is not finite.
            row = np.array([np.nan])
        if len(cells) != len(header) or not np.isfinite(row).all():
            raise AsdfError(
                f"{path}, line {number}: expected {len(header)} values with TABs between them, "
                "finite numbers from the third on."
            )
        highest, total = row[1:].max(), float(np.exp(row[1:]).sum())
        if highest > _ROUNDING or abs(total - 1) > _SUM_TOLERANCE:
            raise AsdfError(
                f"{path}, line {number}: the columns from the fourth on hold logarithms of "
                "probabilities, which are at most 0 and whose probabilities sum to 1; here the "
                f"highest is {highest:.6g}, and the sum {total:.6g}. Was the line cut or edited? "
                "Score the set again."
            )
        ids.append(cells[0])
        truths.append(cells[1] or NO_CLASS)
        rows.append(row)
    if not ids:
        raise AsdfError(f"{path}: no trial in it. Was the scoring interrupted?")
    # In one spelling, since 'a//b' and 'a/b' are one recording.
    repeats = find_repeated_recordings(ids)
    if repeats:
        raise AsdfError(f"{path}: {ids[repeats[0][0]]!r} is in it twice.")
    numbers = np.array(rows, np.float64)
    classes = tuple(header[_BEFORE_CLASSES:])
    return SourceScores(ids, header[1], classes, truths, numbers[:, 0], numbers[:, 1:])
