"""Nes2Net-X: Res2Nets nested in a Res2Net, on features that keep their full dimension.

Invariant: parameter names and numbers are those of the published network, whose checkpoints put
`Nested_Res2Net_TDNN.` before them.

Source: Liu et al., "Nes2Net: A Lightweight Nested Architecture for Foundation Model Driven Speech Anti-Spoofing",
IEEE Transactions on Information Forensics and Security, 2025.

Shapes: B utterances, C channels, L frames, W channels of a part, P parts that are kept side by side.
"""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.full_precision import in_full_precision
from asdf.networks.pooling import AttentiveStatistics
from asdf.networks.ssl_detector import BackEnd, SSLDetector
from asdf.settings.sections import Sections

KERNEL = 3
ATTENTION = 128


class SqueezeExcitation(nn.Module):
    """Scales each channel by what the utterance's mean says (Hu et al., CVPR 2018)."""

    def __init__(self, channels: int, squeeze: int) -> None:
        super().__init__()
        inside = max(1, channels // squeeze)
        self.se = nn.Sequential(
            nn.AdaptiveAvgPool1d(1),
            nn.Conv1d(channels, inside, kernel_size=1),
            nn.ReLU(),
            nn.Conv1d(inside, channels, kernel_size=1),
            nn.Sigmoid(),
        )

    def forward(self, x_BCL: Tensor) -> Tensor:
        return x_BCL * self.se(x_BCL)


class WeightedRes2Net(nn.Module):
    """A Res2Net block whose parts are not added up but kept side by side, and added up by learned weights.

    The 'X' of the name: the convolution of part i sees i + 1 earlier parts, each by itself.
    """

    def __init__(self, channels: int, splits: int, dilation: int, squeeze: int) -> None:
        super().__init__()
        self.width = channels // splits
        inside = self.width * splits
        self.conv1 = nn.Conv1d(channels, inside, kernel_size=1)
        self.bn1 = nn.BatchNorm1d(inside)
        padding = KERNEL // 2 * dilation
        self.convs = nn.ModuleList(
            nn.Conv2d(
                self.width, self.width, (KERNEL, 1), dilation=(dilation, 1), padding=(padding, 0)
            )
            for _ in range(splits - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm2d(self.width) for _ in range(splits - 1))
        sizes = range(2, splits + 1)
        self.weighted_sum = nn.ParameterList(
            nn.Parameter(torch.full((1, 1, 1, size), 1 / size)) for size in sizes
        )
        self.conv3 = nn.Conv1d(inside, channels, kernel_size=1)
        self.bn3 = nn.BatchNorm1d(channels)
        self.se = SqueezeExcitation(channels, squeeze)

    def forward(self, x_BCL: Tensor) -> Tensor:
        *parts, last = self.bn1(self.conv1(x_BCL).relu()).unsqueeze(3).split(self.width, dim=1)
        kept_BWLP, sums = last, []
        for part, conv, norm, weights in zip(
            parts, self.convs, self.bns, self.weighted_sum, strict=True
        ):
            kept_BWLP = norm(conv(torch.cat([kept_BWLP, part], dim=3)).relu())
            sums.append((kept_BWLP * weights).sum(dim=3))
        out_BCL = torch.cat([*sums, last.squeeze(3)], dim=1)
        return x_BCL + self.se(self.bn3(self.conv3(out_BCL).relu()))


class Nes2NetXBackEnd(BackEnd):
    """Nes2Net-X on features of a dimension that `splits[0] * splits[1]` divides.

    Args:
        splits: parts of the features, and parts of each of these.
        squeeze: how many times narrower the squeeze-and-excitation layers are inside.
    """

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
                f"back_end.nes2net_splits = {splits}: features of {dimension} values cannot be divided into "
                f"{outer} parts of {inner} equal parts each. Their product has to divide {dimension}."
            )
        self.width = dimension // outer
        self.Build_in_Res2Nets = nn.ModuleList(
            WeightedRes2Net(self.width, inner, dilation, squeeze) for _ in range(outer - 1)
        )
        self.bns = nn.ModuleList(nn.BatchNorm1d(self.width) for _ in range(outer - 1))
        self.bn = nn.BatchNorm1d(dimension)
        self.pooling = AttentiveStatistics(dimension, ATTENTION) if pooling == "attentive" else None
        self.fc = nn.Linear(dimension if self.pooling is None else 2 * dimension, 2)

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings, the pooled features (batch, dimension, or twice that), and logits (batch, 2)."""
        *parts, last = features_BLC.transpose(1, 2).split(self.width, dim=1)
        outputs: list[Tensor] = []
        for part, block, norm in zip(parts, self.Build_in_Res2Nets, self.bns, strict=True):
            outputs.append(norm(F.relu(block(part if not outputs else outputs[-1] + part))))
        x_BCL = self.bn(torch.cat([*outputs, last], dim=1)).relu()
        embeddings_BE = x_BCL.mean(dim=2) if self.pooling is None else self.pooling(x_BCL)
        return embeddings_BE, in_full_precision(self.fc, embeddings_BE)


class SSL_Nes2NetX(SSLDetector):
    """wav2vec 2.0 and Nes2Net-X (Liu et al., IEEE TIFS 2025)."""

    paper = "Liu et al., IEEE TIFS 2025"

    def make_back_end(self, settings: Sections) -> BackEnd:
        sizes = settings.back_end
        return Nes2NetXBackEnd(
            self.front_end.dimension,
            sizes.nes2net_splits,
            sizes.nes2net_dilation,
            sizes.nes2net_squeeze,
            sizes.nes2net_pooling,
        )
