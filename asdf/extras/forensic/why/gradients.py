"""Integrated gradients of a score from a filler to the recording (Sundararajan et al., 2017).

Invariant: the cells' contributions sum to the score minus that of the filler, up to the error of
the integral, which is stated.
"""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import torch

from asdf.arrays import Floats
from asdf.errors import AsdfError, UsageError
from asdf.extras.forensic.why.cells import Cells
from asdf.scoring.waveform_scorer import WaveformScorer

# Samples of passes that are computed together: gradients hold all layers of a network.
_HELD_SAMPLES = 2**18


def check_installed() -> None:
    """Raise a UsageError if captum is missing."""
    if find_spec("captum") is None:
        raise UsageError(
            "integrated gradients need captum: pip install 'asdf-antispoofing[why]'. Occlusion "
            "needs no other package: --by occlusion."
        )


def integrate(scorer: WaveformScorer, cells: Cells, steps: int) -> Floats:
    """Return the contribution of each cell to the score, from filler to recording: (S, B).

    Args:
        scorer: Scorer with the engine 'plain'.
        steps: Number of points of the Gauss-Legendre rule at which gradients are computed.

    Raises:
        UsageError, AsdfError: as `WaveformScorer.score_with_gradients`; or a gradient is not a
            finite number.
    """
    check_installed()
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
