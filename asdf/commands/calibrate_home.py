"""Learning to detect recordings unlike the calibration set, by their embeddings.

Invariant: a network without embeddings, or a set whose recordings are not available, is still
calibrated; a message states that nothing was learnt, with the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from asdf.commands.outputs import input_name, show
from asdf.commands.whose_scores import locate_recordings, open_as_scored
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import track
from asdf.runs.seeds import generator

if TYPE_CHECKING:
    from asdf.commands.learn_calibration import CalibrationSet
    from asdf.metrics.calibration import Calibration
    from asdf.metrics.home import Home

RATE = 0.05
# Maximum number of recordings of a class: more take longer, and hardly improve a rate of 5 %.
_MOST = 300
# Maximum number of folds of speakers, or trials.
_FOLDS = 20


def check_unlike_rate(rate: float | None) -> None:
    """Refuse an invalid rate.

    Raises:
        UsageError: it is not in the range from 0 to below 1.
    """
    if rate is not None and not 0 <= rate < 1:
        raise UsageError(
            f"--unlike-rate {rate:g}: give a proportion above 0 and below 1, or 0 to turn the "
            "comparison off."
        )


def learn_unlike(
    network: str,
    calibration: Calibration,
    path: Path,
    folder: Path | None,
    learnt_from: CalibrationSet,
    rate: float | None,
) -> Calibration:
    """Return a calibration that detects recordings unlike its set; unchanged if impossible.

    Args:
        network: Path or name of the network, as given.
        path: Score file with the recordings.
        folder: Folder of the recordings; None: the usual folders.
        rate: Requested rate; 0: nothing is learnt; None: 5 % if possible.

    Raises:
        AsdfError: it cannot be learnt although a rate was requested.
    """
    if rate == 0:
        return calibration
    try:
        home = _learn(network, path, folder, learnt_from, RATE if rate is None else rate)
    except AsdfError as error:
        if rate is not None:
            raise
        show(f"recordings unlike this set cannot be detected: {error}")
        return calibration
    show(home.describe())
    return replace(calibration, home=home.content())


@dataclass(frozen=True)
class _Drawn:
    """Trials of a set, drawn at random from both classes.

    Attributes:
        speakers: Speaker of each trial; None if unknown.
    """

    ids: list[str]
    labels: np.ndarray
    speakers: list[str] | None

    def select(self, indices: Sequence[int]) -> _Drawn:
        """Return the trials at `indices`."""
        speakers = self.speakers
        return _Drawn(
            [self.ids[index] for index in indices],
            self.labels[list(indices)],
            None if speakers is None else [speakers[index] for index in indices],
        )


def _draw(learnt_from: CalibrationSet) -> _Drawn:
    scores = learnt_from.scores
    speakers = learnt_from.speakers
    everything = _Drawn(
        list(scores.ids), scores.labels, None if speakers is None else list(speakers)
    )
    drawn: list[int] = []
    for label in (1, 0):
        trials = np.flatnonzero(scores.labels == label)
        # A fixed stream per class: the same set gives the same file, and classes share no draws.
        order = generator(0, f"home {label}").permutation(len(trials))
        drawn += trials[order[:_MOST]].tolist()
    return everything.select(sorted(drawn))


def _learn(
    network: str, path: Path, folder: Path | None, learnt_from: CalibrationSet, rate: float
) -> Home:
    """Learn the home of a network from the recordings of a score file.

    Raises:
        AsdfError: recordings are missing or too few, or the network gives no embeddings for them.
    """
    from asdf.metrics.home import MAX_NUMBERS, check_enough, learn_home
    from asdf.tasks.fusion.gain import make_folds

    drawn = _draw(learnt_from)
    # Checked before any recording is scored.
    check_enough(int((drawn.labels == 1).sum()), rate)
    recordings = locate_recordings(drawn.ids, path, folder)
    if recordings is None:
        raise AsdfError(
            f"recordings of {input_name(path)} were not found. Give their folder with --folder."
        )
    embeddings = _embed(network, path, recordings)
    scored = sorted(embeddings)
    if len(scored) < len(recordings):
        show(f"{len(recordings) - len(scored)} recordings of the set could not be scored")
    known = drawn.select(scored)
    sizes = {row.size for row in embeddings.values()}
    if len(sizes) != 1 or max(sizes) > MAX_NUMBERS:
        raise AsdfError(
            "this network's embeddings have different lengths or more than "
            f"{MAX_NUMBERS:,} values, so they cannot be compared. --unlike-rate 0 turns the "
            "comparison off."
        )
    rows = np.stack([embeddings[index].reshape(-1) for index in scored])
    folds_of = "trials" if known.speakers is None else "speakers"
    try:
        folds = make_folds(known.ids, known.labels, known.speakers, _FOLDS)
    except AsdfError:
        # For example because a class has only one speaker.
        folds_of = "trials"
        folds = make_folds(known.ids, known.labels, None, _FOLDS)
    return learn_home(rows, known.labels, folds, rate, folds_of)


def _embed(network: str, path: Path, recordings: Sequence[Path]) -> dict[int, np.ndarray]:
    """Return the trial embedding of each recording that can be scored, by its index.

    Raises:
        AsdfError: the network cannot be opened as for the scores, or gives no embeddings.
    """
    opened = open_as_scored(network, path)
    if isinstance(opened, str):
        raise AsdfError(opened)
    embeddings = {}
    results = opened.score_many(recordings, embedding=True)
    for result in track(results, len(recordings), "learning the set", unit="recordings"):
        if result.embedding is not None:
            embeddings[result.index] = result.embedding
    return embeddings
