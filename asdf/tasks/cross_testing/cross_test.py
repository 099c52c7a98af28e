"""EERs of each set of spoofs against each set of genuine speech, with maxima and means.

Invariant: each pair of sets has its own EER with its own threshold, so larger sets do not count
more. All numbers of a replicate come from one draw of the sets: two pairs that share a set share
its draw.

Source: Kwok, Yip, Qiu, Chi and Lam, "Bona fide cross testing reveals weak spot in audio deepfake
detection systems", Interspeech 2025. They summarise the EERs of all synthesizers against one kind
of genuine speech by their maximum and mean.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from asdf.arrays import Floats, Indices, Integers
from asdf.errors import AsdfError
from asdf.metrics.detection import Blocks, DetCurve, into_blocks
from asdf.metrics.intervals import (
    FEW_GROUPS,
    Interval,
    highest_interval,
    rate_interval,
)
from asdf.metrics.replicates import times_drawn, weighted_eers
from asdf.metrics.results import FEW
from asdf.metrics.summary import Progress
from asdf.tables.table import each
from asdf.trials.score_file import Scores
from asdf.trials.trial_list import values_at

# Counts of trials in memory at a time, 16 MB: all replicates of a large set would take gigabytes.
_NUMBERS_AT_ONCE = 2_000_000
# Score files and protocols write '-' as the attack of a bona fide trial.
_ABSENT = ("", "-")
_ALL = slice(None)


@dataclass(frozen=True)
class TrialSet:
    """Trials of one class that are paired with each set of the other class.

    Attributes:
        index: Indices among all trials, (trials,).
        speakers: Number of speakers; None if some are unknown.
    """

    name: str
    index: Indices
    speakers: int | None = None

    @property
    def trials(self) -> int:
        """Number of trials."""
        return self.index.size


@dataclass(frozen=True)
class Pair:
    """A set of spoofs against a set of genuine speech."""

    spoof: TrialSet
    genuine: TrialSet
    eer: Interval

    @property
    def few(self) -> bool:
        """Whether a class has too few trials for a meaningful EER."""
        return min(self.spoof.trials, self.genuine.trials) < FEW


@dataclass(frozen=True)
class Extent:
    """The highest EER and the mean of several pairs."""

    highest: Interval
    mean: Interval


@dataclass(frozen=True)
class CrossTest:
    """All pairs of one system.

    Attributes:
        by: Columns whose values define the sets of spoofs and of genuine speech.
        pairs: Pairs by set of spoofs, then by set of genuine speech.
        by_spoof: Highest EER and mean over the sets of genuine speech, by set of spoofs.
        by_genuine: Highest EER and mean over the sets of spoofs, by set of genuine speech.
        overall: Highest EER and mean of all pairs.
        mean_of_highest: Mean over the sets of genuine speech of their highest EERs.
        over: Unit of the bootstrap for the intervals, 'speakers' or 'trials'; '' without intervals.
        left_out: Numbers of spoofs and of bona fide trials without a value.
    """

    by: tuple[str, str]
    spoofs: tuple[TrialSet, ...]
    genuine: tuple[TrialSet, ...]
    pairs: tuple[tuple[Pair, ...], ...]
    by_spoof: tuple[Extent, ...]
    by_genuine: tuple[Extent, ...]
    overall: Extent
    mean_of_highest: Interval
    over: str
    left_out: tuple[int, int] = (0, 0)

    @property
    def all_pairs(self) -> list[Pair]:
        """All pairs, row by row."""
        return list(chain.from_iterable(self.pairs))


def cross_test(
    scores: Scores,
    columns: Mapping[str, Sequence[str]],
    by: tuple[str, str],
    *,
    replicates: int = 1000,
    seed: int = 0,
    progress: Progress | None = None,
) -> CrossTest:
    """Compare each set of spoofs with each set of genuine speech.

    Args:
        columns: Columns with a value per trial, in the order of `scores`.
        by: Columns whose values define the sets of spoofs and those of genuine speech.
        replicates: Number of bootstrap replicates; 0: intervals are the values alone. Speakers are
            drawn if every set has at least ten, else trials.

    Raises:
        AsdfError: a class has no set, or there is a single set of genuine speech.
    """
    speakers = columns.get("speaker", ())
    is_known = bool(speakers) and all(speakers)
    # Drawing the known speakers alone would leave out the trials of the others.
    if not is_known:
        speakers = ()
    spoofs = _sets(scores, columns[by[0]], 0, speakers)
    genuine = _sets(scores, columns[by[1]], 1, speakers)
    _check_sets(by, spoofs, genuine)
    sets = [*spoofs, *genuine]
    fewest_speakers = min(each(sets, "speakers")) if is_known else 0
    # Draws of few speakers would often lack a set, and show too little of how speakers differ.
    by_speakers = fewest_speakers >= FEW_GROUPS
    eers, blocks = _measure(scores, spoofs, genuine)
    drawn = np.empty((0, *eers.shape))
    over = ""
    if replicates:
        over = "speakers" if by_speakers else "trials"
        numbers = None
        if by_speakers:
            _, numbers = np.unique(speakers, return_inverse=True)
        draws = _draws(each(sets, "index"), numbers, replicates, seed)
        drawn = _draw_eers(draws, blocks, len(spoofs), replicates, progress)
    left_out = (_count_others(scores, 0, spoofs), _count_others(scores, 1, genuine))
    groups = fewest_speakers if over == "speakers" else None
    matrix = _Matrix(eers, drawn, groups, fewest=min(each(sets, "trials")))
    return _summed_up(by, spoofs, genuine, matrix, over, left_out)


def _count_others(
    scores: Scores,
    label: int,
    sets: Sequence[TrialSet],
) -> int:
    """Count the trials of a class that belong to none of its sets."""
    of_class = int(np.count_nonzero(scores.labels == label))
    for known in sets:
        of_class -= known.trials
    return of_class


def _sets(
    scores: Scores,
    values: Sequence[str],
    label: int,
    speakers: Sequence[str],
) -> list[TrialSet]:
    """Return the sets of a class, sorted by name."""
    column = np.asarray(values, str)
    of_class = scores.labels == label
    sets = []
    for name in sorted(set(column[of_class].tolist()) - set(_ABSENT)):
        index = np.flatnonzero(of_class & (column == name))
        known = None
        if speakers:
            known = len(set(values_at(speakers, index)))
        sets.append(TrialSet(name, index, known))
    return sets


def _check_sets(
    by: tuple[str, str],
    spoofs: Sequence[TrialSet],
    genuine: Sequence[TrialSet],
) -> None:
    if not spoofs:
        raise AsdfError(
            f"no spoof has a value in '{by[0]}', the column that separates the sets of spoofs."
        )
    if len(genuine) < 2:
        known = f"one, '{genuine[0].name}'" if genuine else "none"
        raise AsdfError(
            f"'{by[1]}' has to separate several sets of genuine speech, but there is {known}. "
            "Name a column with several values among bona fide trials, or `file` and several "
            "score files."
        )


def _measure(
    scores: Scores,
    spoofs: Sequence[TrialSet],
    genuine: Sequence[TrialSet],
) -> tuple[Floats, list[list[Blocks]]]:
    """Return the EERs, (spoofs, genuine), and the blocks of each pair."""
    eers = np.empty((len(spoofs), len(genuine)))
    blocks: list[list[Blocks]] = []
    for row, spoof in enumerate(spoofs):
        blocks.append([])
        for column, known in enumerate(genuine):
            curve = DetCurve.of(scores.scores[known.index], scores.scores[spoof.index])
            eers[row, column], _ = curve.eer()
            # With the block of each trial, no replicate sorts scores again.
            blocks[row].append(into_blocks(curve))
    return eers, blocks


def _draws(
    sets: Sequence[Indices],
    speakers: Indices | None,
    replicates: int,
    seed: int,
) -> Iterator[list[Integers]]:
    """Yield how often each trial of each set is drawn, a (some replicates, trials) array per set.

    Without speakers, the trials of each set are drawn independently.
    """
    rng = np.random.default_rng(seed)
    step = max(1, _NUMBERS_AT_ONCE // sum(each(sets, "size")))
    for start in range(0, replicates, step):
        rows = min(step, replicates - start)
        if speakers is None:
            yield _draw_trials(sets, rows, rng)
        else:
            yield _draw_speakers(sets, speakers, rows, rng)


def _draw_trials(
    sets: Sequence[Indices],
    replicates: int,
    rng: np.random.Generator,
) -> list[Integers]:
    weights = []
    for index in sets:
        drawn = np.empty((replicates, index.size), np.int64)
        for row in drawn:
            row[:] = times_drawn(index.size, rng)
        weights.append(drawn)
    return weights


def _draw_speakers(
    sets: Sequence[Indices],
    speakers: Indices,
    replicates: int,
    rng: np.random.Generator,
) -> list[Integers]:
    count = int(speakers.max()) + 1
    drawn: list[Integers] = []
    while len(drawn) < replicates:
        # One draw for all sets, since the trials of a speaker vary together across sets.
        of_trials = times_drawn(count, rng)[speakers]
        # A set without a trial has no EER. Such draws are repeated, which is rare with ten
        # speakers.
        if all(of_trials[index].any() for index in sets):
            drawn.append(of_trials)
    weights = np.stack(drawn)
    return [weights[:, index] for index in sets]


def _draw_eers(
    draws: Iterator[list[Integers]],
    blocks: Sequence[Sequence[Blocks]],
    spoof_sets: int,
    replicates: int,
    progress: Progress | None,
) -> Floats:
    """Return the EERs of all pairs on each replicate, (replicates, spoofs, genuine)."""
    drawn = np.empty((replicates, len(blocks), len(blocks[0])))
    done = 0
    for weights in draws:
        rows = slice(done, done + len(weights[0]))
        for row, of_spoof in enumerate(blocks):
            for column, known in enumerate(of_spoof):
                genuine = weights[spoof_sets + column]
                drawn[rows, row, column] = weighted_eers(known, genuine, weights[row])
        done = rows.stop
        if progress is not None:
            progress(done, replicates)
    return drawn


@dataclass(frozen=True, eq=False)
class _Matrix:
    """The EERs of all pairs, measured and on replicates.

    Attributes:
        eers: Measured EERs, (spoofs, genuine).
        drawn: EERs on replicates, (replicates, spoofs, genuine); without replicates, intervals are
            the values alone.
        groups: Number of speakers of the set with the fewest, if speakers were drawn.
        fewest: Number of trials of the smallest set.
    """

    eers: Floats
    drawn: Floats
    groups: int | None
    fewest: int

    def extent(
        self,
        rows: slice = _ALL,
        columns: slice = _ALL,
    ) -> Extent:
        """Return the highest EER and the mean of a part of the matrix."""
        eers = self.eers[rows, columns]
        drawn = self.drawn[:, rows, columns]  # (replicates, spoofs, genuine)
        highest = drawn.max(axis=(1, 2))
        return Extent(
            self.interval(float(eers.max()), highest, is_highest=True),
            self.interval(float(eers.mean()), drawn.mean(axis=(1, 2))),
        )

    def mean_of_highest(self) -> Interval:
        """Return the mean over the sets of genuine speech of their highest EERs."""
        highest = self.eers.max(axis=0)  # (genuine,)
        drawn = self.drawn.max(axis=1)  # (replicates, genuine)
        return self.interval(float(highest.mean()), drawn.mean(axis=1), is_highest=True)

    def interval(
        self,
        value: float,
        drawn: Floats,
        trials: int = 0,
        *,
        is_highest: bool = False,
    ) -> Interval:
        """Return an EER, or the mean or maximum of several, with its interval.

        Args:
            drawn: Values on replicates, (replicates,).
            trials: Number of trials of the smaller class; 0: that of the smallest set.
        """
        if not drawn.size:
            return Interval(value, value, value)
        # If all replicates are equal, as without an error, `rate_interval` has the exact bound.
        if is_highest and not (drawn == value).all():
            return highest_interval(value, drawn, self.groups)
        return rate_interval(value, drawn, trials=trials or self.fewest, groups=self.groups)


def _summed_up(
    by: tuple[str, str],
    spoofs: Sequence[TrialSet],
    genuine: Sequence[TrialSet],
    matrix: _Matrix,
    over: str,
    left_out: tuple[int, int],
) -> CrossTest:
    pairs = []
    by_spoof = []
    for row, spoof in enumerate(spoofs):
        of_spoof = []
        for column, known in enumerate(genuine):
            trials = min(spoof.trials, known.trials)
            eer = float(matrix.eers[row, column])
            interval = matrix.interval(eer, matrix.drawn[:, row, column], trials)
            of_spoof.append(Pair(spoof, known, interval))
        pairs.append(tuple(of_spoof))
        by_spoof.append(matrix.extent(rows=slice(row, row + 1)))
    by_genuine = []
    for column in range(len(genuine)):
        by_genuine.append(matrix.extent(columns=slice(column, column + 1)))
    return CrossTest(
        by=by,
        spoofs=tuple(spoofs),
        genuine=tuple(genuine),
        pairs=tuple(pairs),
        by_spoof=tuple(by_spoof),
        by_genuine=tuple(by_genuine),
        overall=matrix.extent(),
        mean_of_highest=matrix.mean_of_highest(),
        over=over,
        left_out=left_out,
    )
