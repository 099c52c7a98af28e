"""Replicates of a set of trials, as how often each trial, or a trial of each block, is drawn; and their metrics.

Invariant: a replicate's EER is the official one of the trials written out as often as they were drawn. Repeats of one
trial are steps of the DET curve too, so the point of equal rates may lie between them; it is found by counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.metrics.blocks import Blocks
from asdf.metrics.costs import ASVSPOOF5, DetectionCost
from asdf.metrics.detection import Floats

Counts = npt.NDArray[np.int64]
# Of the bona fide trials (or their blocks) and of the spoof trials.
Weights = tuple[Counts, Counts]
# Trials of a block that are drawn one by one in the time of one binomial number.
_SMALL_BLOCK = 12
# Numbers that are held at a time, so that replicates of a million trials need no gigabytes.
_AT_ONCE = 2_000_000


def weighted_metrics(bona_fide: Counts, spoof: Counts, cost: DetectionCost = ASVSPOOF5) -> Floats:
    """EER and minDCF of replicates of which only the counts of each block are known.

    Args:
        bona_fide, spoof: (replicates, blocks), each row with at least one trial of each class.

    Returns:
        (2, replicates): the values of `eer` and `min_dcf` for the trials written out, to the last bit of the EER.
    """
    bona_fide, spoof = (
        np.pad(counts, ((0, 0), (1, 0))).cumsum(axis=1) for counts in (bona_fide, spoof)
    )
    all_b, all_s = bona_fide[:, -1:], spoof[:, -1:]
    dcf = cost.miss_weight * (bona_fide / all_b) + cost.false_alarm_weight * (
        (all_s - spoof) / all_s
    )
    # The curve crosses frr = far inside the first block whose end has frr >= far: along its bona fide trials (misses
    # grow) or, if they do not suffice, along its spoof trials. In whole numbers: excess = (frr - far) * all_b * all_s.
    excess = bona_fide * all_s - (all_s - spoof) * all_b
    end = (excess >= 0).argmax(axis=1)[:, None]
    b0, s0 = (np.take_along_axis(counts, end - 1, axis=1) for counts in (bona_fide, spoof))
    b1 = np.take_along_axis(bona_fide, end, axis=1)
    lack = (all_s - s0) * all_b - b0 * all_s
    steps_b = -(-lack // all_s)
    steps_s = -(-(lack - (b1 - b0) * all_s) // all_b)
    crosses = steps_b <= b1 - b0
    last_two = np.array([-1, 0])
    b_near = np.where(crosses, b0 + steps_b + last_two, b1)
    s_near = np.where(crosses, s0, s0 + steps_s + last_two)
    frr, far = b_near / all_b, (all_s - s_near) / all_s
    nearer = np.abs(frr - far).argmin(axis=1)[:, None]
    eers = np.take_along_axis((frr + far) / 2, nearer, axis=1)[:, 0]
    return np.stack([eers, dcf.min(axis=1) / cost.default])


def block_draws(blocks: Blocks, replicates: int, rng: np.random.Generator) -> Iterator[Weights]:
    """Counts of each block, (some replicates, blocks): trials drawn with replacement are multinomial over blocks."""
    counts = blocks.counts()
    step = max(1, _AT_ONCE // blocks.count)
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        bona_fide, spoof = (_multinomial(c, size, rng) for c in counts)
        yield bona_fide, spoof


def _multinomial(counts: Counts, replicates: int, rng: np.random.Generator) -> Counts:
    """Counts of the blocks when all trials are drawn with replacement from `counts` (blocks,): (replicates, blocks).

    A binomial number for each block takes longer than the trials of a small block drawn one by one. So the small blocks
    share one number, and its trials are dealt out among them.
    """
    large = np.flatnonzero(counts > _SMALL_BLOCK)
    small = np.flatnonzero(counts <= _SMALL_BLOCK)
    block_of_trial = np.repeat(small, counts[small])
    shares = np.append(counts[large], block_of_trial.size)
    drawn = rng.multinomial(counts.sum(), shares / counts.sum(), size=replicates)
    result = np.empty((replicates, counts.size), np.int64)
    for row, trials in zip(result, drawn[:, -1], strict=True):
        chosen = block_of_trial[rng.integers(max(1, block_of_trial.size), size=trials)]
        row[:] = np.bincount(chosen, minlength=counts.size)
    result[:, large] = drawn[:, :-1]
    return result


def trial_draws(
    labels: npt.NDArray[np.integer], replicates: int, rng: np.random.Generator
) -> Iterator[Weights]:
    """How often each bona fide and each spoof trial is drawn."""
    sizes = int((labels == 1).sum()), int((labels == 0).sum())
    for _ in range(replicates):
        bona_fide, spoof = (np.bincount(rng.integers(n, size=n), minlength=n) for n in sizes)
        yield bona_fide, spoof


def speaker_draws(
    labels: npt.NDArray[np.integer],
    speakers: Sequence[str],
    replicates: int,
    rng: np.random.Generator,
) -> Iterator[Weights]:
    """The same, where whole speakers are drawn."""
    index, count = _speaker_of_trial(labels, speakers)
    bona_fide, spoof = index[labels == 1], index[labels == 0]
    for times in _speaker_times(bona_fide, spoof, count, replicates, rng):
        yield times[bona_fide], times[spoof]


def speaker_block_draws(
    blocks: Blocks,
    labels: npt.NDArray[np.integer],
    speakers: Sequence[str],
    replicates: int,
    rng: np.random.Generator,
) -> Iterator[Weights]:
    """Counts of each block, (some replicates, blocks), in the draws that `speaker_draws` makes with this `rng`.

    How many trials each speaker has in each block is counted once, so that a replicate costs as much as there are such
    pairs, not trials.
    """
    index, count = _speaker_of_trial(labels, speakers)
    bona_fide, spoof = index[labels == 1], index[labels == 0]
    pairs = (
        _Pairs(blocks.of_bona_fide, bona_fide, blocks.count),
        _Pairs(blocks.of_spoof, spoof, blocks.count),
    )
    step = max(1, _AT_ONCE // max(blocks.count, *(len(p.speakers) for p in pairs)))
    rows = _speaker_times(bona_fide, spoof, count, replicates, rng)
    while len(times := np.array(list(islice(rows, step)), np.int64)):
        yield pairs[0].counts(times), pairs[1].counts(times)


class _Pairs:
    """The pairs (block, speaker) that trials of a class have, in the order of blocks, and how many trials each has."""

    def __init__(
        self, block: npt.NDArray[np.intp], speaker: npt.NDArray[np.intp], blocks: int
    ) -> None:
        names = int(speaker.max()) + 1
        pairs, self.trials = np.unique(block * names + speaker, return_counts=True)
        block, self.speakers = np.divmod(pairs, names)
        self._filled, self._starts = np.unique(block, return_index=True)
        self._blocks = blocks

    def counts(self, times: Counts) -> Counts:
        """Trials of each block, (replicates, blocks), for `times` (replicates, speakers) that each speaker is drawn."""
        result = np.zeros((len(times), self._blocks), np.int64)
        # A row at a time: it stays in the cache.
        for row, drawn in zip(result, times, strict=True):
            row[self._filled] = np.add.reduceat(drawn[self.speakers] * self.trials, self._starts)
        return result


def _speaker_of_trial(
    labels: npt.NDArray[np.integer], speakers: Sequence[str]
) -> tuple[npt.NDArray[np.intp], int]:
    """The number of each trial's speaker, in alphabetical order, and how many speakers there are."""
    if len(speakers) != labels.size:
        raise ValueError(f"{len(speakers)} speakers for {labels.size} trials")
    names, index = np.unique(np.asarray(speakers), return_inverse=True)
    if names.size < 2:
        raise AsdfError(
            "an interval over speakers needs at least two speakers; leave speakers out to draw trials."
        )
    return index, names.size


def _speaker_times(
    bona_fide: npt.NDArray[np.intp],
    spoof: npt.NDArray[np.intp],
    count: int,
    replicates: int,
    rng: np.random.Generator,
) -> Iterator[Counts]:
    """How often each speaker is drawn, (speakers,); a draw that lacks a class has no EER and is drawn again."""
    classes = np.stack([np.bincount(index, minlength=count) > 0 for index in (bona_fide, spoof)])
    done = 0
    while done < replicates:
        times = np.bincount(rng.integers(count, size=count), minlength=count)
        if (classes & (times > 0)).any(axis=1).all():
            done += 1
            yield times
