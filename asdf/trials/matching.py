"""Scored trials matched with the trials of a protocol.

Invariant: every score that is used has its trial in the protocol, every trial of the protocol has
one score, and where both name a trial's class they agree; so every column of the protocol holds for
the scores.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.text import quoted_and_more
from asdf.trials.formats import read_keyed_scores, read_two_columns, score_format
from asdf.trials.score_file import Scores, missing_class, read_scores
from asdf.trials.trial_list import Labels, TrialList

_SHOWN = 5
Indices = npt.NDArray[np.intp]


@dataclass(frozen=True)
class _ScoreFile:
    """What a score file of any format says; labels and attacks are None where it has none."""

    ids: Sequence[str]
    scores: npt.NDArray[np.float64]
    labels: Labels | None = None
    attacks: Sequence[str] | None = None


def read_matched(
    path: str | os.PathLike[str],
    trials: TrialList,
    *,
    whole: TrialList | None = None,
    ignore_others: bool = False,
) -> tuple[Scores, int]:
    """Read a score file of any format, with the labels of `trials`.

    Args:
        whole: trials of the same corpus that may have scores and are left out, such as those of
            other subsets.
        ignore_others: leave out every other scored utterance instead of refusing the file.

    Returns:
        The scores in the order of the file, and the number of scored utterances left out.

    Raises:
        AsdfError: as `read_scores`; or trials of the protocol have no score, scored ones are not in
            it or are the same trial, or the labels differ. The message counts them and names the
            first ones.
    """
    file = _read_any(path, whole or trials)
    indices = _match(file.ids, trials)
    used = np.flatnonzero(indices >= 0)
    chosen = used.tolist()
    if used.size < len(file.ids) and not ignore_others:
        _refuse_others(path, file.ids, indices, whole)
    ids = [file.ids[i] for i in chosen]
    _refuse_missing(path, indices[used], trials)
    _refuse_repeated(str(path), ids, indices[used], trials)
    labels = trials.labels[indices[used]]
    if file.labels is not None:
        _compare_labels(str(path), ids, file.labels[used], labels)
    missing = missing_class(labels)
    if missing:
        raise AsdfError(
            f"{path}: not one of the {len(ids)} trials is {missing}. Error rates need both classes."
        )
    columns = {}
    if file.attacks:
        columns["attack"] = [file.attacks[i] for i in chosen]
    return Scores(ids, labels, file.scores[used], columns=columns), len(file.ids) - len(ids)


def columns_of(name: str, scores: Scores, trials: TrialList) -> dict[str, Sequence[str]]:
    """Return each column of `trials`, in the order of `scores`.

    Raises:
        AsdfError: a scored trial is not among `trials`, is labelled otherwise there, or is scored
            twice; the message begins with `name`.
    """
    indices = _match(scores.ids, trials)
    others = [scores.ids[i] for i in np.flatnonzero(indices < 0).tolist()]
    if others:
        raise AsdfError(
            f"{name}: {len(others)} of {len(scores)} scored trials are not in the protocol: "
            f"{quoted_and_more(others, _SHOWN)}."
        )
    _refuse_repeated(name, scores.ids, indices, trials)
    _compare_labels(name, scores.ids, scores.labels, trials.labels[indices])
    columns: dict[str, Sequence[str]] = {}
    for column, values in trials.columns.items():
        columns[column] = [values[index] for index in indices.tolist()]
    return columns


def _read_any(path: str | os.PathLike[str], known: TrialList) -> _ScoreFile:
    """Read a file in the format of its first line; `known` decides where that is ambiguous."""
    kind, _ = score_format(path, lambda utterance: known.index_of(utterance) is not None)
    if kind == "two columns":
        return _ScoreFile(*read_two_columns(path))
    read = read_scores if kind == "asdf" else read_keyed_scores
    scores = read(path, both_classes=False)
    return _ScoreFile(scores.ids, scores.scores, scores.labels, scores.attacks)


def _match(ids: Sequence[str], trials: TrialList) -> Indices:
    """Return the index in `trials` of each utterance; -1 where there is none."""
    # Most files have the protocol's own names, and bare names of a million trials take seconds.
    exact = {utterance: index for index, utterance in enumerate(trials.ids)}
    scored = set(ids)

    def index_of(utterance: str) -> int:
        if utterance in exact:
            return exact[utterance]
        index = trials.index_of(utterance)
        if index is None:
            return -1
        # `x/a.flac` is scored itself, so `y/a.flac` is another recording, such as one of another
        # subset.
        whole_name = trials.ids[index]
        if "/" in whole_name and "/" in utterance and whole_name in scored:
            return -1
        return index

    return np.array([index_of(utterance) for utterance in ids], np.intp)


def _refuse_others(
    path: str | os.PathLike[str], ids: Sequence[str], indices: Indices, whole: TrialList | None
) -> None:
    others = [ids[i] for i in np.flatnonzero(indices < 0).tolist()]
    if whole is not None:
        others = [utterance for utterance in others if whole.index_of(utterance) is None]
    if others:
        raise AsdfError(
            f"{path}: {len(others)} of {len(ids)} scored trials are not in the protocol: "
            f"{quoted_and_more(others, _SHOWN)}. Is it the protocol of this set and subset? "
            "--ignore-others leaves them out."
        )


def _refuse_missing(path: str | os.PathLike[str], indices: Indices, trials: TrialList) -> None:
    scored = np.zeros(len(trials), bool)
    scored[indices] = True
    missing = np.flatnonzero(~scored)
    if missing.size:
        names = [trials.ids[i] for i in missing[: _SHOWN + 1]]
        raise AsdfError(
            f"{path}: {missing.size} of the {len(trials)} trials of the protocol have no score: "
            f"{quoted_and_more(names, _SHOWN)}. Was the scoring interrupted, or is it the protocol "
            "of another set or subset?"
        )


def _refuse_repeated(name: str, ids: Sequence[str], indices: Indices, trials: TrialList) -> None:
    """Refuse two utterances of one trial, such as `flac/a.flac` and `a`."""
    counts = np.bincount(indices, minlength=len(trials))
    repeated = np.flatnonzero(counts[indices] > 1)
    if repeated.size:
        names = [ids[i] for i in repeated[: _SHOWN + 1]]
        raise AsdfError(
            f"{name}: {(counts > 1).sum()} trials of the protocol are scored more than once: "
            f"{quoted_and_more(names, _SHOWN)}. Repeated trials change the EER; score the set "
            "again."
        )


def _compare_labels(
    name: str,
    ids: Sequence[str],
    in_file: Labels,
    in_protocol: Labels,
) -> None:
    different = np.flatnonzero(in_file != in_protocol)
    if not different.size:
        return
    names = [ids[i] for i in different[: _SHOWN + 1]]
    hint = ""
    if different.size == len(ids):
        hint = " All of them: does 1 mean spoof in one of the two?"
    raise AsdfError(
        f"{name}: {different.size} of {len(ids)} trials are labelled otherwise in the protocol: "
        f"{quoted_and_more(names, _SHOWN)}.{hint} Is it the protocol of this set?"
    )
