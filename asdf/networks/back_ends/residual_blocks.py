"""The residual blocks that turn a time-frequency map into AASIST's graphs.

Invariant: names and numbers of parameters are those of the published networks. These compute the
first batch norm of blocks 1 to 5 but discard its output, so published weights give correct scores
only without it. Here the blocks hold the norm, so that state dicts load, but do not compute it: its
parameters are unused, and its statistics stay unchanged.

Shapes: B utterances, C channels, F frequencies, T times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.autocast import is_short_on_gpu
from asdf.networks.casting import weights_cast_together
from asdf.networks.fast_functions import LearningSELU, learns_on_cpu


class ResidualBlock(nn.Module):
    """Two convolutions around a batch norm, plus their input; `pool` pools time by 3."""

    def __init__(
        self,
        channels_in: int,
        channels_out: int,
        first: bool,
        pool: bool,
    ) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(
            channels_in,
            channels_out,
            kernel_size=(2, 3),
            padding=(1, 1),
        )
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(
            channels_out,
            channels_out,
            kernel_size=(2, 3),
            padding=(0, 1),
        )
        self.changes_channels = channels_in != channels_out
        if self.changes_channels:
            self.conv_downsample = nn.Conv2d(
                channels_in,
                channels_out,
                kernel_size=(1, 3),
                padding=(0, 1),
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
