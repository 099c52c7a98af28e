"""Two columns of Mamba blocks on a front end, reading the frames forwards and backwards.

Invariant: parameter names, numbers and results are those of the published network's code. It
differs from the paper's figure: the last block of each column adds nothing to the output, and
frames of the backward column, in reversed order, are added to frames in the original order.

Source: Xiao and Das, "XLSR-Mamba: A Dual-Column Bidirectional State Space Model for Spoofing Attack
Detection", IEEE Signal Processing Letters 2025 (swagshaw/XLSR-Mamba, `mamba_blocks.py`); Gu and
Dao, "Mamba", 2023 (blocks and their initial numbers).

Shapes: B utterances, L frames, C feature values, E values of a frame, D channels inside a block, N
states of a channel, R values that steps are computed from.

The selective scan of Mamba: a linear recurrence with input-dependent factors.

Invariant: each state is that of the recurrence, in whatever order the states are computed: one by
one, by doubling in a graph, or by mamba_ssm's kernel. Only sums and products of factors from 0 to 1
are formed, never quotients, so that no length loses precision.

Source: Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective State Spaces", 2023,
algorithm 2 (S6), with the discretisation of their code: factors exp(step * A) and inputs step * B.

Shapes: B utterances, L frames, D channels, N states of a channel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision, without_autocast
from asdf.networks.functions import is_traced
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

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
    return import_module(_KERNEL).selective_scan_fn


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


EXPANSION = 2
KERNEL = 4
DROPOUT = 0.1
_MIN_STEP, _MAX_STEP = 0.001, 0.1


class RootMeanSquareNorm(nn.Module):
    """Each frame divided by its root mean square, and scaled."""

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dimension))

    def forward(self, x_BLE: Tensor) -> Tensor:
        mean_square_BL1 = x_BLE.square().mean(dim=-1, keepdim=True)
        factors_BL1 = (mean_square_BL1 + 1e-5).rsqrt()
        return x_BLE * factors_BL1 * self.weight


class MambaMixer(nn.Module):
    """A causal convolution over frames and a selective scan, gated."""

    def __init__(self, dimension: int, states: int, blocks: int) -> None:
        super().__init__()
        inside = EXPANSION * dimension
        # Mamba's default, dt_rank = "auto".
        self.rank = math.ceil(dimension / 16)
        self.states = states
        self.in_proj = nn.Linear(dimension, 2 * inside, bias=False)
        self.conv1d = nn.Conv1d(inside, inside, KERNEL, groups=inside)
        self.x_proj = nn.Linear(inside, self.rank + 2 * states, bias=False)
        self.dt_proj = nn.Linear(self.rank, inside)
        # Initially state n decays at the rate n (S4D-Real); as logarithms, rates stay positive.
        decays_N = torch.arange(1.0, states + 1)
        self.A_log = nn.Parameter(decays_N.log().repeat(inside, 1))
        self.D = nn.Parameter(torch.ones(inside))
        self.out_proj = nn.Linear(inside, dimension, bias=False)
        bound = self.rank**-0.5
        nn.init.uniform_(self.dt_proj.weight, -bound, bound)
        with torch.no_grad():
            # Steps are spread evenly on a log scale; the bias is their inverse softplus.
            lowest = math.log(_MIN_STEP)
            range_of_steps = math.log(_MAX_STEP) - lowest
            spread_D = lowest + range_of_steps * torch.rand(inside)
            first_steps_D = spread_D.exp()
            self.dt_proj.bias.copy_(first_steps_D.expm1().log())
            # Scaled down, since each block adds to the sum of all previous ones.
            self.out_proj.weight /= math.sqrt(blocks)

    def forward(self, x_BLE: Tensor) -> Tensor:
        """Return (batch, frames, dimension)."""
        values_BLD, gates_BLD = self.in_proj(x_BLE).chunk(2, dim=2)
        # Zeros before the first frame alone, so that no frame sees a later one.
        past_BDL = F.pad(values_BLD.transpose(1, 2), (KERNEL - 1, 0))
        convolved_BDL = self.conv1d(past_BDL)
        values_BLD = F.silu(convolved_BDL).transpose(1, 2)
        projected = self.x_proj(values_BLD)
        sizes = [self.rank, self.states, self.states]
        steps_BLR, b_BLN, c_BLN = projected.split(sizes, dim=2)
        steps_BLD = self.dt_proj(steps_BLR)
        # A recurrence over hundreds of frames accumulates the rounding errors of a shorter format.
        with without_autocast(values_BLD):
            kind = self.A_log.dtype
            values_BLD = values_BLD.to(kind)
            steps_BLD = F.softplus(steps_BLD.to(kind))
            gates_BLD = F.silu(gates_BLD.to(kind))
            outputs_BLD = selective_scan(
                values_BLD, steps_BLD, -self.A_log.exp(), b_BLN.to(kind), c_BLN.to(kind)
            )
            passed_BLD = self.D * values_BLD
            gated_BLD = (outputs_BLD + passed_BLD) * gates_BLD
        return self.out_proj(gated_BLD)


class MambaBlock(nn.Module):
    """A norm and a mixer, without the residual sum, which the caller computes."""

    def __init__(self, dimension: int, states: int, blocks: int) -> None:
        super().__init__()
        self.mixer = MambaMixer(dimension, states, blocks)
        self.norm = RootMeanSquareNorm(dimension)

    def forward(self, x_BLE: Tensor) -> Tensor:
        return self.mixer(self.norm(x_BLE))


class DualColumn(nn.Module):
    """Two columns of blocks, whose frames are pooled by attention and then joined.

    It returns embeddings, logits and the frames of both columns.
    """

    def __init__(self, dimension: int, blocks: int, states: int) -> None:
        super().__init__()
        self.forward_layers = nn.ModuleList()
        self.backward_layers = nn.ModuleList()
        for _ in range(blocks):
            self.forward_layers.append(MambaBlock(dimension, states, blocks))
            self.backward_layers.append(MambaBlock(dimension, states, blocks))
        self.norm_f = RootMeanSquareNorm(dimension)
        self.f_attention_pool = nn.Linear(dimension, 1)
        self.b_attention_pool = nn.Linear(dimension, 1)
        self.LL = nn.Linear(2 * dimension, dimension)
        self.classifier = nn.Linear(dimension, 2)

    def forward(self, x_BLE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        x_BLE = F.dropout(x_BLE, DROPOUT, self.training)
        forwards_BLE = self._run(self.forward_layers, x_BLE, x_BLE)
        backwards_BLE = self._run(self.backward_layers, x_BLE.flip(1), x_BLE)
        pooled = [
            _pool(forwards_BLE, self.f_attention_pool),
            _pool(backwards_BLE, self.b_attention_pool),
        ]
        embeddings_BE = self.LL(torch.cat(pooled, dim=1))
        dropped_BE = F.dropout(embeddings_BE, DROPOUT, self.training)
        # Back in the original order, so that both halves of a frame are of the same time.
        frames_BLE = torch.cat([forwards_BLE, backwards_BLE.flip(1)], dim=2)
        return embeddings_BE, in_full_precision(self.classifier, dropped_BE), frames_BLE

    def _run(self, blocks: nn.ModuleList, sum_BLE: Tensor, input_BLE: Tensor) -> Tensor:
        """Return the normed sum of the columns' input and of all blocks but the last."""
        for block in blocks[:-1]:
            sum_BLE = sum_BLE + block(sum_BLE)
        return self.norm_f(input_BLE + sum_BLE)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the last blocks."""
        yield from self.forward_layers[-1].parameters()
        yield from self.backward_layers[-1].parameters()


def _pool(x_BLE: Tensor, attention: nn.Linear) -> Tensor:
    weights_BL1 = attention(x_BLE).softmax(dim=1)
    return (weights_BL1 * x_BLE).sum(dim=1)


@dataclass
class MambaSizes(OwnSettings, section_name="back_end"):
    """Sizes of the columns of Mamba blocks."""

    mamba_dimension: int = setting(144, unit="values", at_least=1)
    """SSL_Mamba: size of the frames and of the embedding"""
    mamba_blocks: int = setting(6, at_least=1)
    """SSL_Mamba: number of blocks of each of two columns"""
    mamba_states: int = setting(16, at_least=1)
    """SSL_Mamba: states of each channel of a block"""


class MambaBackEnd(SizedBackEnd, TimedBackEnd):
    """A linear layer and a batch norm, then two columns of Mamba blocks."""

    short_name = "mamba"
    size_settings = ("mamba_dimension", "mamba_blocks", "mamba_states")

    def __init__(self, dimension: int, inside: int, blocks: int, states: int) -> None:
        super().__init__()
        self.frame_dimension = 2 * inside
        self.LL = nn.Linear(dimension, inside)
        self.first_bn = nn.BatchNorm2d(1)
        # The published name, which goes back to the code of a Conformer.
        self.conformer = DualColumn(inside, blocks, states)

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, mamba_dimension), logits, and the frames of both columns."""
        x_BLE = self.LL(features_BLC)
        # One mean and one variance for all values.
        normed_BLE = self.first_bn(x_BLE.unsqueeze(1)).squeeze(1)
        return self.conformer(F.selu(normed_BLE))


class SSL_Mamba(PairedDetector):
    """wav2vec 2.0 and two columns of Mamba blocks, XLSR-Mamba (Xiao and Das, IEEE SPL 2025)."""

    back_end_class = MambaBackEnd
    paper = "Xiao and Das, IEEE SPL 2025"
