"""How well an order is shuffled, against a global shuffle of the same turns.

Two things are measured of the minibatches of an epoch: how often two of their turns are of one
shard, and how much the number of bona fide turns varies from one to the next. For a global shuffle
both have a closed form, of drawing without replacement.

Shapes: N turns, M whole minibatches of B turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers


@dataclass(frozen=True)
class Shuffling:
    """What was measured of an order, and what is expected of a global shuffle.

    Attributes:
        neighbours: Share of the pairs of turns in a minibatch that are of one shard.
        neighbours_expected: Expectation of that share in a global shuffle.
        variance: Mean square deviation of a minibatch's number of bona fide turns from its
            expectation.
        variance_expected: Variance of that number in a global shuffle; 0 where all are of one
            class.
    """

    neighbours: float
    neighbours_expected: float
    variance: float
    variance_expected: float

    def describe(self) -> str:
        """Return both in words."""
        text = (
            f"{100 * self.neighbours:.2f} % of the pairs in a minibatch are of one shard "
            f"({100 * self.neighbours_expected:.2f} % in a global shuffle)"
        )
        if not self.variance_expected:
            return text
        ratio = self.variance / self.variance_expected
        return f"{text}; bona fide per minibatch vary {ratio:.2f} times as in one"


def measure_shuffling(
    shards_N: AnyIntegers, labels_N: AnyIntegers, minibatch: int
) -> Shuffling | None:
    """Measure an order; None where it has no whole minibatch of two turns or more.

    Args:
        shards_N: Number of the shard of each turn, in the order of the turns.
        labels_N: Label of each turn's utterance.
        minibatch: Number of turns of a minibatch.
    """
    count = len(shards_N)
    batches = count // minibatch
    if minibatch < 2 or not batches:
        return None
    used = batches * minibatch
    batch_N = np.repeat(np.arange(batches), minibatch)
    # One number per minibatch and shard.
    keys = batch_N * (int(shards_N.max()) + 1) + shards_N[:used]
    _, together = np.unique(keys, return_counts=True)
    neighbours = _pairs(together) / (batches * minibatch * (minibatch - 1))
    neighbours_expected = _pairs(np.bincount(shards_N)) / (count * (count - 1))
    is_bona_fide = labels_N == 1
    share = float(is_bona_fide.mean())
    bona_fide_M = is_bona_fide[:used].reshape(batches, minibatch).sum(axis=1)
    variance = float(np.square(bona_fide_M - minibatch * share).mean())
    # Of the hypergeometric distribution.
    not_drawn = (count - minibatch) / max(1, count - 1)
    variance_expected = minibatch * share * (1 - share) * not_drawn
    return Shuffling(neighbours, neighbours_expected, variance, variance_expected)


def _pairs(counts_G: AnyIntegers) -> int:
    """Return the number of ordered pairs within groups of these sizes."""
    return int((counts_G.astype(np.int64) * (counts_G - 1)).sum())
