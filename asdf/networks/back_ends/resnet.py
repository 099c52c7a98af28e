"""ResNet-18 on a map of features over time, with attentive pooling.

Invariant: parameter names and numbers are those of the authors' implementation. It adds noise with
a deviation of 1e-5 to the weighted frames before computing their deviation, even in scoring; here
the noise's variance is added instead, so that scores are not random.

Source: Zhang et al., "One-Class Learning Towards Synthetic Voice Spoofing Detection", IEEE Signal
Processing Letters 2021 (yzyouzhang/AIR-ASVspoof), after Monteiro et al., "Generalized end-to-end
detection of spoofing attacks to automatic speaker recognizers", Computer Speech & Language 2020.

Shapes: B utterances, L frames, F feature values, C channels, M frames after pooling, E embedding
values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

STEM = 16
"""Channels of the first convolution."""
CHANNELS = (64, 128, 256, 512)
POOLED = 256
KERNEL = 9
"""Height of the first convolution in feature values, with a stride of 3."""
NOISE_VARIANCE = 1e-10


class PreActivationBlock(nn.Module):
    """Two pre-activated convolutions, added to their input (He et al., ECCV 2016)."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(
            channels_in, channels_out, kernel_size=3, stride=stride, padding=1, bias=False
        )
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, kernel_size=3, padding=1, bias=False)
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or channels_in != channels_out:
            convolution = nn.Conv2d(
                channels_in, channels_out, kernel_size=1, stride=stride, bias=False
            )
            self.shortcut = nn.Sequential(convolution)

    def forward(self, x_BCFL: Tensor) -> Tensor:
        """Map (batch, channels_in, F, L) to (batch, channels_out, F, L) over the stride."""
        active_BCFL = self.bn1(x_BCFL).relu()
        if self.shortcut is not None:
            x_BCFL = self.shortcut(active_BCFL)
        inside_BCFL = self.bn2(self.conv1(active_BCFL)).relu()
        out_BCFL: Tensor = self.conv2(inside_BCFL)
        return out_BCFL + x_BCFL


class WeightedFrames(nn.Module):
    """Sum and deviation over time of frames weighted by an attention.

    Maps (batch, frames, channels) to (batch, 2 * channels).
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.att_weights = nn.Parameter(torch.empty(1, channels))
        nn.init.kaiming_uniform_(self.att_weights)

    def forward(self, x_BMC: Tensor) -> Tensor:
        scores_BM1 = (x_BMC @ self.att_weights.transpose(0, 1)).tanh()
        weighted_BMC = x_BMC * scores_BM1.softmax(dim=1)
        variance_BC = weighted_BMC.var(dim=1) + NOISE_VARIANCE
        return torch.cat([weighted_BMC.sum(dim=1), variance_BC.sqrt()], dim=1)


@dataclass
class ResNetSizes(OwnSettings, section_name="back_end"):
    """Sizes of ResNet-18."""

    resnet_projection: int = setting(0, unit="values", at_least=0)
    """SSL_ResNet18: values that features are projected to first; 0: not"""
    resnet_embedding: int = setting(256, unit="values", at_least=1)
    """SSL_ResNet18: size of the embedding"""


class ResNet18BackEnd(SizedBackEnd, TimedBackEnd):
    """ResNet-18 on features with at least 7 values, and at least 9 frames.

    Args:
        projected: Number of values after a linear layer on the features; 0 for no such layer.
        embedding: Number of values of the embedding.

    Raises:
        UsageError: fewer than 7 values are left.
    """

    short_name = "resnet18"
    size_settings = ("resnet_projection", "resnet_embedding")
    # Three halvings leave two of these frames, the minimum for a deviation.
    shortest_frames = 9
    frame_step = 8
    frame_dimension = POOLED

    def __init__(self, dimension: int, projected: int, embedding: int) -> None:
        super().__init__()
        self.projection: nn.Linear | None = None
        if projected:
            self.projection = nn.Linear(dimension, projected)
            dimension = projected
        if dimension + 2 < KERNEL:
            raise UsageError(
                f"back_end.resnet_projection: ResNet-18 needs at least {KERNEL - 2} feature "
                f"values, but receives {dimension}. Set it to {KERNEL - 2} or more, or choose a "
                "front end with more values."
            )
        self.conv1 = nn.Conv2d(
            1, STEM, kernel_size=(KERNEL, 3), stride=(3, 1), padding=1, bias=False
        )
        self.bn1 = nn.BatchNorm2d(STEM)
        # The height that is left after each convolution, since the last one spans all of it.
        height = (dimension + 2 - KERNEL) // 3 + 1
        channels_in = STEM
        for number, channels in enumerate(CHANNELS, 1):
            stride = 1 if number == 1 else 2
            height = (height - 1) // stride + 1
            first = PreActivationBlock(channels_in, channels, stride)
            second = PreActivationBlock(channels, channels, 1)
            self.add_module(f"layer{number}", nn.Sequential(first, second))
            channels_in = channels
        # Reduces the remaining feature values to one.
        self.conv5 = nn.Conv2d(
            channels_in, POOLED, kernel_size=(height, 3), padding=(0, 1), bias=False
        )
        self.bn5 = nn.BatchNorm2d(POOLED)
        self.fc = nn.Linear(2 * POOLED, embedding)
        self.fc_mu = nn.Linear(embedding, 2)
        self.attention = WeightedFrames(POOLED)
        # As in the authors' code, which draws these weights in another way than torch's layers do.
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out")
            elif isinstance(module, nn.Linear):
                nn.init.kaiming_uniform_(module.weight)

    def with_frames(self, features_BLF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, embedding), logits, and the frames before pooling."""
        if self.projection is not None:
            features_BLF = self.projection(features_BLF)
        x_BCFL = self.conv1(features_BLF.transpose(1, 2).unsqueeze(1))
        x_BCFL = self.bn1(x_BCFL).relu()
        for number in range(1, len(CHANNELS) + 1):
            x_BCFL = self.get_submodule(f"layer{number}")(x_BCFL)
        x_BCM = self.bn5(self.conv5(x_BCFL)).relu().squeeze(2)
        frames_BMC = x_BCM.transpose(1, 2)
        embeddings_BE = self.fc(self.attention(frames_BMC))
        return embeddings_BE, in_full_precision(self.fc_mu, embeddings_BE), frames_BMC


class SSL_ResNet18(PairedDetector):
    """wav2vec 2.0 and ResNet-18 with attentive pooling (Zhang et al., IEEE SPL 2021)."""

    back_end_class = ResNet18BackEnd
    paper = "Zhang et al., IEEE SPL 2021"
