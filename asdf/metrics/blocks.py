"""Sorted trials in blocks: first some bona fide, then some spoof.

A block ends wherever a bona fide trial follows a spoof one.

Invariant: no metric depends on the order of one class's trials inside a block. The cost of a
threshold falls along spoof trials and rises along bona fide ones, so its minimum lies between
blocks; isotonic regression pools a block anyway. A good system has few blocks (a published one 338
for 71,237 trials), which makes the bootstrap and min Cllr cheap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from asdf.arrays import Indices, Integers
from asdf.metrics.detection import DetCurve

Counts = Integers


class Weights(NamedTuple):
    """How often trials are counted, for each trial or block of one class and of the other."""

    bona_fide: Counts
    spoof: Counts


@dataclass(frozen=True, eq=False)
class Blocks:
    """The block of each trial, in the order of the curve's arguments; blocks ascend by score."""

    of_bona_fide: Indices
    of_spoof: Indices
    count: int

    def sums(self, bona_fide: Counts, spoof: Counts) -> Weights:
        """Sum integer weights of the trials over each block: two arrays of shape (blocks,)."""
        bona_fide_sums = np.bincount(self.of_bona_fide, bona_fide, self.count)
        spoof_sums = np.bincount(self.of_spoof, spoof, self.count)
        # bincount adds weights in float64, exactly here; the EER is decided in whole numbers.
        return Weights(bona_fide_sums.astype(np.int64), spoof_sums.astype(np.int64))

    def counts(self) -> Weights:
        """Count the bona fide and the spoof trials of each block: two arrays of shape (blocks,)."""
        # The last blocks may lack a class, and bincount ends with the last one that has some of it.
        return Weights(
            bona_fide=np.bincount(self.of_bona_fide, minlength=self.count),
            spoof=np.bincount(self.of_spoof, minlength=self.count),
        )


def into_blocks(curve: DetCurve) -> Blocks:
    """Put the trials of both classes into blocks."""
    is_bona_fide = curve.is_bona_fide
    follows_spoof = ~is_bona_fide[:-1]
    opens = is_bona_fide[1:] & follows_spoof
    block_in_order = np.concatenate([[0], np.cumsum(opens)])
    block = np.empty(curve.order.size, np.intp)
    block[curve.order] = block_in_order
    split = curve.bona_fide.size
    return Blocks(
        of_bona_fide=block[:split],
        of_spoof=block[split:],
        count=int(opens.sum()) + 1,
    )
