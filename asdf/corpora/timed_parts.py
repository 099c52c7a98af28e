"""The spoofed parts that the files of a corpus state, as the column of its list of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from asdf.segments import COLUMN, UNKNOWN, Timed, format_spoofed
from asdf.trials.trial_list import TrialList


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
