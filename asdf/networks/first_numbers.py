"""Initial values of parameters added to a network, drawn without changing other draws.

Invariant: the values depend only on torch's seed and their purpose. The default generator is not
advanced, so the other parameters start as in a network without the additions.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from asdf.runs.seeds import derived_seed


def draw_uniform(empty_OI: Tensor, *purpose: str) -> Tensor:
    """Fill a tensor (O, I) with uniform numbers of variance 1 / (3 I), and return it."""
    # Networks are outlined on the meta device, where nothing can be drawn.
    if empty_OI.is_meta:
        return empty_OI
    bound = 1.0 / math.sqrt(empty_OI.shape[1])
    seed = derived_seed(torch.initial_seed(), *purpose)
    generator = torch.Generator().manual_seed(seed)
    # On the CPU, so that the values are the same on any device.
    numbers_OI = torch.empty(empty_OI.shape, device="cpu")
    return empty_OI.copy_(numbers_OI.uniform_(-bound, bound, generator=generator))
