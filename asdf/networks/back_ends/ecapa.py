"""ECAPA-TDNN: dilated Res2Net blocks with squeeze-and-excitation, and attentive statistics.

Invariant: layers and sizes are those of the paper; the default is the smaller of its two sizes,
with 512 rather than 1024 channels.

Source: Desplanques et al., "ECAPA-TDNN: Emphasized Channel Attention, Propagation and Aggregation
in TDNN Based Speaker Verification", Interspeech 2020.

Shapes: B utterances, L frames, C channels, W channels of a part, E embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.back_ends.nes2net import SqueezeExcitation
from asdf.networks.back_ends.pooling import weighted_statistics
from asdf.networks.casting import in_full_precision
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

DILATIONS = (2, 3, 4)
AGGREGATED = 1536
"""Output channels of the layer that joins the outputs of all blocks."""
SQUEEZED = 128
MIN_VARIANCE = 1e-4


class Res2NetBlock(nn.Module):
    """A Res2Net block: each part is convolved after adding the output of the previous part."""

    def __init__(self, channels: int, splits: int, dilation: int) -> None:
        super().__init__()
        self.width = channels // splits
        self.conv1 = nn.Conv1d(channels, channels, kernel_size=1)
        self.bn1 = nn.BatchNorm1d(channels)
        self.convs = nn.ModuleList()
        self.bns = nn.ModuleList()
        for _ in range(splits - 1):
            convolution = nn.Conv1d(
                self.width, self.width, kernel_size=3, dilation=dilation, padding=dilation
            )
            self.convs.append(convolution)
            self.bns.append(nn.BatchNorm1d(self.width))
        self.conv3 = nn.Conv1d(channels, channels, kernel_size=1)
        self.bn3 = nn.BatchNorm1d(channels)
        self.se = SqueezeExcitation(channels, SQUEEZED)

    def forward(self, x_BCL: Tensor) -> Tensor:
        """Return (batch, channels, frames)."""
        inside_BCL = self.bn1(self.conv1(x_BCL).relu())
        *parts, last_BWL = inside_BCL.split(self.width, dim=1)
        outputs: list[Tensor] = []
        for part_BWL, conv, norm in zip(parts, self.convs, self.bns, strict=True):
            if outputs:
                part_BWL = part_BWL + outputs[-1]
            outputs.append(norm(conv(part_BWL).relu()))
        # The last part bypasses all convolutions.
        outputs.append(last_BWL)
        out_BCL = self.bn3(self.conv3(torch.cat(outputs, dim=1)).relu())
        scaled_BCL: Tensor = self.se(out_BCL)
        return x_BCL + scaled_BCL


class ContextualStatistics(nn.Module):
    """Attentive statistics whose attention also sees the utterance's mean and deviation.

    Maps (batch, channels, frames) to (batch, 2 * channels).
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.attention = nn.Sequential(
            nn.Conv1d(3 * channels, hidden, kernel_size=1),
            nn.ReLU(),
            nn.BatchNorm1d(hidden),
            nn.Tanh(),
            nn.Conv1d(hidden, channels, kernel_size=1),
        )

    def forward(self, x_BCL: Tensor) -> Tensor:
        mean_BC1 = x_BCL.mean(dim=2, keepdim=True)
        variance_BC1 = (x_BCL - mean_BC1).square().mean(dim=2, keepdim=True)
        deviation_BC1 = variance_BC1.clamp(min=MIN_VARIANCE).sqrt()
        context_BCL = torch.cat([mean_BC1, deviation_BC1], dim=1).expand(-1, -1, x_BCL.shape[2])
        scores_BCL = self.attention(torch.cat([x_BCL, context_BCL], dim=1))
        return weighted_statistics(x_BCL, scores_BCL.softmax(dim=2))


class NormOfPooled(nn.BatchNorm1d):
    """A batch norm of one value per channel, which can also train on a single utterance.

    A single value has no variance, so the running statistics are used, as in `eval()` mode.
    """

    def forward(self, x_BC: Tensor) -> Tensor:
        if self.training and len(x_BC) == 1:
            return F.batch_norm(
                x_BC, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
            )
        return super().forward(x_BC)


@dataclass
class ECAPASizes(OwnSettings, section_name="back_end"):
    """Sizes of ECAPA-TDNN."""

    ecapa_channels: int = setting(512, at_least=1)
    """SSL_ECAPA: channels of its blocks; 1024 is the larger published size"""
    ecapa_splits: int = setting(8, at_least=2)
    """SSL_ECAPA: parts of the channels of a Res2Net"""
    ecapa_attention: int = setting(128, unit="values", at_least=1)
    """SSL_ECAPA: hidden units of the attention"""
    ecapa_embedding: int = setting(192, unit="values", at_least=1)
    """SSL_ECAPA: size of the embedding"""


class ECAPABackEnd(SizedBackEnd, TimedBackEnd):
    """ECAPA-TDNN on features of any dimension.

    Raises:
        UsageError: the channels are not divisible by the number of parts of a Res2Net.
    """

    short_name = "ecapa"

    def __init__(self, dimension: int, sizes: ECAPASizes) -> None:
        super().__init__()
        self.frame_dimension = AGGREGATED
        channels = sizes.ecapa_channels
        if channels % sizes.ecapa_splits:
            raise UsageError(
                f"back_end.ecapa_splits = {sizes.ecapa_splits}: {channels} channels "
                "(back_end.ecapa_channels) cannot be divided into that many equal parts."
            )
        self.conv1 = nn.Conv1d(dimension, channels, kernel_size=5, padding=2)
        self.bn1 = nn.BatchNorm1d(channels)
        self.blocks = nn.ModuleList()
        for dilation in DILATIONS:
            self.blocks.append(Res2NetBlock(channels, sizes.ecapa_splits, dilation))
        self.aggregation = nn.Conv1d(len(DILATIONS) * channels, AGGREGATED, kernel_size=1)
        self.pooling = ContextualStatistics(AGGREGATED, sizes.ecapa_attention)
        self.bn5 = NormOfPooled(2 * AGGREGATED)
        self.fc6 = nn.Linear(2 * AGGREGATED, sizes.ecapa_embedding)
        self.bn6 = NormOfPooled(sizes.ecapa_embedding)
        self.output = nn.Linear(sizes.ecapa_embedding, 2)

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, ecapa_embedding), logits, and the frames before pooling."""
        x_BCL = self.bn1(self.conv1(features_BLC.transpose(1, 2)).relu())
        outputs = []
        for block in self.blocks:
            out_BCL = block(x_BCL)
            outputs.append(out_BCL)
            # Each block gets the sum of all previous outputs.
            x_BCL = x_BCL + out_BCL
        aggregated_BCL = self.aggregation(torch.cat(outputs, dim=1)).relu()
        pooled_BX = self.bn5(self.pooling(aggregated_BCL))
        embeddings_BE = self.bn6(self.fc6(pooled_BX))
        logits_B2 = in_full_precision(self.output, embeddings_BE)
        return embeddings_BE, logits_B2, aggregated_BCL.transpose(1, 2)


class SSL_ECAPA(PairedDetector):
    """wav2vec 2.0 and ECAPA-TDNN (Desplanques et al., Interspeech 2020)."""

    back_end_class = ECAPABackEnd
    paper = "Desplanques et al., Interspeech 2020"
