"""Replicates of a set of trials, as how often each trial, or a trial of each block, is drawn; and their metrics.

Invariant: a replicate's EER is the official one of the trials written out as often as they were drawn. Repeats of one
trial are steps of the DET curve too, so the point of equal rates may lie between them; it is found by counting.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.evaluation.blocks import Blocks
from asdf.evaluation.costs import ASVSPOOF5, DetectionCost
from asdf.evaluation.detection import Floats

Counts = npt.NDArray[np.int64]
# Of the bona fide trials (or their blocks) and of the spoof trials.
Weights = tuple[Counts, Counts]


def weighted_metrics(bona_fide: Counts, spoof: Counts, cost: DetectionCost = ASVSPOOF5) -> Floats:
    """EER and minDCF of replicates of which only the counts of each block are known.

    Args:
        bona_fide, spoof: (replicates, blocks), each row with at least one trial of each class.

    Returns:
        (2, replicates): the values of `eer` and `min_dcf` for the trials written out, to the last bit of the EER.
    """
    bona_fide, spoof = (np.pad(counts, ((0, 0), (1, 0))).cumsum(axis=1) for counts in (bona_fide, spoof))
    all_b, all_s = bona_fide[:, -1:], spoof[:, -1:]
    dcf = cost.miss_weight * (bona_fide / all_b) + cost.false_alarm_weight * ((all_s - spoof) / all_s)
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
    step = max(1, 2_000_000 // blocks.count)
    for start in range(0, replicates, step):
        size = min(step, replicates - start)
        bona_fide, spoof = (rng.multinomial(c.sum(), c / c.sum(), size=size) for c in counts)
        yield bona_fide, spoof


def trial_draws(labels: npt.NDArray[np.int64], replicates: int, rng: np.random.Generator) -> Iterator[Weights]:
    """How often each bona fide and each spoof trial is drawn."""
    sizes = int((labels == 1).sum()), int((labels == 0).sum())
    for _ in range(replicates):
        bona_fide, spoof = (np.bincount(rng.integers(n, size=n), minlength=n) for n in sizes)
        yield bona_fide, spoof


def speaker_draws(
    labels: npt.NDArray[np.int64], speakers: Sequence[str], replicates: int, rng: np.random.Generator
) -> Iterator[Weights]:
    """The same, where whole speakers are drawn; a draw that lacks a class has no EER and is drawn again."""
    if len(speakers) != labels.size:
        raise ValueError(f"{len(speakers)} speakers for {labels.size} trials")
    names, index = np.unique(np.asarray(speakers), return_inverse=True)
    if names.size < 2:
        raise AsdfError("an interval over speakers needs at least two speakers; leave speakers out to draw trials.")
    bona_fide, spoof = index[labels == 1], index[labels == 0]
    done = 0
    while done < replicates:
        times = np.bincount(rng.integers(names.size, size=names.size), minlength=names.size)
        weights = times[bona_fide], times[spoof]
        if all(w.any() for w in weights):
            done += 1
            yield weights
