"""Comparison of groups of speakers or recordings: the gap between best and worst, with a test.

Invariant: a group's EER has its own threshold; the effect of a common threshold on a group is given
by its two error rates at the pooled one. Groups with few trials of a class are not compared.
Speakers are drawn and permuted if they are known, since trials of one speaker are dependent.

The gap is between two groups chosen because they differ most, so it is above zero even if no groups
differ. Its p-value accounts for this: it is the proportion of permutations of the column's values
with a gap at least as large. Each group is also compared with all others, with a p-value from the
same permutations, corrected over all groups of all columns (Holm, Scandinavian Journal of
Statistics 6, 1979).

Source of the test: Phipson and Smyth, "Permutation p-values should never be zero", Statistical
Applications in Genetics and Molecular Biology 9, 2010.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from asdf.arrays import Floats, Indices, Integers
from asdf.metrics.bootstrap import difference_interval
from asdf.metrics.detection import DetCurve, into_blocks
from asdf.metrics.intervals import Interval, holm, rate_interval
from asdf.metrics.replicates import times_drawn, weighted_metrics
from asdf.metrics.results import FEW
from asdf.trials.score_file import Scores

_TRIES = 20


@dataclass(frozen=True)
class Group:
    """A value of a column, compared with all other groups of the column.

    Attributes:
        eer: EER at the group's own threshold.
        difference: Difference of its EER to that of the other groups together, with the p-value of
            the permutations.
        p_corrected: P-value of the difference, corrected for all compared groups.
        miss, false_alarm: Error rates at the threshold of the pooled trials.
        speakers: Number of speakers; None if not all are known.
    """

    value: str
    bona_fide: int
    spoof: int
    eer: Interval
    difference: Interval
    miss: float
    false_alarm: float
    speakers: int | None = None
    p_corrected: float = 1.0


@dataclass(frozen=True)
class GroupStudy:
    """The groups of a column.

    Attributes:
        gap: Difference between the EERs of the worst and the best group, its interval, and the
            proportion of permutations with a gap at least as large.
        over: Unit that was drawn for intervals: 'speakers' or 'trials'.
        permuted: Unit among which the values of the column were permuted.
        threshold: Threshold of `miss` and `false_alarm`.
        left_out: Values with few trials of a class.
    """

    column: str
    groups: tuple[Group, ...]
    best: str
    worst: str
    gap: Interval
    over: str
    permuted: str
    threshold: float
    left_out: tuple[str, ...] = ()


def compare_groups(
    scores: Scores,
    columns: Mapping[str, Sequence[str]],
    names: Sequence[str],
    *,
    replicates: int = 1000,
    threshold: float | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[GroupStudy, ...]:
    """Compare the groups of each column that both classes have values of.

    Args:
        columns: Columns with a value per trial, in the order of `scores`.
        names: Columns to compare groups of; one with fewer than two groups is left out.
        replicates: Number of replicates of the bootstrap, and of permutations.
        threshold: Threshold of the rates at one threshold; None for that of the pooled EER.
        progress: Function called with the number of finished replicates and permutations, and their
            total.
    """
    studies = []
    curve = DetCurve.of_scores(scores)
    limit = curve.eer()[1] if threshold is None else threshold
    speakers = columns.get("speaker", ())
    for name in names:
        kept, left_out = _split_by_size(scores, columns.get(name, ()))
        if len(kept) < 2:
            continue
        trials = _Trials.of(scores, columns[name], kept, speakers)
        study = _compare(trials, replicates, limit, seed, progress)
        studies.append(replace(study, column=name, left_out=tuple(left_out)))
    return _corrected(studies)


def _split_by_size(
    scores: Scores,
    values: Sequence[str],
) -> tuple[list[str], list[str]]:
    """Return the values of both classes: those with enough trials, and those with few."""
    column = np.asarray(values, str)
    if not column.size:
        return [], []
    counts: list[dict[str, int]] = []
    for label in (0, 1):
        of_class = column[scores.labels == label]
        names, numbers = np.unique(of_class, return_counts=True)
        by_name = zip(names.tolist(), numbers.tolist(), strict=True)
        counts.append(dict(by_name))
    of_spoof, of_bona_fide = counts
    kept: list[str] = []
    left_out: list[str] = []
    for name in sorted(set(of_spoof) & set(of_bona_fide) - {"", "-"}):
        fewest = min(of_spoof[name], of_bona_fide[name])
        if fewest >= FEW:
            kept.append(name)
        else:
            left_out.append(name)
    return kept, left_out


@dataclass(frozen=True, eq=False)
class _Trials:
    """The trials of groups, in ascending blocks of scores.

    Units are drawn and permuted: speakers, or else single trials.

    Attributes:
        group: Index of each trial's group, (trials,).
        block: Index of each trial's block, (trials,), below `blocks`.
        unit: Index of each trial's unit, (trials,).
        unit_group: Group of each unit, (units,); None if a speaker is in several groups.
        unit_classes: Classes of each unit's trials, (units,): 1 spoof, 2 bona fide, 3 both.
        has_speakers: Whether units are speakers.
    """

    names: Sequence[str]
    scores: Scores
    group: Indices
    block: Indices
    blocks: int
    unit: Indices
    unit_group: Indices | None
    unit_classes: Integers
    has_speakers: bool

    @classmethod
    def of(
        cls,
        scores: Scores,
        values: Sequence[str],
        names: Sequence[str],
        speakers: Sequence[str],
    ) -> _Trials:
        """Select the trials of the groups."""
        column = np.asarray(values, str)
        index = np.flatnonzero(np.isin(column, names))
        chosen = scores.select(index)
        blocks = into_blocks(DetCurve.of_scores(chosen))
        block = np.empty(index.size, np.intp)
        block[chosen.labels == 1] = blocks.of_bona_fide
        block[chosen.labels == 0] = blocks.of_spoof
        group = np.searchsorted(np.asarray(names), column[index])
        unit = np.arange(index.size)
        # If groups have one speaker each, for example by speaker, only trials can be permuted.
        several = len({*speakers}) > len(names)
        has_speakers = several and all(speakers)
        if has_speakers:
            of_trials = np.asarray(speakers, str)[index]
            _, unit = np.unique(of_trials, return_inverse=True)
        units = int(unit.max()) + 1
        classes = np.zeros(units, np.int64)
        class_bits = 1 + chosen.labels.astype(np.int64)
        # `classes[unit] |= class_bits` would count only one trial of each unit.
        np.bitwise_or.at(classes, unit, class_bits)
        unit_group = np.empty(units, np.intp)
        unit_group[unit] = group
        is_of_unit = unit_group[unit] == group
        is_nested = bool(is_of_unit.all())
        return cls(
            names=names,
            scores=chosen,
            group=group,
            block=block,
            blocks=blocks.count,
            unit=unit,
            unit_group=unit_group if is_nested else None,
            unit_classes=classes,
            has_speakers=has_speakers,
        )

    def strata(self) -> list[Indices]:
        """Return the strata of units for drawing: units of one group with the same classes."""
        kinds = self.unit_classes
        if self.unit_group is not None:
            # Classes are 1, 2 or 3.
            kinds = kinds + 4 * self.unit_group
        return [np.flatnonzero(kinds == kind) for kind in np.unique(kinds)]

    def exchangeable(self) -> list[Indices]:
        """Return the sets of units to permute among: units with the same classes.

        If speakers are in several groups, these are trials of one speaker and class.
        """
        kinds = self.unit_classes
        if self.unit_group is None:
            kinds = 2 * self.unit + self.scores.labels
        order = np.argsort(kinds, kind="stable")
        return np.split(order, np.flatnonzero(np.diff(kinds[order])) + 1)

    def permuted(
        self,
        blocks: Sequence[Indices],
        rng: np.random.Generator,
    ) -> Indices:
        """Return the group of each trial after a permutation within blocks."""
        group = self.group if self.unit_group is None else self.unit_group
        result: Indices = group.copy()
        for block in blocks:
            result[block] = rng.permutation(group[block])
        if self.unit_group is not None:
            result = result[self.unit]
        return result

    def speakers(self) -> list[int] | None:
        """Return the number of speakers of each group, in the class with fewer of them."""
        if not self.has_speakers:
            return None
        counts = []
        for index in range(len(self.names)):
            of_classes = []
            for label in (0, 1):
                chosen = (self.group == index) & (self.scores.labels == label)
                of_classes.append(np.unique(self.unit[chosen]).size)
            counts.append(min(of_classes))
        return counts

    def counts(
        self,
        group: Indices,
        weights: Integers | None = None,
    ) -> tuple[Integers, Integers]:
        """Count the bona fide trials and the spoofs of each group in each block.

        Args:
            group: Index of each trial's group, (trials,).
            weights: Number of times that each trial is drawn, (trials,); None for once.

        Returns:
            Arrays of bona fide and of spoof counts, each (groups, blocks).
        """
        cell = group * self.blocks + self.block
        size = len(self.names) * self.blocks
        counts = []
        for label in (1, 0):
            chosen = self.scores.labels == label
            drawn = None if weights is None else weights[chosen]
            sums = np.bincount(cell[chosen], drawn, size).astype(np.int64)
            counts.append(sums.reshape(len(self.names), self.blocks))
        return counts[0], counts[1]

    def eers(
        self,
        group: Indices,
        weights: Integers | None = None,
    ) -> Floats:
        """Return the EER of each group and of all others together, (2, groups); NaN without one."""
        bona_fide, spoof = self.counts(group, weights)
        others = (bona_fide.sum(axis=0) - bona_fide, spoof.sum(axis=0) - spoof)
        result = np.full((2, len(self.names)), np.nan)
        for row, counts in enumerate(((bona_fide, spoof), others)):
            defined = (counts[0].sum(axis=1) > 0) & (counts[1].sum(axis=1) > 0)
            if defined.any():
                result[row, defined] = weighted_metrics(counts[0][defined], counts[1][defined])[0]
        return result


def _compare(
    trials: _Trials,
    replicates: int,
    threshold: float,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> GroupStudy:
    measured = trials.eers(trials.group)
    drawn = _bootstrap(trials, replicates, seed, progress)
    # Not the numbers of the bootstrap, which begins with the seed itself.
    rng = np.random.default_rng([seed, 1])
    blocks = trials.exchangeable()

    def draw() -> Floats:
        return trials.eers(trials.permuted(blocks, rng))

    # EERs of groups and of the others with permuted groups, (replicates, 2, groups).
    permuted = _repeat(draw, replicates, trials, progress)
    best = int(measured[0].argmin())
    worst = int(measured[0].argmax())
    counts = trials.speakers()
    groups = []
    for index in range(len(trials.names)):
        groups.append(_group(trials, index, measured, drawn, permuted, threshold, counts))
    fewest = None if counts is None else min(counts[best], counts[worst])
    ends = np.array([measured[0, best], measured[0, worst]])
    gap = _difference(ends, drawn[:, 0][:, [best, worst]].T, fewest)
    largest = permuted[:, 0].max(axis=1) - permuted[:, 0].min(axis=1)
    among = "trials"
    if trials.has_speakers:
        among = "trials within speakers" if trials.unit_group is None else "speakers"
    return GroupStudy(
        column="",
        groups=tuple(groups),
        best=trials.names[best],
        worst=trials.names[worst],
        gap=replace(gap, p_value=_share(largest, gap.value), groups=fewest),
        over="trials" if counts is None else "speakers",
        permuted=among,
        threshold=threshold,
    )


def _group(
    trials: _Trials,
    index: int,
    measured: Floats,
    drawn: Floats,
    permuted: Floats,
    threshold: float,
    speakers: Sequence[int] | None,
) -> Group:
    chosen = trials.scores.select(np.flatnonzero(trials.group == index))
    count = None if speakers is None else speakers[index]
    bona_fide = chosen.bona_fide
    spoof = chosen.spoof
    fewer = min(bona_fide.size, spoof.size)
    eer = float(measured[0, index])
    # The rest comes first, since the difference is the group's EER minus that of the rest.
    ends = measured[::-1, index]
    compared = count
    # If all others are one speaker, they show nothing of how speakers vary.
    if speakers is not None and sum(speakers) - speakers[index] == 1:
        compared = 1
    difference = _difference(ends, drawn[:, ::-1, index].T, compared)
    own = Interval(eer, 0.0, 1.0, groups=1)
    if count != 1:
        own = rate_interval(eer, drawn[:, 0, index], trials=fewer, groups=count)
    differences = np.abs(permuted[:, 0, index] - permuted[:, 1, index])
    return Group(
        value=trials.names[index],
        bona_fide=bona_fide.size,
        spoof=spoof.size,
        eer=own,
        difference=replace(difference, p_value=_share(differences, abs(difference.value))),
        miss=float(np.mean(bona_fide < threshold)),
        false_alarm=float(np.mean(spoof >= threshold)),
        speakers=count,
    )


def _difference(ends: Floats, drawn: Floats, speakers: int | None) -> Interval:
    """Return a difference of two EERs, with its interval over speakers.

    A single speaker gives no information on others, so any rate is possible.
    """
    if speakers == 1:
        return Interval(float(ends[1] - ends[0]), -1.0, 1.0, groups=1)
    return difference_interval(ends, drawn, groups=speakers)


def _share(
    permuted: Floats,
    value: float,
) -> float:
    """Return the p-value: the proportion of values as large, including the measured one."""
    # Tolerate a difference from rounding.
    as_large = np.count_nonzero(permuted >= value - 1e-12)
    return float((1 + as_large) / (1 + permuted.size))


def _bootstrap(
    trials: _Trials,
    replicates: int,
    seed: int,
    progress: Callable[[int, int], None] | None,
) -> Floats:
    """Return EERs of groups and of the others on replicates, (replicates, 2, groups)."""
    rng = np.random.default_rng(seed)
    strata = trials.strata()
    times = np.empty(trials.unit_classes.size, np.int64)

    def draw() -> Floats:
        for stratum in strata:
            times[stratum] = times_drawn(stratum.size, rng)
        return trials.eers(trials.group, times[trials.unit])

    return _repeat(draw, replicates, trials, progress)


def _repeat(
    draw: Callable[[], Floats],
    times: int,
    trials: _Trials,
    progress: Callable[[int, int], None] | None,
) -> Floats:
    """Return the EERs of several draws, repeating draws in which a group lacks a class."""
    result = np.empty((times, 2, len(trials.names)))
    for row in range(times):
        for _ in range(_TRIES):
            result[row] = draw()
            if np.isfinite(result[row]).all():
                break
        else:
            result[row] = trials.eers(trials.group)
        if progress is not None:
            progress(row + 1, times)
    return result


def _corrected(studies: Sequence[GroupStudy]) -> tuple[GroupStudy, ...]:
    p_values = []
    for study in studies:
        # With two groups, each compared with the rest is the same comparison.
        counted = study.groups[:1] if len(study.groups) == 2 else study.groups
        for group in counted:
            p_values.append(group.difference.p_value or 1.0)
    corrected = iter(holm(p_values))
    result = []
    for study in studies:
        groups: list[Group] = []
        for index, group in enumerate(study.groups):
            is_same = len(study.groups) == 2 and index == 1
            p_value = groups[0].p_corrected if is_same else next(corrected)
            groups.append(replace(group, p_corrected=p_value))
        result.append(replace(study, groups=tuple(groups)))
    return tuple(result)
