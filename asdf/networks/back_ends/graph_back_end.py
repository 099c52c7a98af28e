"""The common part of AASIST on raw waveforms and behind a front end: from a map to logits.

Invariant: parameter names and numbers are those of the published networks. Both networks derive
from `GraphBackEnd` because published state dicts hold its layers at the top level. The residual
blocks of the published networks compute the first batch norm of blocks 1 to 5 but discard its
output, so published weights give correct scores only without it. Here the blocks hold the norm, so
that state dicts load, but do not compute it: its parameters are unused, and its statistics stay
unchanged.

Source: Jung et al., "AASIST", ICASSP 2022.

Shapes: B utterances, F frequencies, T times or temporal nodes, S spectral nodes, N nodes of either,
C channels or values of a node, E embedding values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.graph_attention import (
    GraphAttention,
    GraphPool,
    HeterogeneousGraphAttention,
)
from asdf.networks.back_ends.joined_branches import (
    Kinds,
    attend,
    attend_apart,
    can_join,
    copy_maps,
    pool,
)
from asdf.networks.casting import (
    in_full_precision,
    is_short_on_gpu,
    weights_cast_together,
    without_autocast,
)
from asdf.networks.functions import LearningSELU, is_on_cpu, is_traced, learns_on_cpu


class ResidualBlock(nn.Module):
    """Two convolutions around a batch norm, plus their input; `pool` pools time by 3."""

    def __init__(self, channels_in: int, channels_out: int, first: bool, pool: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, kernel_size=(2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, kernel_size=(2, 3), padding=(0, 1))
        self.changes_channels = channels_in != channels_out
        if self.changes_channels:
            self.conv_downsample = nn.Conv2d(
                channels_in, channels_out, kernel_size=(1, 3), padding=(0, 1)
            )
        self.selu = LearningSELU()
        self.pool = pool

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """Map (batch, channels_in, F, T) to (batch, channels_out, F, T or T // 3)."""
        # Intermediate results are not stored in variables: without gradients they are freed at
        # once, which saves a quarter of the memory of scoring.
        out_BCFT: Tensor = self.conv2(self.selu(self.bn2(order_map(self.conv1(x_BCFT)))))
        if self.changes_channels:
            x_BCFT = order_map(self.conv_downsample(x_BCFT))
        out_BCFT = out_BCFT + x_BCFT
        if self.pool:
            out_BCFT = F.max_pool2d(out_BCFT, (1, 3))
        return out_BCFT

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the first batch norm."""
        if hasattr(self, "bn1"):
            yield from self.bn1.parameters()


def order_map(x_BCFT: Tensor) -> Tensor:
    """Return a map in the memory layout that suits the next operations, mostly channels-last.

    Otherwise batch norms in 16 bits take most of raw AASIST's time on a GPU.
    """
    if not (learns_on_cpu(x_BCFT) or is_short_on_gpu(x_BCFT)):
        return x_BCFT
    return x_BCFT.contiguous(memory_format=torch.channels_last)


class ResidualEncoder(nn.Sequential):
    """Residual blocks in sequence."""

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """Return the output of the last block for (batch, channels, F, T)."""
        with weights_cast_together(self, x_BCFT.device):
            out_BCFT: Tensor = super().forward(x_BCFT)
        return out_BCFT


def residual_encoder(channels: tuple[int, ...], pool: bool) -> ResidualEncoder:
    """Build blocks between each two consecutive entries of `channels`."""
    blocks = []
    for number, (channels_in, channels_out) in enumerate(pairwise(channels)):
        block = ResidualBlock(channels_in, channels_out, first=number == 0, pool=pool)
        # Each block in a Sequential, as in the published names.
        blocks.append(nn.Sequential(block))
    return ResidualEncoder(*blocks)


EMBEDDING_DROPOUT = 0.5
BRANCH_DROPOUT = 0.2
# Number of nodes for clips of about 8 s.
_MOST_FILLED_UP = 128


@dataclass(frozen=True)
class Sizes:
    """A published network's sizes, with the names of its configuration file where it has them."""

    spectral_nodes: int
    encoder_channels: tuple[int, ...] = (1, 32, 32, 64, 64, 64, 64)
    gat_dims: tuple[int, int] = (64, 32)
    pool_ratios: tuple[float, float, float] = (0.5, 0.5, 0.5)
    temperatures: tuple[float, float, float] = (2.0, 2.0, 100.0)


class _Graphs(NamedTuple):
    """The nodes of both graphs, and their master node."""

    temporal_BTC: Tensor
    spectral_BSC: Tensor
    master_B1C: Tensor


class GraphBackEnd(nn.Module):
    """Residual encoder, graph layers and readout; a derived class computes the nodes."""

    def __init__(self, sizes: Sizes, pool_time: bool) -> None:
        # Not super().__init__(), since raw AASIST also derives from DetectorNetwork, whose
        # constructor takes the settings.
        nn.Module.__init__(self)
        channels = sizes.encoder_channels[-1]
        wide, narrow = sizes.gat_dims
        spectral_ratio, temporal_ratio, joint_ratio = sizes.pool_ratios
        spectral_temperature, temporal_temperature, joint_temperature = sizes.temperatures
        self.first_bn = nn.BatchNorm2d(1)
        self.selu = LearningSELU()
        self.encoder = residual_encoder(sizes.encoder_channels, pool=pool_time)
        self.pos_S = nn.Parameter(torch.randn(1, sizes.spectral_nodes, channels))
        self.master1 = nn.Parameter(torch.randn(1, 1, wide))
        self.master2 = nn.Parameter(torch.randn(1, 1, wide))
        self.GAT_layer_S = GraphAttention(channels, wide, spectral_temperature)
        self.GAT_layer_T = GraphAttention(channels, wide, temporal_temperature)
        self.HtrgGAT_layer_ST11 = HeterogeneousGraphAttention(wide, narrow, joint_temperature)
        self.HtrgGAT_layer_ST12 = HeterogeneousGraphAttention(narrow, narrow, joint_temperature)
        self.HtrgGAT_layer_ST21 = HeterogeneousGraphAttention(wide, narrow, joint_temperature)
        self.HtrgGAT_layer_ST22 = HeterogeneousGraphAttention(narrow, narrow, joint_temperature)
        self.pool_S = GraphPool(spectral_ratio, wide)
        self.pool_T = GraphPool(temporal_ratio, wide)
        self.pool_hS1 = GraphPool(joint_ratio, narrow)
        self.pool_hT1 = GraphPool(joint_ratio, narrow)
        self.pool_hS2 = GraphPool(joint_ratio, narrow)
        self.pool_hT2 = GraphPool(joint_ratio, narrow)
        self.out_layer = nn.Linear(5 * narrow, 2)

    def readout(self, spectral_BSC: Tensor, temporal_BTC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 5 * gat_dims[1]) and logits (batch, 2) of two graphs' nodes."""
        # The graphs are small: in a shorter format, most operations would be casts.
        with without_autocast(spectral_BSC):
            temporal_BTC = temporal_BTC.to(self.pos_S.dtype)
            spectral_BSC = spectral_BSC + self.pos_S
            # With padding, the pairs of nodes of a long recording would take twice the memory.
            joins = (
                self._joins_branches(spectral_BSC)
                and max(temporal_BTC.shape[1], spectral_BSC.shape[1]) <= _MOST_FILLED_UP
            )
            run = self._run_joined if joins else self._run_branches
            embeddings_BE = _summarize(run(temporal_BTC, spectral_BSC))
        dropped_BE = F.dropout(embeddings_BE, EMBEDDING_DROPOUT, self.training)
        return embeddings_BE, in_full_precision(self.out_layer, dropped_BE)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the first batch norms of the residual blocks."""
        for module in self.encoder.modules():
            if isinstance(module, ResidualBlock):
                yield from module.unused_parameters()

    def _joins_branches(self, x_BNC: Tensor) -> bool:
        """Return whether both branches are computed together: on GPUs, with unmodified layers."""
        if is_on_cpu(x_BNC) or is_traced():
            return False
        if self.GAT_layer_T.temperature != self.GAT_layer_S.temperature:
            return False
        layers = (*self._attentions(), *self._pools())
        return can_join([part for stage in layers for part in stage])

    def _attentions(self) -> tuple[Sequence[Any], ...]:
        """Return the layers of each graph, and the joint and refining layers of both branches."""
        return (
            (self.GAT_layer_T, self.GAT_layer_S),
            (self.HtrgGAT_layer_ST11, self.HtrgGAT_layer_ST21),
            (self.HtrgGAT_layer_ST12, self.HtrgGAT_layer_ST22),
        )

    def _pools(self) -> tuple[Sequence[nn.ModuleList], ...]:
        """Return the pools of both graphs and of both branches, in pairs."""
        pair = nn.ModuleList
        return (
            (pair([self.pool_T, self.pool_S]),),
            (pair([self.pool_hT1, self.pool_hS1]), pair([self.pool_hT2, self.pool_hS2])),
        )

    def _run_joined(self, temporal_BTC: Tensor, spectral_BSC: Tensor) -> _Graphs:
        """Return the graphs of `_run_branches`, with both branches computed together."""
        apart, joint, refine = self._attentions()
        both, pools = self._pools()
        maps = iter(copy_maps([apart, both, joint, pools, refine]))
        kinds = Kinds.between(temporal_BTC, spectral_BSC)
        x_GBJC = attend_apart(next(maps), [temporal_BTC, spectral_BSC]).unsqueeze(0)
        x_GBJC, kinds = pool(next(maps), x_GBJC, kinds)
        masters_GBC = torch.cat([self.master1, self.master2])
        x_GBJC, masters_GBC = attend(next(maps), x_GBJC, masters_GBC, kinds)
        x_GBJC, kinds = pool(next(maps), x_GBJC, kinds)
        refined = attend(next(maps), x_GBJC, masters_GBC, kinds)
        x_GBJC = _append(x_GBJC, masters_GBC) + _append(*refined)
        x_BJC = self._drop(x_GBJC).amax(dim=0)
        return _Graphs(*x_BJC.split([kinds.first, kinds.second, 1], dim=1))

    def _run_branches(self, temporal_BTC: Tensor, spectral_BSC: Tensor) -> _Graphs:
        """Compute one branch after the other, and return the elementwise maximum."""
        spectral_BSC = self.pool_S(self.GAT_layer_S(spectral_BSC))
        temporal_BTC = self.pool_T(self.GAT_layer_T(temporal_BTC))
        first = self._run_branch(
            _Graphs(temporal_BTC, spectral_BSC, self.master1),
            self.HtrgGAT_layer_ST11,
            self.pool_hT1,
            self.pool_hS1,
            self.HtrgGAT_layer_ST12,
        )
        second = self._run_branch(
            _Graphs(temporal_BTC, spectral_BSC, self.master2),
            self.HtrgGAT_layer_ST21,
            self.pool_hT2,
            self.pool_hS2,
            self.HtrgGAT_layer_ST22,
        )
        return _Graphs(*map(torch.maximum, first, second))

    def _run_branch(
        self,
        graphs: _Graphs,
        joint: nn.Module,
        pool_temporal: nn.Module,
        pool_spectral: nn.Module,
        refine: nn.Module,
    ) -> _Graphs:
        """Apply joint attention, pooling and residual refinement to both graphs."""
        temporal_BTC, spectral_BSC, master_B1C = joint(*graphs)
        temporal_BTC = pool_temporal(temporal_BTC)
        spectral_BSC = pool_spectral(spectral_BSC)
        refined = _Graphs(*refine(temporal_BTC, spectral_BSC, master_B1C))
        # The order matters, since each draws random numbers in training.
        return _Graphs(
            temporal_BTC=self._drop(temporal_BTC + refined.temporal_BTC),
            spectral_BSC=self._drop(spectral_BSC + refined.spectral_BSC),
            master_B1C=self._drop(master_B1C + refined.master_B1C),
        )

    def _drop(self, x_BNC: Tensor) -> Tensor:
        return F.dropout(x_BNC, BRANCH_DROPOUT, self.training)


def _append(x_GBNC: Tensor, master_GBC: Tensor) -> Tensor:
    return torch.cat([x_GBNC, master_GBC.unsqueeze(2)], dim=2)


def order_one_channel(x_B1FT: Tensor) -> Tensor:
    """Return a view of a one-channel map whose strides declare it channels-last.

    With one channel, both layouts hold the same numbers, and torch assumes channels-first: it would
    copy the gradients of the first convolutions, the largest ones, which takes a third of a step.
    """
    if not learns_on_cpu(x_B1FT):
        return x_B1FT
    return x_B1FT.squeeze(1).unsqueeze(-1).movedim(-1, 1)


def normalize_map(norm: nn.Module, x_B1FT: Tensor) -> Tensor:
    """Apply a batch norm to a one-channel map (batch, 1, F, T).

    A GPU computes the statistics of a channel on a single multiprocessor unless the layout is
    channels-last. With one channel, this layout needs no copy.
    """
    if not is_short_on_gpu(x_B1FT):
        return norm(x_B1FT)
    last_B1FT = x_B1FT.squeeze(1).unsqueeze(-1).permute(0, 3, 1, 2)
    return norm(last_B1FT).squeeze(1).unsqueeze(1)


def _summarize(graphs: _Graphs) -> Tensor:
    """Return the embeddings of both graphs (batch, nodes, values) and their master node."""
    temporal_BTC, spectral_BSC, master_B1C = graphs
    return torch.cat(
        [
            temporal_BTC.abs().amax(dim=1),
            temporal_BTC.mean(dim=1),
            spectral_BSC.abs().amax(dim=1),
            spectral_BSC.mean(dim=1),
            master_B1C.squeeze(1),
        ],
        dim=1,
    )
