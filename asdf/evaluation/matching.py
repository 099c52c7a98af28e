"""Scored trials and the trials of a protocol, brought together.

Invariant: every score that is used has its place in the protocol, every trial of the protocol has one score, and where
both tell a trial's class they tell the same; so whatever the protocol says of a trial can be told of its score.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.evaluation.formats import read_keyed_scores, read_two_columns, score_format
from asdf.evaluation.score_file import Scores, missing_class, read_scores
from asdf.evaluation.trials import Trials

_SHOWN = 5


def read_matched(
    path: str | os.PathLike[str],
    trials: Trials,
    *,
    whole: Trials | None = None,
    ignore_others: bool = False,
) -> tuple[Scores, int]:
    """Read a score file of any format, with the labels of `trials`.

    Args:
        whole: trials of the same corpus that may have scores and are left out, such as those of other subsets.
        ignore_others: leave out whatever else has a score, instead of refusing it.

    Returns:
        The scores in the order of the file, and how many others were left out.

    Raises:
        AsdfError: as `read_scores`; or trials of the protocol have no score, scored ones are not in it or are the same
            trial, or the labels differ. The message counts them and names the first ones.
    """
    kind, _ = score_format(path, lambda utterance: (whole or trials).place(utterance) is not None)
    labels: npt.NDArray[np.int64] | None = None
    attacks: list[str] | None = None
    if kind == "two columns":
        ids, values = read_two_columns(path)
    else:
        found = (read_scores if kind == "asdf" else read_keyed_scores)(path, both_classes=False)
        ids, values, labels, attacks = found.ids, found.scores, found.labels, found.attacks
    places = _places(ids, trials)
    taken = np.flatnonzero(places >= 0)
    if taken.size < len(ids) and not ignore_others:
        _refuse_others(path, ids, places, whole)
    kept = [ids[i] for i in taken]
    _refuse_missing(path, places[taken], trials)
    _refuse_twice(str(path), kept, places[taken], trials)
    given = trials.labels[places[taken]]
    if labels is not None:
        _compare_labels(str(path), kept, labels[taken], given)
    if missing := missing_class(given):
        raise AsdfError(
            f"{path}: not one of the {len(kept)} trials is {missing}. Error rates need both classes."
        )
    scores = Scores(kept, given, values[taken], [attacks[i] for i in taken] if attacks else None)
    return scores, len(ids) - len(kept)


def columns_of(name: str, scores: Scores, trials: Trials) -> dict[str, Sequence[str]]:
    """What `trials` says of each scored trial, in the order of `scores`.

    Raises:
        AsdfError: a scored trial is not among `trials`, is labelled otherwise there, or is scored twice; the message
            begins with `name`.
    """
    places = _places(scores.ids, trials)
    if others := [
        utterance for utterance, place in zip(scores.ids, places, strict=True) if place < 0
    ]:
        raise AsdfError(
            f"{name}: {len(others)} of {len(scores)} scored trials are not in the protocol: {_some(others)}."
        )
    _refuse_twice(name, scores.ids, places, trials)
    _compare_labels(name, scores.ids, scores.labels, trials.labels[places])
    return {
        column: [values[place] for place in places.tolist()]
        for column, values in trials.columns.items()
    }


def _places(ids: Sequence[str], trials: Trials) -> npt.NDArray[np.intp]:
    """The index in `trials` of each utterance; -1 where there is none."""
    # Most files have the protocol's own names, and bare names of a million trials take seconds.
    exact = {utterance: place for place, utterance in enumerate(trials.ids)}
    given = set(ids)

    def place_of(utterance: str) -> int:
        if utterance in exact:
            return exact[utterance]
        if (place := trials.place(utterance)) is None:
            return -1
        # `x/a.flac` is scored itself, so that `y/a.flac` is another recording, such as one of another subset.
        own = trials.ids[place]
        return -1 if "/" in own and "/" in utterance and own in given else place

    return np.array([place_of(utterance) for utterance in ids], np.intp)


def _refuse_others(
    path: str | os.PathLike[str],
    ids: Sequence[str],
    places: npt.NDArray[np.intp],
    whole: Trials | None,
) -> None:
    others = [utterance for utterance, place in zip(ids, places, strict=True) if place < 0]
    if whole is not None:
        others = [utterance for utterance in others if whole.place(utterance) is None]
    if others:
        raise AsdfError(
            f"{path}: {len(others)} of {len(ids)} scored trials are not in the protocol: {_some(others)}. "
            "Is it the protocol of this set and subset? --ignore-others leaves them out."
        )


def _refuse_missing(
    path: str | os.PathLike[str], places: npt.NDArray[np.intp], trials: Trials
) -> None:
    scored = np.zeros(len(trials), bool)
    scored[places] = True
    if not scored.all():
        missing = np.flatnonzero(~scored)
        raise AsdfError(
            f"{path}: {missing.size} of the {len(trials)} trials of the protocol have no score: "
            f"{_some([trials.ids[i] for i in missing[: _SHOWN + 1]])}. Was the scoring interrupted, "
            "or is it the protocol of another set or subset?"
        )


def _refuse_twice(
    name: str, ids: Sequence[str], places: npt.NDArray[np.intp], trials: Trials
) -> None:
    """`flac/a.flac` and `a` are two utterances of a score file, and one trial."""
    times = np.bincount(places, minlength=len(trials))
    if (times > 1).any():
        twice = [
            utterance for utterance, count in zip(ids, times[places], strict=True) if count > 1
        ]
        raise AsdfError(
            f"{name}: {(times > 1).sum()} trials of the protocol are scored more than once: {_some(twice)}. "
            "Repeated trials change the EER; score the set again."
        )


def _compare_labels(
    name: str, ids: Sequence[str], own: npt.NDArray[np.int64], given: npt.NDArray[np.int64]
) -> None:
    if (differs := np.flatnonzero(own != given)).size:
        turned = (
            " All of them: does 1 mean spoof in one of the two?" if differs.size == len(ids) else ""
        )
        raise AsdfError(
            f"{name}: {differs.size} of {len(ids)} trials are labelled otherwise in the protocol: "
            f"{_some([ids[i] for i in differs[: _SHOWN + 1]])}.{turned} Is it the protocol of this set?"
        )


def _some(utterances: Sequence[str]) -> str:
    """The first ones, for a message."""
    return ", ".join(map(repr, utterances[:_SHOWN])) + (", ..." if len(utterances) > _SHOWN else "")
