"""Nes2Net-X: Res2Nets nested in a Res2Net, on features with their full dimension.

Invariant: parameter names and numbers are those of the published network, whose checkpoints prefix
them with `Nested_Res2Net_TDNN.`.

Source: Liu et al., "Nes2Net: A Lightweight Nested Architecture for Foundation Model Driven Speech
Anti-Spoofing", IEEE Transactions on Information Forensics and Security, 2025.

Shapes: B utterances, C channels, L frames, W channels of a part, P parts side by side, E embedding
values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.back_ends.pooling import AttentiveStatistics
from asdf.networks.casting import in_full_precision
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

KERNEL = 3
ATTENTION = 128


class SqueezeExcitation(nn.Module):
    """A factor for each channel, computed from the utterance's mean (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, inside: int) -> None:
        super().__init__()
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(channels, inside, kernel_size=1),
            nn.ReLU(),
            nn.Conv1d(inside, channels, kernel_size=1),
            nn.Sigmoid(),
        )

    def forward(self, x_BCL: Tensor) -> Tensor:
        factors_BC1: Tensor = self.se(x_BCL)
        return x_BCL * factors_BC1


class WeightedRes2Net(nn.Module):
    """A Res2Net block whose parts stay separate and are summed with learned weights.

    This is the 'X' of the name: the convolution of part i sees i + 1 earlier parts separately.
    """

    def __init__(self, channels: int, splits: int, dilation: int, squeeze: int) -> None:
        super().__init__()
        self.width = channels // splits
        inside = self.width * splits
        self.conv1 = nn.Conv1d(channels, inside, kernel_size=1)
        self.bn1 = nn.BatchNorm1d(inside)
        self.convs = nn.ModuleList()
        for _ in range(splits - 1):
            self.convs.append(_make_time_convolution(self.width, dilation))
        self.bns = nn.ModuleList()
        for _ in range(splits - 1):
            self.bns.append(nn.BatchNorm2d(self.width))
        self.weighted_sum = nn.ParameterList()
        for parts in range(2, splits + 1):
            weights_111P = torch.full((1, 1, 1, parts), 1 / parts)
            self.weighted_sum.append(nn.Parameter(weights_111P))
        self.conv3 = nn.Conv1d(inside, channels, kernel_size=1)
        self.bn3 = nn.BatchNorm1d(channels)
        self.se = SqueezeExcitation(channels, max(1, channels // squeeze))

    def forward(self, x_BCL: Tensor) -> Tensor:
        inside_BCL = self.bn1(self.conv1(x_BCL).relu())
        # The fourth dimension holds the separate parts.
        *parts, last_BWL1 = inside_BCL.unsqueeze(3).split(self.width, dim=1)
        side_by_side_BWLP = last_BWL1
        sums = []
        for part_BWL1, conv, norm, weights_111P in zip(
            parts, self.convs, self.bns, self.weighted_sum, strict=True
        ):
            joined_BWLP = torch.cat([side_by_side_BWLP, part_BWL1], dim=3)
            side_by_side_BWLP = norm(conv(joined_BWLP).relu())
            sums.append((side_by_side_BWLP * weights_111P).sum(dim=3))
        # The last part bypasses all convolutions.
        sums.append(last_BWL1.squeeze(3))
        out_BCL = self.conv3(torch.cat(sums, dim=1))
        out_BCL = self.bn3(out_BCL.relu())
        scaled_BCL: Tensor = self.se(out_BCL)
        return x_BCL + scaled_BCL


def _make_time_convolution(width: int, dilation: int) -> nn.Conv2d:
    padding = KERNEL // 2 * dilation
    return nn.Conv2d(
        width, width, kernel_size=(KERNEL, 1), dilation=(dilation, 1), padding=(padding, 0)
    )


@dataclass
class Nes2NetSizes(OwnSettings, section_name="back_end"):
    """Sizes of Nes2Net."""

    nes2net_splits: tuple[int, int] = setting((8, 8), at_least=2)
    """SSL_Nes2NetX, SSL_DeepFenseNes2Net: number of parts of the features, and of parts of each of
    these"""
    nes2net_dilation: int = setting(2, unit="frames", at_least=1)
    """SSL_Nes2NetX: dilation of its convolutions"""
    nes2net_squeeze: int = setting(1, at_least=1)
    """SSL_Nes2NetX: how many times narrower the squeeze-and-excitation layers are inside"""
    nes2net_pooling: Literal["mean", "attentive"] = "mean"
    """SSL_Nes2NetX: pooling over time; attentive: attentive statistics"""


class Nes2NetXBackEnd(SizedBackEnd, TimedBackEnd):
    """Nes2Net-X on features with a dimension divisible by `splits[0] * splits[1]`.

    Args:
        splits: Number of parts of the features, and of parts of each of these.
        squeeze: Factor by which squeeze-and-excitation layers reduce the channels.

    Attributes:
        block_class: Class of its inner blocks.
    """

    short_name = "nes2net_x"
    size_settings = ("nes2net_splits", "nes2net_dilation", "nes2net_squeeze", "nes2net_pooling")
    block_class: ClassVar[type[nn.Module]] = WeightedRes2Net

    def __init__(
        self,
        dimension: int,
        splits: tuple[int, int] = (8, 8),
        dilation: int = 2,
        squeeze: int = 1,
        pooling: Literal["mean", "attentive"] = "mean",
    ) -> None:
        super().__init__()
        outer, inner = splits
        if dimension % (outer * inner):
            raise UsageError(
                f"back_end.nes2net_splits = {splits}: features of {dimension} values cannot be "
                f"divided into {outer} parts of {inner} equal parts each. Their product must "
                f"divide {dimension}."
            )
        self.frame_dimension = dimension
        self.width = dimension // outer
        self.Build_in_Res2Nets = nn.ModuleList()
        for _ in range(outer - 1):
            block = type(self).block_class(self.width, inner, dilation, squeeze)
            self.Build_in_Res2Nets.append(block)
        self.bns = nn.ModuleList()
        for _ in range(outer - 1):
            self.bns.append(nn.BatchNorm1d(self.width))
        self.bn = nn.BatchNorm1d(dimension)
        self.pooling: AttentiveStatistics | None = None
        pooled = dimension
        if pooling == "attentive":
            self.pooling = AttentiveStatistics(dimension, ATTENTION)
            pooled = 2 * dimension
        self.fc = nn.Linear(pooled, 2)

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (the pooled features), logits (batch, 2), and the pooled frames.

        Embeddings have `dimension` values, or twice as many with attentive pooling.
        """
        features_BCL = features_BLC.transpose(1, 2)
        *parts, last_BWL = features_BCL.split(self.width, dim=1)
        outputs: list[Tensor] = []
        for part_BWL, block, norm in zip(parts, self.Build_in_Res2Nets, self.bns, strict=True):
            if outputs:
                part_BWL = outputs[-1] + part_BWL
            part_BWL = F.relu(block(part_BWL))
            outputs.append(norm(part_BWL))
        outputs.append(last_BWL)
        x_BCL = self.bn(torch.cat(outputs, dim=1)).relu()
        if self.pooling is None:
            embeddings_BE = x_BCL.mean(dim=2)
        else:
            embeddings_BE = self.pooling(x_BCL)
        logits_B2 = in_full_precision(self.fc, embeddings_BE)
        return embeddings_BE, logits_B2, x_BCL.transpose(1, 2)


class SSL_Nes2NetX(PairedDetector):
    """wav2vec 2.0 and Nes2Net-X (Liu et al., IEEE TIFS 2025)."""

    back_end_class = Nes2NetXBackEnd
    paper = "Liu et al., IEEE TIFS 2025"
