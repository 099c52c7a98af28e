"""Scored trials with their labels, from the score file or from a protocol.

Invariant: with a protocol, every used score has its trial in the protocol, every trial of the
protocol has one score, and the classes of both agree; every column of the protocol is therefore
valid for the scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat

import numpy as np

from asdf.arrays import Indices, Labels
from asdf.errors import AsdfError
from asdf.text import AnyPath, quoted_and_more
from asdf.trials.formats import read_score_file, read_two_columns
from asdf.trials.score_file import Scores, refuse_one_class, require_labels
from asdf.trials.trial_list import TrialList, values_at

_SHOWN = 5


Reader = Callable[[AnyPath, Callable[[str], bool] | None], Scores]
"""A reader of score files; the second argument says whether the protocol has an utterance."""


def read_matched(
    path: AnyPath,
    trials: TrialList,
    *,
    whole: TrialList | None = None,
    ignore_others: bool = False,
    read: Reader = read_score_file,
    both_classes: bool = True,
) -> tuple[Scores, int]:
    """Read a score file of any format, with the labels of `trials`, in the order of the file.

    The number of scored utterances that were left out follows the scores.

    Args:
        trials: Trials of the protocol.
        whole: Trials of the same corpus that may have scores but are left out, such as those of
            other subsets.
        ignore_others: Whether other scored utterances are left out instead of refusing the file.
        read: Function that reads the file.
        both_classes: Whether both classes are required.

    Raises:
        AsdfError: as in `read_scores`; or trials of the protocol have no score, scored ones are
            missing from it or are the same trial, or labels differ. The message counts them and
            names the first ones.
    """
    # The first line, which determines the format, may be of another subset.
    known = whole or trials
    file = read(path, lambda utterance: known.index_of(utterance) is not None)
    return match_file(path, file, trials, whole, ignore_others, both_classes=both_classes)


def read_any_scores(
    path: AnyPath, labels: Mapping[str, int] | None = None, *, ignore_others: bool = False
) -> Scores:
    """Read a score file of any format, with the labels in it or else those in `labels`.

    Args:
        labels: Label of each utterance, 1 (bona fide) or 0 (spoof), as in `read_unlabelled_scores`.

    Raises:
        AsdfError: as in `read_matched`; or there are no labels in the file or in `labels`.

    Examples:
        >>> from pathlib import Path
        >>> from asdf.evaluation import read_any_scores
        >>> lines = ["LA_E_1 2.5", "LA_E_2 -1.0"]
        >>> written = Path("scores.txt").write_text(chr(10).join(lines))
        >>> scores = read_any_scores("scores.txt", {"LA_E_1": 1, "LA_E_2": 0})
        >>> scores.labels.tolist()
        [1, 0]
    """
    if labels is None:
        return require_labels(path, read_score_file(path))
    file = read_score_file(path, labels.__contains__)
    # A file with labels needs no protocol, and may hold trials that `labels` lacks.
    if not file.count_unlabelled:
        return require_labels(path, file)
    return match_file(path, file, _as_trials(labels), None, ignore_others)[0]


def read_unlabelled_scores(
    path: AnyPath, labels: Mapping[str, int], *, ignore_others: bool = False
) -> Scores:
    """Read `UTT SCORE` (ASVspoof 2021) or the TAB file of ASVspoof 5, with labels from a protocol.

    Args:
        labels: Labels in the protocol: utterance -> 1 (bona fide) or 0 (spoof). Every utterance in
            it must have a score.
        ignore_others: Whether utterances outside the protocol (for example of other subsets) are
            left out instead of refusing the file.

    Raises:
        AsdfError: as in `read_matched`.
    """
    file = read_two_columns(path)
    return match_file(path, file, _as_trials(labels), None, ignore_others)[0]


def _as_trials(labels: Mapping[str, int]) -> TrialList:
    return TrialList(list(labels), np.array(list(labels.values()), np.int8))


def match_file(
    path: AnyPath,
    file: Scores,
    trials: TrialList,
    whole: TrialList | None,
    ignore_others: bool,
    *,
    both_classes: bool = True,
) -> tuple[Scores, int]:
    """Return the scores of a file already read, as `read_matched`.

    Args and errors are as there.
    """
    matched = _match(file.ids, trials)
    used = np.flatnonzero(matched >= 0)
    indices = matched[used]
    if not ignore_others:
        others = values_at(file.ids, np.flatnonzero(matched < 0))
        if whole is not None:
            others = [utterance for utterance in others if whole.index_of(utterance) is None]
        _refuse(
            f"{path}: {len(others)} of {len(file.ids)} scored trials are not in the protocol",
            others,
            "Is it the protocol of this set and subset? --ignore-others leaves them out.",
        )
    ids = file.ids if used.size == len(file) else values_at(file.ids, used)
    missing = _unscored(indices, trials)
    _refuse(
        f"{path}: {len(missing)} of the {len(trials)} trials of the protocol have no score",
        missing,
        "Was the scoring interrupted, or is it the protocol of another set or subset?",
    )
    _refuse_repeated(str(path), ids, indices, trials)
    labels = trials.labels[indices]
    if not file.count_unlabelled:
        _compare_labels(str(path), ids, file.labels[used], labels)
    if both_classes:
        refuse_one_class(path, labels)
    columns = {"attack": values_at(file.attacks, used)} if file.attacks else {}
    scores = Scores(ids, labels, file.scores[used], columns=columns)
    # Not an argument: selected or joined trials would be others.
    object.__setattr__(scores, "found", (trials, indices))
    return scores, len(file.ids) - len(ids)


def columns_of(name: str, scores: Scores, trials: TrialList) -> dict[str, Sequence[str]]:
    """Return each column of `trials`, in the order of `scores`.

    Raises:
        AsdfError: a scored trial is not in `trials`, has another label there, or is scored twice;
            the message begins with `name`.
    """
    if scores.found is not None and scores.found[0] is trials:
        # To look a million names up takes a second.
        indices = scores.found[1]
    else:
        indices = rows_of(name, scores.ids, trials)
        # Columns of trials with other labels would belong to another set.
        _compare_labels(name, scores.ids, scores.labels, trials.labels[indices])
    return {name: values_at(values, indices) for name, values in trials.columns.items()}


def rows_of(name: str, ids: Sequence[str], trials: TrialList) -> Indices:
    """Return the index in `trials` of each scored utterance; errors as in `columns_of`."""
    indices = _match(ids, trials)
    others = values_at(ids, np.flatnonzero(indices < 0))
    problem = f"{name}: {len(others)} of {len(ids)} scored trials are not in the protocol"
    _refuse(problem, others, "Is it the protocol of this set?")
    _refuse_repeated(name, ids, indices, trials)
    return indices


def align_scores(name: str, scores: Scores, first_name: str, first: Scores) -> Scores:
    """Return the scores of another system in the order of the trials of `first`.

    Args:
        name, first_name: Names of the two files, for messages.

    Raises:
        AsdfError: the trials differ, a trial is scored twice, or the labels differ.
    """
    indices = _match(scores.ids, first)
    others = values_at(scores.ids, np.flatnonzero(indices < 0))
    missing = _unscored(indices[indices >= 0], first)
    for problem, names in (("not in it", others), ("without a score here", missing)):
        _refuse(
            f"{name} does not have the trials of {first_name}: {len(names)} are {problem}",
            names,
            "Give scores of the same trials; --protocol with --ignore-others, of `evaluate` and "
            "`fuse`, selects those of one set.",
        )
    _refuse_repeated(name, scores.ids, indices, first, first_name)
    _compare_labels(name, scores.ids, scores.labels, first.labels[indices], first_name)
    order = np.empty(len(first), np.intp)
    order[indices] = np.arange(len(first))
    return Scores.of(first, scores.scores[order])


def _match(ids: Sequence[str], trials: TrialList) -> Indices:
    """Return the index in `trials` of each utterance; -1 if there is none."""
    # Most files have the protocol's names, and computing bare names of a million trials is slow.
    indices = np.fromiter(map(trials.exact.get, ids, repeat(-1)), np.intp, len(ids))
    others = np.flatnonzero(indices < 0).tolist()
    scored = set(ids) if others else set()
    for position in others:
        utterance = ids[position]
        index = trials.index_of(utterance)
        if index is None:
            continue
        # Of `x/a.flac` and `y/a.flac`, the one in the protocol is itself scored, so the other is
        # another recording, such as one of another subset.
        whole_name = trials.ids[index]
        are_paths = "/" in whole_name and "/" in utterance
        if not (are_paths and whole_name in scored):
            indices[position] = index
    return indices


def _unscored(indices: Indices, trials: TrialList) -> list[str]:
    """Return the trials that are not among those at `indices`."""
    scored = np.zeros(len(trials), bool)
    scored[indices] = True
    return values_at(trials.ids, np.flatnonzero(~scored))


def _refuse(problem: str, names: Sequence[str], advice: str) -> None:
    if names:
        raise AsdfError(f"{problem}: {quoted_and_more(names, _SHOWN)}. {advice}")


def _refuse_repeated(
    name: str, ids: Sequence[str], indices: Indices, trials: TrialList, listed: str = "the protocol"
) -> None:
    """Refuse two utterances of one trial, such as `flac/a.flac` and `a`."""
    counts = np.bincount(indices, minlength=len(trials))
    _refuse(
        f"{name}: {(counts > 1).sum()} trials of {listed} are scored more than once",
        values_at(ids, np.flatnonzero(counts[indices] > 1)),
        "Repeated trials change the EER; score the set again.",
    )


def _compare_labels(
    name: str,
    ids: Sequence[str],
    in_file: Labels,
    in_protocol: Labels,
    protocol: str = "the protocol",
) -> None:
    different = values_at(ids, np.flatnonzero(in_file != in_protocol))
    is_every = len(different) == len(ids)
    hint = "All of them: does 1 mean spoof in one of the two? " if is_every else ""
    problem = f"{len(different)} of {len(ids)} trials are labelled differently in {protocol}"
    _refuse(f"{name}: {problem}", different, f"{hint}Do both belong to the same set?")
