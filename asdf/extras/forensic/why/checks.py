"""Validity checks of a map: dependence on the network's weights, and on the score.

Invariant: every random draw depends only on the seed, so that a recording always gets the same
checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from asdf.arrays import Flags, Floats
from asdf.metrics.rank_correlation import rank_correlation
from asdf.runs.seeds import derived_seed, generator

HARDLY_CHANGES = 0.5
"""Mean rank correlation from which a map hardly depends on the weights."""


@dataclass(frozen=True)
class WeightsCheck:
    """Similarity of the network's map to those of networks with shuffled weights.

    The weights of each tensor are shuffled within it (Adebayo et al., 2018). Correlations are
    Spearman's, of the cells' absolute contributions; that of a constant map is 0.

    Attributes:
        correlations: Rank correlation for each seed.
    """

    correlations: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Mean of the correlations; 0 without any."""
        return float(np.mean(self.correlations)) if self.correlations else 0.0

    @property
    def hardly_changes(self) -> bool:
        """Whether the map is close to that of an untrained network."""
        return self.mean >= HARDLY_CHANGES

    def entry(self) -> dict[str, Any]:
        """Return the check as plain values."""
        correlations = list(self.correlations)
        return {
            "correlations": correlations,
            "mean": self.mean,
            "hardly_changes": self.hardly_changes,
        }


@dataclass(frozen=True)
class Removal:
    """Change of the score against its side when cells are replaced by the filler.

    Attributes:
        cells: Number of replaced cells.
        marked: Change without the marked cells.
        random: Mean change without as many random cells.
        low, high: Limits that contain 95 % of the random draws.
        draws: Number of random draws.
        p_value: Proportion of draws, including the marked one, with at least the change of the
            marked cells.
    """

    cells: int
    marked: float
    random: float
    low: float
    high: float
    draws: int
    p_value: float

    def entry(self) -> dict[str, Any]:
        """Return the fields as plain values."""
        return asdict(self)


def compare_removals(cells: int, marked: float, random_R: Floats) -> Removal:
    """Compare the change of the marked cells with those of random ones.

    The p-value is that of a permutation test, (1 + draws at least as large) / (1 + draws).
    """
    low, high = np.quantile(random_R, [0.025, 0.975]).tolist()
    larger = int((random_R >= marked).sum())
    draws = len(random_R)
    p_value = (1 + larger) / (1 + draws)
    return Removal(cells, marked, float(random_R.mean()), low, high, draws, p_value)


def mark(contributions_SB: Floats, share: float) -> Flags:
    """Return the cells with the highest contributions: `share` of all, at least one."""
    count = max(1, round(share * contributions_SB.size))
    # Stable: of equal contributions, the earlier and lower cells are marked.
    order = np.argsort(-contributions_SB, axis=None, kind="stable")
    marked = np.zeros(contributions_SB.size, bool)
    marked[order[:count]] = True
    return marked.reshape(contributions_SB.shape)


def draw_cells(shape: tuple[int, int], count: int, seed: int, draw: int) -> Flags:
    """Return `count` random cells."""
    rng = generator(seed, "random cells", draw)
    chosen = np.zeros(shape, bool)
    chosen.flat[rng.choice(chosen.size, count, replace=False)] = True
    return chosen


def shuffle_weights(networks: Sequence[nn.Module], seed: int) -> None:
    """Shuffle the weights of each tensor within it, in place; other values are unchanged."""
    source = torch.Generator().manual_seed(derived_seed(seed, "shuffled weights"))
    with torch.no_grad():
        for network in networks:
            for weights in network.parameters():
                # Drawn on the CPU, so that all devices shuffle alike.
                order = torch.randperm(weights.numel(), generator=source).to(weights.device)
                weights.copy_(weights.flatten()[order].reshape(weights.shape))


def compare_maps(first_SB: Floats, second_SB: Floats) -> float:
    """Return the rank correlation of the absolute contributions; 0 if undefined."""
    if not np.isfinite(second_SB).all():
        return 0.0
    absolute = [np.abs(part).ravel().tolist() for part in (first_SB, second_SB)]
    return rank_correlation(*absolute) or 0.0
