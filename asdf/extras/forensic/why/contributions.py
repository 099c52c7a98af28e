"""Contributions of cells by gradients, and what checks a map: random cells, shuffled weights.

Invariant: every random draw depends only on the seed, so that a recording always gets the same
checks. Integrated gradients (Sundararajan et al., 2017) sum to the score minus that of the filler,
up to the error of the integral, which is stated.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from asdf.arrays import Flags, Floats
from asdf.errors import AsdfError
from asdf.extras.forensic.why.cells import Cells
from asdf.extras.forensic.why.explanation import Removal
from asdf.metrics.score_checks import rank_correlation
from asdf.runs.seeds import derived_seed, generator
from asdf.scoring.waveform_scorer import WaveformScorer

# Samples of passes that are computed together: gradients hold all layers of a network.
_HELD_SAMPLES = 2**18


def integrate(scorer: WaveformScorer, cells: Cells, steps: int) -> Floats:
    """Return the contribution of each cell to the score, from filler to recording: (S, B).

    Args:
        scorer: Scorer with the engine 'plain'.
        steps: Number of points of the Gauss-Legendre rule at which gradients are computed.

    Raises:
        UsageError, AsdfError: as `WaveformScorer.score_with_gradients`; or a gradient is not a
            finite number.
    """
    from captum.attr import IntegratedGradients

    waveform_1T = torch.from_numpy(cells.waveform_T).to(scorer.device)[None]
    filler_1T = torch.from_numpy(cells.filler_T).to(scorer.device)[None]
    # Without multiplication by the difference of the ends, whose cells are multiplied here.
    integrated = IntegratedGradients(scorer.score_with_gradients, multiply_by_inputs=False)
    gradient_1T = integrated.attribute(
        waveform_1T,
        baselines=filler_1T,
        n_steps=steps,
        method="gausslegendre",
        internal_batch_size=max(1, _HELD_SAMPLES // waveform_1T.shape[1]),
    )
    # float64, since a cell sums over all samples of the window.
    gradient_T = gradient_1T[0].detach().double().cpu().numpy()
    if not np.isfinite(gradient_T).all():
        raise AsdfError(
            "the gradient of the score is not a finite number somewhere between the filler and "
            "the recording. Use the filler 'noise', or occlusion."
        )
    return cells.project(gradient_T)


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
