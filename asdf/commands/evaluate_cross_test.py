"""`evaluate --cross-test`: the files of one system, each set of spoofs against genuine sets.

Invariant: the files are parts of one system's scores. With a protocol they are joined before they
are matched with it, so that each part may hold some of its trials; without one, each file has its
labels, and may hold one class alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.judged_files import Protocol, System
from asdf.errors import UsageError
from asdf.metrics.summary import known_columns
from asdf.tables.table import each
from asdf.trials.formats import ScoreFile, read_score_file
from asdf.trials.matching import match_file
from asdf.trials.score_file import Scores

if TYPE_CHECKING:
    from asdf.metrics.summary import Progress
    from asdf.tasks.cross_testing.cross_test import CrossTest
    from asdf.trials.trial_list import TrialList

FILE = "file"
"""Name of the column that says which score file a trial is in."""


def read_cross_test(text: str) -> tuple[str, str]:
    """Return the columns of spoofs and of genuine speech that --cross-test names.

    Raises:
        UsageError: there are not two.
    """
    names = [word.strip() for word in text.split(",")]
    if len(names) != 2 or not all(names):
        raise UsageError(
            f"--cross-test {text}: name two columns, that of spoofs and that of genuine speech, "
            f"such as attack,{FILE}; `{FILE}` is the score file."
        )
    return names[0], names[1]


def cross_test_files(
    systems: Sequence[System],
    protocol: Protocol,
    by: tuple[str, str],
    *,
    ignore_others: bool,
    replicates: int,
    progress: Progress,
) -> CrossTest:
    """Read the files and compare their sets.

    Raises:
        UsageError: the trials have no such column.
        AsdfError: a file cannot be read or does not fit the protocol, or there is one set alone.
    """
    from asdf.tasks.cross_testing.cross_test import cross_test

    scores, files = _read(systems, protocol, ignore_others)
    columns = dict(known_columns("the score files", scores, protocol.trials))
    columns[FILE] = files
    unknown = sorted(set(by) - set(columns))
    if unknown:
        more = "." if protocol.trials else "; a label file (--protocol) has more."
        raise UsageError(
            f"--cross-test {','.join(by)}: no column {', '.join(unknown)}. There is "
            f"{', '.join(sorted(columns))}{more}"
        )
    return cross_test(scores, columns, by, replicates=replicates, progress=progress)


def _read(
    systems: Sequence[System],
    protocol: Protocol,
    ignore_others: bool,
) -> tuple[Scores, list[str]]:
    """Return the scores of all files, and the name of the file of each."""
    trials = protocol.trials
    parts = []
    names: list[str] = []
    for system in systems:
        if trials is None:
            scores = read_score_file(system.path).labelled(system.path, both_classes=False)
            parts.append(ScoreFile(scores.ids, scores.scores, scores.labels, scores.attacks))
        else:
            # The first line, which the format is known by, may be of another subset.
            known = partial(_is_trial, protocol.whole or trials)
            parts.append(read_score_file(system.path, known))
        names += [system.name] * len(parts[-1].ids)
    joined = _join(parts)
    if trials is None:
        columns = {} if joined.attacks is None else {"attack": joined.attacks}
        assert joined.labels is not None
        return Scores(joined.ids, joined.labels, joined.scores, columns=columns), names
    where = ", ".join(str(system.path) for system in systems)
    matched = match_file(where, joined, trials, protocol.whole, ignore_others).scores
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
        # A file without attacks has trials of no known attack.
        attacks += part.attacks or [""] * len(part.ids)
    return ScoreFile(
        ids,
        np.concatenate(each(parts, "scores")),
        np.concatenate(labels) if len(labels) == len(parts) else None,
        attacks if any(attacks) else None,
    )
