"""The spoofed parts that the files of a corpus state, as the column of its list of trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from asdf.errors import AsdfError
from asdf.segments import COLUMN, UNKNOWN, Timed, format_spoofed, parse_text
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

Columns = dict[str, list[str]]


def read_parts(
    tree: Tree, label_file: str, columns_of: Callable[[list[str]], Columns] = lambda names: {}
) -> tuple[TrialList, list[str]]:
    """Return the trials of a text of segments, with the column of their parts, and notes on them.

    Args:
        columns_of: Returns further columns from the names of all recordings.

    Raises:
        AsdfError: the file has no trial, or a line of it does not fit.
    """
    recordings = parse_text(tree.lines(label_file), tree.path(label_file))
    if not recordings:
        raise AsdfError(f"{tree.path(label_file)}: no trial in it. Was it copied whole?")
    names = list(recordings)
    labels = [int(not timed.spoofed) for timed in recordings.values()]
    trials = TrialList(names, np.array(labels, np.int8), columns=columns_of(names))
    return with_parts(trials, recordings, names, label_file)


def with_parts(
    trials: TrialList, recordings: Mapping[str, Timed], names: Sequence[str], source: str
) -> tuple[TrialList, list[str]]:
    """Return the trials with the column of spoofed parts, and notes on what does not agree.

    A spoof of which the files say nothing, or that no part of is spoofed, has the value '?':
    localisation refuses it, and detection does without.

    Args:
        recordings: Facts that the files state of a recording, by its name there.
        names: Name in the files of each trial.
        source: the file, as notes name it.
    """
    values = []
    unknown: list[str] = []
    contradicting: list[str] = []
    for name, label in zip(names, trials.labels.tolist(), strict=True):
        timed = recordings.get(name)
        if label == 1:
            values.append(format_spoofed(()))
            if timed is not None and timed.spoofed:
                contradicting.append(name)
        elif timed is None:
            values.append(UNKNOWN)
            unknown.append(name)
        elif not timed.spoofed:
            values.append(UNKNOWN)
            contradicting.append(name)
        else:
            values.append(format_spoofed(timed.spoofed))
    notes = []
    if unknown:
        notes.append(
            f"{source} says nothing of {len(unknown):,} spoofs, such as {unknown[0]}: they cannot "
            "be used for localisation"
        )
    if contradicting:
        notes.append(
            f"{source} contradicts the labels of {len(contradicting):,} trials, such as "
            f"{contradicting[0]}: the labels count"
        )
    return replace(trials, columns={**trials.columns, COLUMN: values}), notes
