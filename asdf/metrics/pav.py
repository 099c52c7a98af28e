"""Pool-adjacent-violators (PAV): the rising map of scores to log-likelihood ratios of lowest Cllr.

Invariant: pools are of blocks of the one order of trials (`asdf.metrics.detection`), so that equal
scores get equal ratios, and `min_cllr` and every picture of PAV are of the same pools.

Source: Brümmer and du Preez, Computer Speech & Language 2006; raw proportions as in the BOSARIS
toolkit's `opt_loglr`, with no smoothing of the ends, whose ratios are 0 or infinite.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.arrays import Floats, Integers
from asdf.metrics.detection import DetCurve, into_blocks


@dataclass(frozen=True, eq=False)
class Pools:
    """Pools of neighbouring blocks, in which the proportion of bona fide trials rises.

    Attributes:
        bona_fide, spoof: (pools,), numbers of trials of each pool.
        blocks: (pools,), numbers of blocks that each pool is made of.
    """

    bona_fide: Integers
    spoof: Integers
    blocks: Integers

    @classmethod
    def of(cls, curve: DetCurve) -> Pools:
        """Pool the blocks of a curve's trials."""
        pools: list[tuple[int, int, int]] = []
        counts = into_blocks(curve).counts()
        both = zip(counts.bona_fide.tolist(), counts.spoof.tolist(), strict=True)
        for bona_fide, spoof in both:
            blocks = 1
            # Cross-multiplied, so that no count of spoofs is divided by.
            while pools and pools[-1][0] * spoof >= bona_fide * pools[-1][1]:
                before = pools.pop()
                bona_fide += before[0]
                spoof += before[1]
                blocks += before[2]
            pools.append((bona_fide, spoof, blocks))
        return cls(*np.array(pools, dtype=np.int64).reshape(-1, 3).T)

    def llrs(self) -> Floats:
        """Return the natural-log likelihood ratio of each pool, (pools,); the ends may be ±inf."""
        with np.errstate(divide="ignore"):
            bona_fide = np.log(self.bona_fide / self.bona_fide.sum())
            spoof = np.log(self.spoof / self.spoof.sum())
        ratios: Floats = bona_fide - spoof
        return ratios


def pav_llrs(curve: DetCurve) -> tuple[Floats, Floats]:
    """Return the natural-log likelihood ratios that PAV gives the trials of a curve.

    Returns:
        Ratios of the bona fide and of the spoof trials, each in the order of the curve's arguments;
        -inf and inf below and above all trials of the other class.
    """
    pools = Pools.of(curve)
    of_block = np.repeat(pools.llrs(), pools.blocks)
    blocks = into_blocks(curve)
    return of_block[blocks.of_bona_fide], of_block[blocks.of_spoof]
