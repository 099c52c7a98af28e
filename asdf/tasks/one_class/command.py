"""`evaluate` for sets of one class: recall or false alarms at a threshold from other trials.

Invariant: without such a threshold there is no result: an EER needs both classes, and a threshold
from the set itself would be chosen on the trials that it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.arrays import Floats
from asdf.commands.judged_files import Judged, Protocol, System, ThresholdOptions
from asdf.commands.outputs import input_name
from asdf.errors import AsdfError, UsageError
from asdf.metrics.results import joined_columns
from asdf.metrics.summary import known_columns
from asdf.runs.files import write_text
from asdf.runs.streams import show_error
from asdf.text import quoted_and_more, read_number
from asdf.trials.score_file import Scores, missing_class

if TYPE_CHECKING:
    from asdf.tasks.one_class.one_class import OneClassSet

_DURATIONS = ("duration", "seconds", "duration_s", "length_s", "dur")
_SHOWN = 5
NO_THRESHOLD = (
    "An EER needs both classes: if the set should have them, check the labels of the scored list "
    "or of the protocol. For one class, recall or false alarms need a threshold from other trials: "
    "--threshold-from SCORES (a set with both classes, scored by the same network), --threshold-of "
    "NETWORK (if it is calibrated), or --threshold X."
)
"""Advice for a set of one class."""


def check_one_class_systems(
    args: ThresholdOptions,
    systems: Sequence[System],
    scored: Sequence[Scores],
) -> None:
    """Check that either all systems have one class, with a threshold, or none has.

    Raises:
        AsdfError: a set has one class and there is no threshold, or others have both classes.
    """
    has_threshold = args.threshold is not None or args.decisions
    has_threshold |= bool(args.threshold_from or args.threshold_of)
    missing = [missing_class(scores.labels) for scores in scored]
    for system, scores, lacking in zip(systems, scored, missing, strict=True):
        if lacking and not has_threshold:
            raise AsdfError(
                f"{input_name(system.path)}: none of the {len(scores)} trials is {lacking}. "
                f"{NO_THRESHOLD}"
            )
        if not lacking and any(missing):
            raise AsdfError(
                f"{system.name} has trials of both classes, but other files have only one class. "
                "Evaluate it in a separate command."
            )


def check_one_class_options(others: Mapping[str, object]) -> None:
    """Refuse options that need both classes.

    Args:
        others: Values of these options, by name.

    Raises:
        UsageError: such an option is given.
    """
    named = [name for name, value in others.items() if value]
    if named:
        raise UsageError(
            f"{', '.join(named)}: trials of both classes are needed, but the scores are of one "
            "class. Leave these options out."
        )


def decide_systems(
    systems: Sequence[System],
    judged: Sequence[Judged],
    protocol: Protocol,
    by: Sequence[str],
    audio: Path | None,
) -> list[OneClassSet]:
    """Decide the trials of systems with scores of one class.

    Args:
        by: Columns by which they are broken down.
        audio: Folder of the recordings, whose headers state their lengths; None: a column may.

    Raises:
        AsdfError: a recording's duration cannot be read.
    """
    from asdf.tasks.one_class.one_class import decide_one_class

    sets = []
    for system, (scores, threshold) in zip(systems, judged, strict=True):
        assert threshold is not None  # it was looked for before
        known = known_columns(system.name, scores, protocol.trials)
        seconds = _seconds(audio, scores, known)
        columns = dict(joined_columns(known, by))
        chosen = {name: columns[name] for name in by if name in columns}
        sets.append(decide_one_class(system.name, scores, threshold, chosen, seconds))
    return sets


def one_class_outputs(
    sets: Sequence[OneClassSet],
    json: Path | None,
    csv: Path | None,
    latex: Path | None,
) -> list[tuple[Path | None, Callable[[Path], None]]]:
    """Return the requested files, each with its writing function."""
    from asdf.tasks.one_class import one_class_tables as tables

    return [
        (json, lambda path: write_text(path, tables.one_class_json(sets))),
        (csv, lambda path: write_text(path, tables.one_class_csv(sets))),
        (latex, lambda path: write_text(path, tables.one_class_latex(sets))),
    ]


def one_class_texts(sets: Sequence[OneClassSet]) -> str:
    """Return the results of all sets, separated by lines."""
    from asdf.tasks.one_class.one_class_tables import one_class_text

    return "\n\n".join(map(one_class_text, sets))


def _seconds(
    folder: Path | None,
    scores: Scores,
    columns: Mapping[str, Sequence[str]],
) -> Floats | None:
    """Return the length of each recording from its header or a column; None if unknown.

    Raises:
        AsdfError: a recording cannot be read, or a value is not a number of seconds.
    """
    if folder is not None:
        from asdf.corpora import durations_s

        seconds, problems = durations_s([folder / name for name in scores.ids])
        if problems:
            raise AsdfError(
                f"--audio {folder}: {len(problems)} of {len(scores)} recordings cannot be read: "
                f"{quoted_and_more(problems, _SHOWN)}. Check that it is the folder of this set."
            )
        return seconds
    for name in _DURATIONS:
        if name in columns:
            return _numbers(name, columns[name])
    return None


def _numbers(
    name: str,
    values: Sequence[str],
) -> Floats | None:
    numbers = []
    for value in values:
        try:
            number = read_number(value)
        except ValueError:
            # Refused below, like a number that is not positive.
            number = -1.0
        if not 0 < number < np.inf:
            show_error(f"warning: the column {name} contains {value!r}, so durations are not used.")
            return None
        numbers.append(number)
    return np.array(numbers)
