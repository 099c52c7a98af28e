"""The selective scan of Mamba: a linear recurrence with input-dependent factors.

Invariant: each state is that of the recurrence, in whatever order the states are computed: one by
one, by doubling in a graph, or by mamba_ssm's kernel. Only sums and products of factors from 0 to 1
are formed, never quotients, so that no length loses precision.

Source: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023,
algorithm 2 (S6), with the discretisation of their code: factors exp(step * A) and inputs step * B.

Shapes: B utterances, L frames, D channels, N states of a channel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from asdf.networks.functions import is_traced

_KERNEL = "mamba_ssm.ops.selective_scan_interface"
# Rounds of doubling for any length: 2^20 frames of 20 ms are nearly six hours.
_ROUNDS = 20


def selective_scan(
    x_BLD: Tensor, steps_BLD: Tensor, a_DN: Tensor, b_BLN: Tensor, c_BLN: Tensor
) -> Tensor:
    """Return the outputs of the recurrence, (batch, frames, channels).

        h[l] = exp(steps[l] * a) * h[l - 1] + steps[l] * b[l] * x[l]
        y[l] = sum over states of c[l] * h[l]

    Args:
        x_BLD: Inputs.
        steps_BLD: Step sizes, positive.
        a_DN: Decay rates, negative.
        b_BLN, c_BLN: Weights of inputs and of outputs.
    """
    if x_BLD.is_cuda and not is_traced() and _kernel() is not None:
        return _scan_by_kernel(x_BLD, steps_BLD, a_DN, b_BLN, c_BLN)
    decays_BLDN = steps_BLD.unsqueeze(3) * a_DN
    factors_BLDN = decays_BLDN.exp()
    stepped_BLD = steps_BLD * x_BLD
    inputs_BLDN = stepped_BLD.unsqueeze(3) * b_BLN.unsqueeze(2)
    scan = _scan_by_doubling if is_traced() else _scan_in_order
    states_BLDN = scan(factors_BLDN, inputs_BLDN)
    return (states_BLDN @ c_BLN.unsqueeze(3)).squeeze(3)


def _scan_in_order(factors_BLDN: Tensor, inputs_BLDN: Tensor) -> Tensor:
    """Return the states, computed frame by frame.

    This is the fastest way on CPUs, since the states of a frame stay in the cache. Scans in chunks
    or in a tree form products of many factors, which underflow to denormal numbers and run a
    hundred times slower.
    """
    state_BDN = torch.zeros_like(inputs_BLDN[:, 0])
    states = []
    for factors_BDN, added_BDN in zip(factors_BLDN.unbind(1), inputs_BLDN.unbind(1), strict=True):
        state_BDN = torch.addcmul(added_BDN, factors_BDN, state_BDN)
        states.append(state_BDN)
    return torch.stack(states, dim=1)


def _scan_by_doubling(factors_BLDN: Tensor, states_BLDN: Tensor) -> Tensor:
    """Return the states in a fixed number of operations, so that one graph handles any length.

    After round r, each state includes the 2^r nearest inputs (Hillis and Steele, 1986).
    """
    for number in range(_ROUNDS):
        shift = 2**number
        # Beyond the length, this is empty and the round has no effect.
        reached_BLDN = factors_BLDN[:, shift:]
        states_BLDN = torch.cat(
            [
                states_BLDN[:, :shift],
                states_BLDN[:, shift:] + reached_BLDN * states_BLDN[:, :-shift],
            ],
            dim=1,
        )
        factors_BLDN = torch.cat(
            [factors_BLDN[:, :shift], reached_BLDN * factors_BLDN[:, :-shift]], dim=1
        )
    return states_BLDN


@cache
def _kernel() -> Callable[..., Any] | None:
    """Return mamba_ssm's scan for GPUs; None if the package is not installed."""
    if find_spec("mamba_ssm") is None:
        return None
    scan: Callable[..., Any] = import_module(_KERNEL).selective_scan_fn
    return scan


def _scan_by_kernel(
    x_BLD: Tensor, steps_BLD: Tensor, a_DN: Tensor, b_BLN: Tensor, c_BLN: Tensor
) -> Tensor:
    scan = _kernel()
    assert scan is not None
    # The kernel expects frames in the last dimension.
    frames_last = [tensor.transpose(1, 2).contiguous() for tensor in (x_BLD, steps_BLD)]
    weights = [tensor.transpose(1, 2).contiguous() for tensor in (b_BLN, c_BLN)]
    outputs_BDL: Tensor = scan(*frames_last, a_DN.contiguous(), *weights)
    return outputs_BDL.transpose(1, 2)
