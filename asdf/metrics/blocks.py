"""Sorted trials in blocks: first some bona fide, then some spoof.

A block ends wherever a bona fide trial follows a spoof one.

Invariant: no metric depends on the order of one class's trials inside a block. The cost of a
threshold falls along spoof trials and rises along bona fide ones, so its minimum lies between
blocks; isotonic regression pools a block anyway. A good system has few blocks (a published one 338
for 71,237 trials), which makes the bootstrap and min Cllr cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.metrics.detection import DetCurve

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Blocks:
    """The block of each trial, in the order of the curve's arguments; blocks ascend by score."""

    of_bona_fide: npt.NDArray[np.intp]
    of_spoof: npt.NDArray[np.intp]
    count: int

    def sums(self, bona_fide: npt.NDArray, spoof: npt.NDArray) -> tuple[Counts, Counts]:
        """Sum integer weights of the trials over each block: two arrays of shape (blocks,)."""
        return (
            np.bincount(self.of_bona_fide, bona_fide, self.count).astype(np.int64),
            np.bincount(self.of_spoof, spoof, self.count).astype(np.int64),
        )

    def counts(self) -> tuple[Counts, Counts]:
        """Count the bona fide and the spoof trials of each block: two arrays of shape (blocks,)."""
        return (
            np.bincount(self.of_bona_fide, minlength=self.count),
            np.bincount(self.of_spoof, minlength=self.count),
        )


def into_blocks(curve: DetCurve) -> Blocks:
    """Put the trials of both classes into blocks."""
    is_bona_fide = curve.is_bona_fide
    opens = np.concatenate([[False], is_bona_fide[1:] & ~is_bona_fide[:-1]])
    block = np.empty(curve.order.size, np.intp)
    block[curve.order] = np.cumsum(opens)
    split = curve.bona_fide.size
    return Blocks(block[:split], block[split:], int(opens.sum()) + 1)
