"""The quality of an order's shuffling, compared with a global shuffle of the same turns.

Two properties of an epoch's minibatches are measured: how often two of their turns come from one
shard, and how much their number of bona fide turns varies. For a global shuffle, both have a closed
form, from drawing without replacement.

Shapes: N turns, M whole minibatches of B turns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import AnyIntegers


@dataclass(frozen=True)
class Shuffling:
    """The measured shuffling of an order, and the expectation for a global shuffle.

    Attributes:
        neighbours: Proportion of pairs of turns in a minibatch that come from one shard.
        neighbours_expected: Expectation of that proportion in a global shuffle.
        variance: Mean square deviation of a minibatch's number of bona fide turns from its
            expectation.
        variance_expected: Variance of that number in a global shuffle; 0 with a single class.
    """

    neighbours: float
    neighbours_expected: float
    variance: float
    variance_expected: float

    def describe(self) -> str:
        """Return both results in words."""
        text = (
            f"{100 * self.neighbours:.2f} % of the pairs in a minibatch are of one shard "
            f"({100 * self.neighbours_expected:.2f} % in a global shuffle)"
        )
        if not self.variance_expected:
            return text
        ratio = self.variance / self.variance_expected
        return f"{text}; bona fide per minibatch vary {ratio:.2f} times as much as in one"


def measure_shuffling(
    shards_N: AnyIntegers, labels_N: AnyIntegers, minibatch: int
) -> Shuffling | None:
    """Measure an order; None if it has no whole minibatch of at least two turns.

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
    # The factor of the hypergeometric distribution.
    not_drawn = (count - minibatch) / max(1, count - 1)
    variance_expected = minibatch * share * (1 - share) * not_drawn
    return Shuffling(neighbours, neighbours_expected, variance, variance_expected)


def _pairs(counts_G: AnyIntegers) -> int:
    """Return the number of ordered pairs within groups of these sizes."""
    return int((counts_G.astype(np.int64) * (counts_G - 1)).sum())
