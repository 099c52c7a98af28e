"""The scores of one system from several files.

Invariant: with a protocol, the files are joined before they are matched with it, so each file may
hold some of its trials; without one, each file has its own labels and may hold a single class.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from asdf.tables.table import each
from asdf.trials.formats import ScoreFile, read_score_file
from asdf.trials.matching import match_file
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import TrialList


def read_parts(
    files: Mapping[str, Path],
    trials: TrialList | None = None,
    whole: TrialList | None = None,
    *,
    ignore_others: bool = False,
) -> tuple[Scores, list[str]]:
    """Return the scores of all files, and the name of the file of each.

    Args:
        files: Path of each file, by its name.
        trials: Trials of the protocol that are evaluated; None without a protocol.
        whole: All trials of the protocol.
        ignore_others: Whether scored trials that are not in the protocol are left out.

    Raises:
        AsdfError: a file cannot be read or does not fit the protocol.
    """
    parts = []
    names: list[str] = []
    for name, path in files.items():
        if trials is None:
            scores = read_score_file(path).labelled(path, both_classes=False)
            parts.append(ScoreFile(scores.ids, scores.scores, scores.labels, scores.attacks))
        else:
            # The first line, from which the format is detected, may belong to another subset.
            known = partial(_is_trial, whole or trials)
            parts.append(read_score_file(path, known))
        names += [name] * len(parts[-1].ids)
    joined = _join(parts)
    if trials is None:
        columns = {} if joined.attacks is None else {"attack": joined.attacks}
        # `labelled` has refused every file without labels.
        assert joined.labels is not None
        return Scores(joined.ids, joined.labels, joined.scores, columns=columns), names
    where = ", ".join(map(str, files.values()))
    matched = match_file(where, joined, trials, whole, ignore_others).scores
    # By id, since trials outside the protocol may have been left out.
    of_trial = dict(zip(joined.ids, names, strict=True))
    return matched, [of_trial[utterance] for utterance in matched.ids]


def _is_trial(
    trials: TrialList,
    utterance: str,
) -> bool:
    return trials.index_of(utterance) is not None


def _join(parts: Sequence[ScoreFile]) -> ScoreFile:
    ids: list[str] = []
    labels = []
    attacks: list[str] = []
    for part in parts:
        ids += part.ids
        if part.labels is not None:
            labels.append(part.labels)
        # A file without attacks has trials whose attack is unknown.
        attacks += part.attacks or [""] * len(part.ids)
    return ScoreFile(
        ids,
        np.concatenate(each(parts, "scores")),
        # Labels of some of the files would not line up with the ids of all.
        np.concatenate(labels) if len(labels) == len(parts) else None,
        attacks if any(attacks) else None,
    )
