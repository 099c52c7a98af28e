"""Bootstrap intervals of EER and minDCF, and a paired test of two systems on the same trials.

Invariant: a replicate has exactly the metrics that `eer` and `min_dcf` give for the resampled
trials, without sorting again: trials are put into blocks once, and a replicate is the number of
trials of each class in each block. Trials of one speaker are dependent: if speakers are known,
whole speakers are drawn, and the intervals also hold for new speakers. The computation of intervals
from replicates is in `asdf.metrics.intervals`.

Source: Bisani and Ney, "Bootstrap estimates for confidence intervals in ASR performance
evaluation", ICASSP 2004.

Bootstrap replicates of a set of trials: how often each trial, or block, is drawn.

Invariant: a replicate's EER equals the official one of the trials repeated as often as drawn.
Repetitions of a trial are also steps of the DET curve, so the point of equal rates may lie between
them; it is located by counting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np

from asdf.arrays import AnyIntegers, Floats, Indices
from asdf.errors import AsdfError
from asdf.metrics.detection import (
    ASVSPOOF5,
    Blocks,
    Counts,
    DetCurve,
    DetectionCost,
    Weights,
    into_blocks,
    min_dcf_of,
)
from asdf.metrics.intervals import FEW, Rates, lowest_interval, rate_interval, tested_interval
from asdf.metrics.intervals import Interval as Interval
from asdf.trials.matching import align_scores
from asdf.trials.packed_names import CodedColumn
from asdf.trials.score_file import Scores

SIGNIFICANT = 0.05
"""P-value below which two systems differ significantly."""


@dataclass(frozen=True)
class Intervals:
    """The intervals of the two metrics, as fractions.

    Examples:
        >>> import numpy as np
        >>> from asdf.evaluation import Scores, confidence_intervals
        >>> rng = np.random.default_rng(0)
        >>> values = np.concatenate([rng.normal(2, 1, 50), rng.normal(0, 1, 50)])
        >>> scores = Scores([str(number) for number in range(100)], [1] * 50 + [0] * 50, values)
        >>> intervals = confidence_intervals(scores, replicates=100)
        >>> intervals.eer.low < intervals.eer.value < intervals.eer.high
        True
    """

    eer: Interval
    min_dcf: Interval


def confidence_intervals(
    scores: Scores,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
    progress: Callable[[int], None] | None = None,
    curve: DetCurve | None = None,
) -> Intervals:
    """Return bootstrap intervals of EER and minDCF.

    Without `speakers`, bona fide and spoof trials are drawn separately, so that each class keeps
    its size; with `speakers` (one per trial), speakers are drawn with all their trials. Equal seeds
    give equal intervals.

    Args:
        progress: Function called with the number of replicates drawn since its last call.
        curve: DET curve of `scores`, if it is already computed.

    Raises:
        AsdfError: a class is empty, a score is not finite, or there are fewer than two speakers.

    Examples:
        >>> from asdf.evaluation import Scores, confidence_intervals
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([1, 0], 50)
        >>> scores = Scores([f"U{i}" for i in range(100)], labels, rng.normal(size=100) + labels)
        >>> interval = confidence_intervals(scores, replicates=200).eer
        >>> interval.low < interval.value < interval.high
        True
    """
    if curve is None:
        curve = DetCurve.of_scores(scores)
    if speakers is None:
        return curve_intervals(
            curve, replicates=replicates, level=level, seed=seed, cost=cost, progress=progress
        )
    blocks = into_blocks(curve)
    rng = np.random.default_rng(seed)
    draws = speaker_block_draws(blocks, scores.labels, speakers, replicates, rng)
    groups = speakers_of_fewer_class(scores.labels, speakers)
    return _intervals(curve, blocks, draws, level, cost, progress, groups)


def curve_intervals(
    curve: DetCurve,
    *,
    replicates: int,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
    progress: Callable[[int], None] | None = None,
) -> Intervals:
    """Return the intervals over the trials of a curve: see `confidence_intervals`."""
    rng = np.random.default_rng(seed)
    blocks = into_blocks(curve)
    draws = block_draws(blocks, replicates, rng)
    return _intervals(curve, blocks, draws, level, cost, progress)


@dataclass(frozen=True, eq=False)
class BestPoint:
    """The point of a curve with the lowest detection cost.

    Attributes:
        block: Number of blocks that are rejected.
        rates: Miss and false alarm rate, (2,).
        trials: Numbers of bona fide and spoof trials, (2,).
        weights: Normalised costs of both rates when they are 1, (2,).
        cost: Costs of the point.
    """

    block: int
    rates: Floats
    trials: Floats
    weights: Floats
    cost: DetectionCost

    @classmethod
    def of(cls, blocks: Blocks, cost: DetectionCost) -> BestPoint:
        """Return the point of the blocks' trials with the lowest cost."""
        counts = np.array(blocks.counts(), np.float64)
        trials = counts.sum(axis=1)
        rejected = np.pad(counts, ((0, 0), (1, 0))).cumsum(axis=1) / trials[:, None]
        rates = np.stack([rejected[0], 1 - rejected[1]])
        weights = np.array([cost.miss_weight, cost.false_alarm_weight]) / cost.default
        block = int(np.argmin(weights @ rates))
        return cls(block, rates[:, block], trials, weights, cost)

    def rates_of(self, counts: Weights) -> Floats:
        """Return both rates of replicates at this point, (2, replicates)."""
        missed = counts.bona_fide[:, : self.block].sum(axis=1)
        rejected = counts.spoof[:, : self.block].sum(axis=1)
        return np.stack(
            [missed / counts.bona_fide.sum(axis=1), 1 - rejected / counts.spoof.sum(axis=1)]
        )


def _intervals(
    curve: DetCurve,
    blocks: Blocks,
    draws: Iterable[Weights],
    level: float,
    cost: DetectionCost,
    progress: Callable[[int], None] | None,
    groups: int | None = None,
) -> Intervals:
    best = BestPoint.of(blocks, cost)
    parts = []
    rates = []
    for counts in draws:
        part = weighted_metrics(counts.bona_fide, counts.spoof, cost)
        parts.append(part)
        if groups is not None:
            rates.append(best.rates_of(counts))
        if progress is not None:
            progress(part.shape[1])
    drawn = np.concatenate(parts, axis=1)
    rates_drawn = np.concatenate(rates, axis=1) if rates else None
    at_best = Rates(best.rates, best.weights, best.trials, rates_drawn)
    rate, _ = curve.eer()
    lowest = min_dcf_of(curve, cost)
    fewer = min(curve.bona_fide.size, curve.spoof.size)
    return Intervals(
        eer=rate_interval(rate, drawn[0], trials=fewer, groups=groups, level=level),
        min_dcf=lowest_interval(lowest, drawn[1], at_best, groups=groups, level=level),
    )


def paired_test(
    first: Scores,
    second: Scores,
    *,
    speakers: Sequence[str] | None = None,
    replicates: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    cost: DetectionCost = ASVSPOOF5,
) -> Intervals:
    """Return the differences second - first of EER and minDCF; below zero, the second is better.

    Both systems are scored on the same draws of the trials, so their common variation cancels out.
    The two-sided p-value is that of the difference over its standard deviation on these draws, from
    the normal distribution, or from Student's t with one degree of freedom less than the number of
    speakers. Counting replicates beyond zero would be less accurate: EERs move in steps, and with
    replicates at zero on both sides, two equal systems differed in 1 % of sets at a stated 5 %.

    Args:
        speakers: Speakers of the trials of `first`.

    Raises:
        AsdfError: the systems were not scored on the same trials; or as in `confidence_intervals`.

    Examples:
        >>> from asdf.evaluation import Scores, paired_test
        >>> import numpy as np
        >>> rng = np.random.default_rng(0)
        >>> labels = np.repeat([1, 0], 50)
        >>> ids = [f"U{i}" for i in range(100)]
        >>> better = Scores(ids, labels, rng.normal(size=100) + 3 * labels)
        >>> worse = Scores(ids, labels, rng.normal(size=100) + labels)
        >>> paired_test(better, worse, replicates=200).eer.p_value < 0.05
        True
    """
    first_curve = DetCurve.of_scores(first)
    second_curve = DetCurve.of_scores(align_scores("the second system", second, "the first", first))
    blocks = (into_blocks(first_curve), into_blocks(second_curve))
    # Draws of trials rather than blocks: each system has its own blocks, but the trials are shared.
    rng = np.random.default_rng(seed)
    if speakers is None:
        draws = trial_draws(first.labels, replicates, rng)
    else:
        draws = speaker_draws(first.labels, speakers, replicates, rng)
    before = []
    after = []
    for of_first, of_second in counts_of_draws(draws, blocks):
        before.append(weighted_metrics(of_first.bona_fide, of_first.spoof, cost))
        after.append(weighted_metrics(of_second.bona_fide, of_second.spoof, cost))
    groups = None
    if speakers is not None:
        groups = speakers_of_fewer_class(first.labels, speakers)
    elif (fewer := min(first_curve.bona_fide.size, first_curve.spoof.size)) < FEW:
        # As few speakers, few trials show less than the variation between them.
        groups = max(2, fewer)
    drawn = np.stack([np.concatenate(before, axis=1), np.concatenate(after, axis=1)])
    curves = (first_curve, second_curve)
    eers = np.array([curve.eer()[0] for curve in curves])
    costs = np.array([min_dcf_of(curve, cost) for curve in curves])
    return Intervals(
        eer=difference_interval(eers, drawn[:, 0], groups=groups, level=level),
        min_dcf=difference_interval(costs, drawn[:, 1], groups=groups, level=level),
    )


# Options with defaults, by keyword.
def difference_interval(
    measured: Floats,
    drawn: Floats,
    *,
    groups: int | None = None,
    of_seeds: float = 0.0,
    seed_degrees: float = math.inf,
    level: float = 0.95,
) -> Interval:
    """Return the interval and test of a difference second - first.

    The biases of two lowest costs largely cancel out; estimating them would add more error than it
    removes, and two equal systems would differ in 9 % of sets at 5 %.

    Args:
        measured: Values of the first and of the second system, (2,).
        drawn: Values of both on the same draws, (2, replicates).
        groups: Number of speakers that were drawn; None if trials were drawn.
        of_seeds: Variance of the difference due to seeds, with `seed_degrees` degrees of freedom.
    """
    variance = float((drawn[1] - drawn[0]).var())
    degrees = math.inf
    if groups is not None:
        # Replicates of n groups show (n - 1) / n of the variance.
        variance *= groups / (groups - 1)
        degrees = groups - 1
    total = variance + of_seeds
    if of_seeds:
        # Satterthwaite, Biometrics Bulletin 2, 1946.
        degrees = total**2 / (variance**2 / degrees + of_seeds**2 / seed_degrees)
    difference = float(measured[1] - measured[0])
    return tested_interval(difference, math.sqrt(total), degrees=degrees, level=level)


# Up to this many trials are drawn one by one in the time of one binomial draw.
_SMALL_BLOCK = 12
# Numbers in memory at a time, since replicates of a million trials would take gigabytes.
_NUMBERS_AT_ONCE = 2_000_000
_CACHED_NUMBERS = 1 << 14


def weighted_metrics(bona_fide: Counts, spoof: Counts, cost: DetectionCost = ASVSPOOF5) -> Floats:
    """Return EER and minDCF of replicates from the counts of each block.

    Some replicates at a time, whose numbers stay in the cache.

    Args:
        bona_fide, spoof: Counts (replicates, blocks), each row with at least one trial of each
            class.

    Returns:
        Values of `eer` and `min_dcf` for the repeated trials, (2, replicates), exact to the last
        bit for the EER.
    """
    replicates, blocks = bona_fide.shape
    metrics = np.empty((2, replicates))
    step = max(1, _CACHED_NUMBERS // blocks)
    for start in range(0, replicates, step):
        part = slice(start, start + step)
        missed = _running_total(bona_fide[part])
        rejected = _running_total(spoof[part])
        accepted = rejected[:, -1:] - rejected
        frr = missed / missed[:, -1:]
        far = accepted / rejected[:, -1:]
        frr *= cost.miss_weight
        far *= cost.false_alarm_weight
        frr += far
        metrics[0, part] = _equal_error_rates(missed, rejected, accepted)
        metrics[1, part] = frr.min(axis=1) / cost.default
    return metrics


def replicate_eer(counts: Weights) -> float:
    """Return the EER of a single replicate from the counts of its blocks, (blocks,) each."""
    return float(weighted_metrics(counts.bona_fide[None], counts.spoof[None])[0, 0])


def _running_total(counts: Counts) -> Counts:
    """Return the number of trials in the first 0, 1, ... blocks: (replicates, blocks + 1)."""
    replicates, blocks = counts.shape
    totals = np.zeros((replicates, blocks + 1), np.int64)
    counts.cumsum(axis=1, out=totals[:, 1:])
    return totals


def _equal_error_rates(missed: Counts, rejected: Counts, accepted: Counts) -> Floats:
    """Return the EER of each replicate from its counts at the ends of blocks, in integers.

    The curve crosses frr = far inside the first block whose end has frr >= far: along its bona fide
    trials (misses grow) or, if these do not suffice, along its spoof trials.
    """
    all_bona_fide = missed[:, -1:]
    all_spoof = rejected[:, -1:]
    # frr - far times both numbers of trials, since rounded rates may cross one trial too early.
    excess = missed * all_spoof - accepted * all_bona_fide
    end = (excess >= 0).argmax(axis=1)[:, None]
    start = end - 1
    missed_before = _take_blocks(missed, start)
    missed_after = _take_blocks(missed, end)
    rejected_before = _take_blocks(rejected, start)
    lack = -_take_blocks(excess, start)
    # Trials from the start of the block to the first one at which frr >= far, rounded up.
    bona_fide_in_block = missed_after - missed_before
    bona_fide_steps = -(-lack // all_spoof)
    lack_at_spoofs = lack - bona_fide_in_block * all_spoof
    spoof_steps = -(-lack_at_spoofs // all_bona_fide)
    is_among_bona_fide = bona_fide_steps <= bona_fide_in_block
    # The EER is at that trial or the one before, whichever has the closer rates.
    last_two = np.array([-1, 0])
    missed_near = missed_before + bona_fide_steps + last_two
    missed_near = np.where(is_among_bona_fide, missed_near, missed_after)
    rejected_near = rejected_before + spoof_steps + last_two
    rejected_near = np.where(is_among_bona_fide, rejected_before, rejected_near)
    frr = missed_near / all_bona_fide
    far = (all_spoof - rejected_near) / all_spoof
    closer = np.abs(frr - far).argmin(axis=1)[:, None]
    rates = (frr + far) / 2
    return np.take_along_axis(rates, closer, axis=1)[:, 0]


def _take_blocks(counts: Counts, block: Indices) -> Counts:
    """Return the count of each replicate at its own block, (replicates, 1)."""
    return np.take_along_axis(counts, block, axis=1)


def block_draws(blocks: Blocks, replicates: int, rng: np.random.Generator) -> Iterator[Weights]:
    """Draw trials with replacement; counts of blocks are then multinomial.

    Yields:
        Counts of each block, (some replicates, blocks).
    """
    counts = blocks.counts()
    step = max(1, _NUMBERS_AT_ONCE // blocks.count)
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        bona_fide = _multinomial(counts.bona_fide, size, rng)
        spoof = _multinomial(counts.spoof, size, rng)
        yield Weights(bona_fide, spoof)


def _multinomial(counts: Counts, replicates: int, rng: np.random.Generator) -> Counts:
    """Draw all trials with replacement from blocks of `counts` (blocks,) trials.

    A binomial draw for each block takes longer than drawing the trials of a small block one by one,
    so small blocks share one draw, whose trials are distributed among them.

    Returns:
        Counts of the blocks, (replicates, blocks).
    """
    large = np.flatnonzero(counts > _SMALL_BLOCK)
    small = np.flatnonzero(counts <= _SMALL_BLOCK)
    block_of_trial = np.repeat(small, counts[small])
    all_trials = counts.sum()
    all_small = block_of_trial.size
    shares = np.append(counts[large], all_small) / all_trials
    drawn = rng.multinomial(all_trials, shares, size=replicates)
    result = np.empty((replicates, counts.size), np.int64)
    for row, trials in zip(result, drawn[:, -1], strict=True):
        # Without small blocks, none of their trials is drawn, but a range must not be empty.
        indices = rng.integers(max(1, all_small), size=trials)
        row[:] = np.bincount(block_of_trial[indices], minlength=counts.size)
    result[:, large] = drawn[:, :-1]
    return result


def trial_draws(
    labels: AnyIntegers, replicates: int, rng: np.random.Generator
) -> Iterator[Weights]:
    """Draw trials with replacement; yield how often each bona fide and each spoof one is drawn."""
    count_bona_fide = int((labels == 1).sum())
    count_spoof = int((labels == 0).sum())
    for _ in range(replicates):
        bona_fide = times_drawn(count_bona_fide, rng)
        spoof = times_drawn(count_spoof, rng)
        yield Weights(bona_fide, spoof)


def counts_of_draws(draws: Iterable[Weights], curves: Sequence[Blocks]) -> Iterator[list[Weights]]:
    """Yield the counts of each curve's blocks in draws of trials that all curves share.

    Yields:
        Counts of each curve, (some replicates, blocks of the curve), in the order of `draws`.
    """
    # Metrics of many replicates at once take little longer than those of one.
    step = max(1, _NUMBERS_AT_ONCE // sum(blocks.count for blocks in curves))
    remaining = iter(draws)
    while True:
        sums: list[list[Weights]] = [[] for _ in curves]
        for weights in islice(remaining, step):
            for of_curve, blocks in zip(sums, curves, strict=True):
                of_curve.append(blocks.sums(weights.bona_fide, weights.spoof))
        if not sums[0]:
            return
        yield [Weights(*map(np.stack, zip(*of_curve, strict=True))) for of_curve in sums]


def times_drawn(count: int, rng: np.random.Generator) -> Counts:
    """Draw `count` of `count` items with replacement; return how often each is drawn."""
    return np.bincount(rng.integers(count, size=count), minlength=count)


def speaker_draws(
    labels: AnyIntegers, speakers: Sequence[str], replicates: int, rng: np.random.Generator
) -> Iterator[Weights]:
    """Draw whole speakers; yield how often each bona fide and each spoof trial is drawn."""
    classes = _SpeakersOfClasses(labels, speakers)
    for times in classes.draw(replicates, rng):
        yield Weights(times[classes.bona_fide], times[classes.spoof])


def speaker_block_draws(
    blocks: Blocks,
    labels: AnyIntegers,
    speakers: Sequence[str],
    replicates: int,
    rng: np.random.Generator,
) -> Iterator[Weights]:
    """Yield counts of each block, (some replicates, blocks), in the draws of `speaker_draws`.

    The trials of each speaker in each block are counted once, so the cost of a replicate is
    proportional to the number of such pairs, not of trials.
    """
    classes = _SpeakersOfClasses(labels, speakers)
    bona_fide = _Pairs(blocks.of_bona_fide, classes.bona_fide, blocks.count)
    spoof = _Pairs(blocks.of_spoof, classes.spoof, blocks.count)
    largest = max(blocks.count, bona_fide.speakers.size, spoof.speakers.size)
    step = max(1, _NUMBERS_AT_ONCE // largest)
    draws = classes.draw(replicates, rng)
    times = list(islice(draws, step))
    while times:
        times_drawn = np.array(times, np.int64)
        yield Weights(bona_fide.counts(times_drawn), spoof.counts(times_drawn))
        times = list(islice(draws, step))


def speakers_of_fewer_class(labels: AnyIntegers, speakers: Sequence[str]) -> int:
    """Return the number of speakers in the class with fewer of them; at least 2."""
    codes = CodedColumn.of(speakers).codes
    counts = [int(np.count_nonzero(np.bincount(codes[labels == label]))) for label in (0, 1)]
    # A class with one speaker has no spread over speakers, but that of the other class is known.
    return max(2, min(counts))


class _SpeakersOfClasses:
    """The speaker of each bona fide and of each spoof trial, as a number in alphabetical order."""

    def __init__(self, labels: AnyIntegers, speakers: Sequence[str]) -> None:
        if len(speakers) != labels.size:
            raise ValueError(f"{len(speakers)} speakers for {labels.size} trials")
        column = CodedColumn.of(speakers)
        self._count = len(column.values)
        if self._count < 2:
            raise AsdfError(
                "an interval over speakers needs at least two speakers; leave speakers out to draw "
                "trials."
            )
        self.bona_fide = column.codes[labels == 1]
        self.spoof = column.codes[labels == 0]

    def draw(self, replicates: int, rng: np.random.Generator) -> Iterator[Counts]:
        """Yield how often each speaker is drawn, (speakers,).

        A draw that lacks a class has no EER and is repeated.
        """
        has_bona_fide = np.bincount(self.bona_fide, minlength=self._count) > 0
        has_spoof = np.bincount(self.spoof, minlength=self._count) > 0
        done = 0
        while done < replicates:
            times = times_drawn(self._count, rng)
            drawn = times > 0
            if (has_bona_fide & drawn).any() and (has_spoof & drawn).any():
                done += 1
                yield times


class _Pairs:
    """The pairs (block, speaker) of one class's trials, in the order of blocks.

    Attributes:
        speakers, trials: Speaker and number of trials of each pair, (pairs,).
    """

    def __init__(self, block: Indices, speaker: Indices, blocks: int) -> None:
        base = int(speaker.max()) + 1
        # A pair as one number, since np.unique takes far longer with rows of two.
        pairs, self.trials = np.unique(block * base + speaker, return_counts=True)
        block_of_pair, self.speakers = np.divmod(pairs, base)
        self._filled, self._starts = np.unique(block_of_pair, return_index=True)
        self._blocks = blocks

    def counts(self, times: Counts) -> Counts:
        """Count the trials of each block, (replicates, blocks).

        Args:
            times: Number of times that each speaker is drawn, (replicates, speakers).
        """
        result = np.zeros((len(times), self._blocks), np.int64)
        # One row at a time, which stays in the cache.
        for row, drawn in zip(result, times, strict=True):
            weights = drawn[self.speakers] * self.trials
            # For a block without pairs, reduceat would return the next one's first, so it is left
            # out.
            row[self._filled] = np.add.reduceat(weights, self._starts)
        return result
