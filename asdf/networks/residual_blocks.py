"""The residual blocks that turn a time-frequency map into AASIST's graphs.

Invariant: names and numbers are those of the published networks. There the first batch norm of blocks 1 to 5 is
computed and its output thrown away, so the published weights score right only without it. Here it is kept, so that
state dicts load, but not computed: its parameters are unused, and its statistics stay as they are.

Shapes: B utterances, C channels, F frequencies, T times.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.casting import weights_cast_together


class ResidualBlock(nn.Module):
    """Two convolutions around a batch norm, added to their input; optionally max pooling by 3 in time."""

    def __init__(self, channels_in: int, channels_out: int, first: bool, pool: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, kernel_size=(2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, kernel_size=(2, 3), padding=(0, 1))
        if channels_in != channels_out:
            self.conv_downsample = nn.Conv2d(
                channels_in, channels_out, kernel_size=(1, 3), padding=(0, 1)
            )
        self.changes_channels = channels_in != channels_out
        self.pool = pool

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """(batch, channels_in, F, T) to (batch, channels_out, F, T or T // 3)."""
        out_BCFT = self.conv2(F.selu(self.bn2(self.conv1(x_BCFT))))
        out_BCFT = out_BCFT + (self.conv_downsample(x_BCFT) if self.changes_channels else x_BCFT)
        return F.max_pool2d(out_BCFT, (1, 3)) if self.pool else out_BCFT

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """The first batch norm's."""
        if hasattr(self, "bn1"):
            yield from self.bn1.parameters()


class ResidualEncoder(nn.Sequential):
    """Blocks one after the other."""

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """What the last block gives of (batch, channels, F, T)."""
        with weights_cast_together(self, x_BCFT.device):
            return super().forward(x_BCFT)


def residual_encoder(channels: tuple[int, ...], pool: bool) -> ResidualEncoder:
    """Blocks from each of `channels` to the next; each in a Sequential of its own, as in the published names."""
    blocks = [
        ResidualBlock(a, b, first=number == 0, pool=pool)
        for number, (a, b) in enumerate(pairwise(channels))
    ]
    return ResidualEncoder(*[nn.Sequential(block) for block in blocks])
