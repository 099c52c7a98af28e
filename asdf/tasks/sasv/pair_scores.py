"""Scores of joint networks: SASV for lists whose trials name enrolment recordings.

Invariant: the lines of the list state the enrolment (`reference`) and the kind (`asv_label`:
target, nontarget or spoof) of each trial; the network's score of the pair is the SASV score. A kind
that contradicts the label of its trial is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.tasks.sasv.sasv_files import KEYS, TARGET, SasvScores, SasvTrials
from asdf.text import quoted_and_more
from asdf.trials.label_lines import is_csv_list
from asdf.trials.lists import read_list
from asdf.trials.references import REFERENCE
from asdf.trials.score_file import read_scores
from asdf.trials.table import is_trials_file
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import TrialList, bare_name

KIND = "asv_label"
"""Column of the kinds of trials."""

_SHOWN = 5


def is_pair_list(path: Path) -> bool:
    """Whether a file is a list of trials with columns for enrolments and kinds."""
    # TABs at the end of a line are kept, because they are empty columns.
    first, _ = peek(numbered_lines(path, strip="\r\n"))
    if not (is_trials_file(first) or is_csv_list(first)):
        return False
    cells = first.replace("\t", ",").split(",")
    return {REFERENCE, KIND} <= {cell.strip().lower() for cell in cells}


def read_pair_scores(path: Path, trials_path: Path) -> SasvScores:
    """Read the score file of a network that compares recordings, with kinds from the list.

    Args:
        path: ASDF score file of the list.
        trials_path: List of the trials, or the table of trials that a run writes next to its
            scores.

    Raises:
        AsdfError: the files are of other trials, or a kind is missing, unknown, or contradicts the
            label of its trial.
    """
    trials = read_list(trials_path, trials_path.parent)
    scores = read_scores(path)
    positions = {name: index for index, name in enumerate(scores.ids)}
    missing = [name for name in trials.ids if name not in positions]
    if missing or len(positions) != len(trials):
        raise AsdfError(
            f"{path} has {len(positions)} scores, and {trials_path} {len(trials)} trials, of "
            f"which {len(missing)} have no score{': ' if missing else ''}"
            f"{quoted_and_more(missing, _SHOWN)}. They must belong to the same list."
        )
    order = np.array([positions[name] for name in trials.ids], np.intp)
    kinds = _kinds(trials, trials_path)
    columns = {}
    for name, values in trials.columns.items():
        # These two become speaker and kind of the trials, not conditions.
        if name not in (REFERENCE, KIND):
            columns[name] = values
    speakers = trials.columns[REFERENCE]
    utterances = list(map(bare_name, trials.recordings()))
    return SasvScores(SasvTrials(speakers, utterances, kinds, columns), sasv=scores.scores[order])


def _kinds(trials: TrialList, path: Path) -> np.ndarray:
    kinds = []
    wrong = []
    for name, word, label in zip(trials.ids, _words(trials, path), trials.labels, strict=True):
        kind = KEYS[word]
        if (kind == TARGET) != (label == 1):
            wrong.append(f"{name} ({word}, label {label})")
        kinds.append(kind)
    if wrong:
        raise AsdfError(
            f"{path}: {KIND} and label of {len(wrong)} trials contradict each other, first: "
            f"{quoted_and_more(wrong, _SHOWN)}. Targets have the label 1, all others 0."
        )
    return np.array(kinds, np.int8)


def _words(trials: TrialList, path: Path) -> Sequence[str]:
    """Return the kinds in lower case, after checking that all are known and each occurs."""
    words = [word.strip().lower() for word in trials.columns.get(KIND, ())]
    unknown = sorted(set(words).difference(KEYS))
    stated = {KEYS[word] for word in words if word in KEYS}
    if unknown or len(stated) < 3:
        named = f"has {quoted_and_more(unknown, _SHOWN)}" if unknown else "lacks one of them"
        raise AsdfError(
            f"{path}: the column {KIND!r} says target, nontarget or spoof of each trial, and "
            f"{named}. The metrics need all three kinds."
        )
    return words
