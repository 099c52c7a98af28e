"""Sorted trials in blocks: first some bona fide, then some spoof, cut wherever a bona fide trial follows a spoof one.

Invariant: no metric can tell the trials of a block's one class apart. The cost of a threshold falls along spoof trials
and rises along bona fide ones, so its minimum lies between blocks; isotonic regression pools a block anyway. A good
system has few blocks (a published one 338 for 71,237 trials), which makes the bootstrap and min Cllr cheap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from asdf.evaluation.detection import Floats, pessimistic_order


@dataclass(frozen=True, eq=False)
class Blocks:
    """Which block each trial lies in, in the order in which the trials were given; blocks ascend by score."""

    of_bona_fide: npt.NDArray[np.intp]
    of_spoof: npt.NDArray[np.intp]
    count: int

    def sums(
        self, bona_fide: npt.NDArray, spoof: npt.NDArray
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Whole-number weights of the trials, summed over each block: two arrays of shape (blocks,)."""
        return (
            np.bincount(self.of_bona_fide, bona_fide, self.count).astype(np.int64),
            np.bincount(self.of_spoof, spoof, self.count).astype(np.int64),
        )

    def counts(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The numbers of bona fide and of spoof trials of each block: two arrays of shape (blocks,)."""
        return (
            np.bincount(self.of_bona_fide, minlength=self.count),
            np.bincount(self.of_spoof, minlength=self.count),
        )


def into_blocks(bona_fide: Floats, spoof: Floats) -> Blocks:
    """Put the trials of both classes into blocks."""
    order = pessimistic_order(bona_fide, spoof)
    is_bona_fide = order < bona_fide.size
    opens = np.concatenate([[False], is_bona_fide[1:] & ~is_bona_fide[:-1]])
    block = np.empty(order.size, np.intp)
    block[order] = np.cumsum(opens)
    return Blocks(block[: bona_fide.size], block[bona_fide.size :], int(opens.sum()) + 1)
