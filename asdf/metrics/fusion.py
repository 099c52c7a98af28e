"""Fusion of several systems' scores of the same trials, fitted on a development set.

Invariant: the fused score of a trial depends only on its own scores, not on other trials, so a
single recording and a list get the same scores.

A rank is the proportion of the development set's scores below a score, with ties counting half.
Between two of these scores it is interpolated, and beyond the lowest and highest it approaches 0
and 1, so that no two scores become equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from asdf.arrays import Floats, Labels
from asdf.errors import AsdfError, UsageError
from asdf.metrics.calibration import are_finite, are_knots
from asdf.metrics.llr_maps import fit_llr, fit_weights

METHODS = {
    "logistic": "logistic regression: the weighted sum of the scores that is the best LLR",
    "mean": "the mean of the systems' LLRs, each calibrated by itself",
    "rank": "the mean of the scores' ranks in the development set",
}
"""The methods, with their descriptions."""

_MOST_KNOTS = 1024
"""Maximum number of the development set's scores for ranks; others are interpolated."""


@dataclass(frozen=True)
class Ranks:
    """The ranks of a system's scores: an increasing map from scores to numbers from 0 to 1.

    Attributes:
        scores: Distinct scores of the development set, ascending.
        ranks: Rank of each of them.
        spread: Standard deviation of all scores, the unit beyond both ends.
    """

    scores: tuple[float, ...]
    ranks: tuple[float, ...]
    spread: float

    @classmethod
    def of(cls, scores_N: Floats) -> Ranks:
        """Return the ranks of a set's scores.

        Raises:
            AsdfError: all scores are equal.
        """
        values, counts = np.unique(scores_N, return_counts=True)
        if values.size < 2:
            raise AsdfError(
                "all scores are equal, so they have no ranks. Did the training diverge?"
            )
        ranks = (np.cumsum(counts) - counts / 2) / scores_N.size
        if values.size > _MOST_KNOTS:
            chosen = np.linspace(0, values.size - 1, _MOST_KNOTS).round().astype(int)
            values = values[chosen]
            ranks = ranks[chosen]
        return cls(tuple(values.tolist()), tuple(ranks.tolist()), float(scores_N.std()))

    def rank(self, scores_N: Floats) -> Floats:
        """Return the rank of each score."""
        inner = np.interp(scores_N, self.scores, self.ranks)
        below = np.maximum(self.scores[0] - scores_N, 0) / self.spread
        above = np.maximum(scores_N - self.scores[-1], 0) / self.spread
        # Approaches 0 below the lowest rank and 1 above the highest, ever more slowly.
        lowered: Floats = inner / (1 + below)
        return 1 - (1 - lowered) / (1 + above)


@dataclass(frozen=True)
class Fusion:
    """The fusion of several systems' scores: a weighted sum of the scores or their ranks.

    Attributes:
        method: Method of `METHODS`.
        weights: Weights of each system.
        offset: Number that is added to the sum.
        ranks: Ranks of each system for the method 'rank'; else empty.
    """

    method: str
    weights: tuple[float, ...]
    offset: float
    ranks: tuple[Ranks, ...] = ()

    @property
    def is_llr(self) -> bool:
        """Whether fused scores are log-likelihood ratios without further mapping."""
        return self.method == "logistic"

    def fuse(self, scores_NS: Floats) -> Floats:
        """Return the fused scores (N,) of the systems' scores, in their order."""
        if scores_NS.ndim != 2 or scores_NS.shape[1] != len(self.weights):
            raise ValueError(f"scores of shape {scores_NS.shape} for {len(self.weights)} systems")
        fused = np.full(len(scores_NS), self.offset)
        for index, weight in enumerate(self.weights):
            column = np.asarray(scores_NS[:, index], np.float64)
            if self.ranks:
                column = self.ranks[index].rank(column)
            # One system at a time, since a matrix product may round differently for other sizes.
            fused = fused + weight * column
        return fused

    def content(self) -> dict[str, Any]:
        """Return plain values for a file."""
        ranks = []
        for part in self.ranks:
            lists = {"scores": list(part.scores), "ranks": list(part.ranks)}
            ranks.append({**lists, "spread": part.spread})
        content = {"method": self.method, "weights": list(self.weights), "offset": self.offset}
        return {**content, "ranks": ranks} if ranks else content


def fit_fusion(
    method: str, scores_NS: Floats, labels: Labels, names: Sequence[str] | None = None
) -> Fusion:
    """Fit a fusion to the trials of a development set.

    Args:
        method: Method of `METHODS`.
        scores_NS: Scores of each trial by each system.
        names: Names of the systems, for messages.

    Raises:
        UsageError: the method does not exist.
        AsdfError: the scores of a system are all equal, or for 'mean' reversed.
    """
    names = names or [f"system {number}" for number in range(1, scores_NS.shape[1] + 1)]
    if method not in METHODS:
        raise UsageError(f"there is no fusion {method!r}: choose {', '.join(METHODS)}.")
    if method == "logistic":
        for name, spread in zip(names, scores_NS.std(axis=0).tolist(), strict=True):
            if spread == 0:
                raise AsdfError(f"{name}: all scores are equal, so there is nothing to fuse.")
        weights, offset = fit_weights(scores_NS[labels == 1], scores_NS[labels == 0])
        return Fusion(method, tuple(weights), offset)
    # Of a mean: each system's scores are mapped by themselves.
    scales, offsets, ranks = [], [], []
    for name, column in zip(names, scores_NS.T, strict=True):
        scores_N = np.ascontiguousarray(column)
        try:
            if method == "rank":
                scale, offset = 1.0, 0.0
                ranks.append(Ranks.of(scores_N))
            else:
                scale, offset = fit_llr(scores_N[labels == 1], scores_N[labels == 0])
        except AsdfError as error:
            raise AsdfError(f"{name}: {error}") from None
        scales.append(scale)
        offsets.append(offset)
    share = 1 / len(scales)
    shares = tuple(share * scale for scale in scales)
    return Fusion(method, shares, share * sum(offsets), tuple(ranks))


def read_fusion(entry: Any, path: object) -> Fusion:
    """Read a fusion from the `entry` of a file that `Fusion.content` was written to.

    Raises:
        AsdfError: the entry is not valid.
    """
    try:
        ranks = []
        for part in entry.get("ranks", []):
            ranks.append(Ranks(_numbers(part["scores"]), _numbers(part["ranks"]), part["spread"]))
        fusion = Fusion(entry["method"], _numbers(entry["weights"]), entry["offset"], tuple(ranks))
        needed = len(fusion.weights) if fusion.method == "rank" else 0
        is_sound = (
            fusion.method in METHODS
            and len(fusion.weights) > 0
            and are_finite([*fusion.weights, fusion.offset, *(part.spread for part in ranks)])
            and len(ranks) == needed
            and all(part.spread > 0 and are_knots(part.scores, part.ranks) for part in ranks)
            and all(part.ranks[0] > 0 and part.ranks[-1] < 1 for part in ranks)
        )
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError):
        is_sound = False
    if not is_sound:
        raise AsdfError(
            f"the fusion in {path} cannot be used: it was changed or damaged. Make the file again "
            "with `python -m asdf fuse`."
        )
    return fusion


def _numbers(values: Sequence[Any]) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
