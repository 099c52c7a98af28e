"""Files of traced sources: a row per trial with its class and log probabilities.

Invariant: each trial is in the file once, with finite numbers; the same scores give the same bytes.

Columns are separated by TABs: `utterance`; the column of the classes, with the class of the trial
('-' if it has none or it is unknown); `energy`, the logarithm of the sum of the classes' odds; then
the natural logarithm of each class's probability, under the class names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.arrays import Floats
from asdf.errors import AsdfError
from asdf.runs.files import atomic_write
from asdf.tasks.tracing.classes import NO_CLASS, SourceClasses, values_of
from asdf.text import AnyPath, quoted_and_more, read_number
from asdf.trials.text_lines import numbered_lines
from asdf.trials.trial_list import TrialList, find_repeats, same_recording

SUFFIX = ".sources.tsv"
"""Suffix of the file next to a score file, instead of its '.txt'."""

_BEFORE_CLASSES = 3  # utterance, class, energy
_SHOWN = 5

_SUM_TOLERANCE = 1e-3
"""Tolerance of the sum of a row's probabilities, for files with few digits."""

_ROUNDING = 1e-6
"""Tolerance of a log probability above 0."""


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
        ids.append(cells[0])
        rows.append(_parse_row(cells, len(header), f"{path}, line {number}"))
        truths.append(cells[1] or NO_CLASS)
    if not ids:
        raise AsdfError(f"{path}: no trial in it. Was the scoring interrupted?")
    # In one spelling, since 'a//b' and 'a/b' are one recording.
    repeats = find_repeats([same_recording(utterance) for utterance in ids])
    if repeats is not None:
        raise AsdfError(f"{path}: {ids[repeats.indices[0]]!r} is in it twice.")
    numbers = np.array(rows, np.float64)
    classes = tuple(header[_BEFORE_CLASSES:])
    return SourceScores(ids, header[1], classes, truths, numbers[:, 0], numbers[:, 1:])


def _parse_row(cells: Sequence[str], columns: int, where: str) -> Floats:
    """Return the numbers of a row: its energy, then the log probabilities."""
    try:
        row = np.array([read_number(cell) for cell in cells[2:]])
    except ValueError:
        # Refused below, like a number that is not finite.
        row = np.array([np.nan])
    if len(cells) != columns or not np.isfinite(row).all():
        raise AsdfError(
            f"{where}: expected {columns} values with TABs between them, finite numbers from the "
            "third on."
        )
    log_probabilities = row[1:]
    total = float(np.exp(log_probabilities).sum())
    if log_probabilities.max() > _ROUNDING or abs(total - 1) > _SUM_TOLERANCE:
        raise AsdfError(
            f"{where}: the columns from the fourth on hold logarithms of probabilities, which are "
            "at most 0 and whose probabilities sum to 1; here the highest is "
            f"{log_probabilities.max():.6g}, and the sum {total:.6g}. Was the line cut or edited? "
            "Score the set again."
        )
    return row
