"""The back ends of the toolkit DeepFense, where they differ from the originals.

Invariant: parameter names and numbers are those of the toolkit, except that the output layer, a
part of the loss there, is part of the back end here. Its AASIST keeps more temporal nodes after
pooling, and its Nes2Net sums the parts of its inner blocks without weights.

Source: the package deepfense 0.2.2, `models/backends` (arXiv 2604.08450).

Shapes: B utterances, L frames, F feature values, C channels, W channels of a part, E embedding
values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.back_ends.conformer import TCMBackEnd
from asdf.networks.back_ends.nes2net import KERNEL, Nes2NetXBackEnd, SqueezeExcitation
from asdf.networks.back_ends.ssl_aasist import AASISTBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

ACTIVATIONS = {"relu": nn.ReLU, "selu": nn.SELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid}


class DeepFenseAASISTBackEnd(AASISTBackEnd):
    """AASIST that keeps 70 % of the temporal nodes instead of half of them."""

    short_name = "deepfense_aasist"
    sizes = replace(AASISTBackEnd.sizes, pool_ratios=(0.5, 0.7, 0.5))


class AddedRes2Net(nn.Module):
    """A Res2Net block: each part's convolution sees its sum with the previous output."""

    def __init__(self, channels: int, splits: int, dilation: int, squeeze: int) -> None:
        super().__init__()
        self.width = channels // splits
        inside = self.width * splits
        self.conv1 = nn.Conv1d(channels, inside, kernel_size=1)
        self.bn1 = nn.BatchNorm1d(inside)
        padding = KERNEL // 2 * dilation
        self.convs = nn.ModuleList()
        self.bns = nn.ModuleList()
        for _ in range(splits - 1):
            convolution = nn.Conv1d(
                self.width, self.width, KERNEL, dilation=dilation, padding=padding
            )
            self.convs.append(convolution)
            self.bns.append(nn.BatchNorm1d(self.width))
        self.conv3 = nn.Conv1d(inside, channels, kernel_size=1)
        self.bn3 = nn.BatchNorm1d(channels)
        self.se = SqueezeExcitation(channels, max(1, channels // squeeze))

    def forward(self, x_BCL: Tensor) -> Tensor:
        inside_BCL = self.bn1(self.conv1(x_BCL).relu())
        *parts, last_BWL = inside_BCL.split(self.width, dim=1)
        outputs: list[Tensor] = []
        for part_BWL, conv, norm in zip(parts, self.convs, self.bns, strict=True):
            if outputs:
                part_BWL = outputs[-1] + part_BWL
            outputs.append(norm(conv(part_BWL).relu()))
        # The last part bypasses all convolutions.
        out_BCL = self.conv3(torch.cat([*outputs, last_BWL], dim=1))
        scaled_BCL: Tensor = self.se(self.bn3(out_BCL.relu()))
        return x_BCL + scaled_BCL


class DeepFenseNes2NetBackEnd(Nes2NetXBackEnd):
    """Nes2Net without the X: parts are summed without weights."""

    short_name = "deepfense_nes2net"
    block_class = AddedRes2Net


@dataclass
class DeepFenseSizes(OwnSettings, section_name="back_end"):
    """Sizes of the layers on each frame."""

    deepfense_layers: tuple[int, ...] = setting((128,), check="not_empty", at_least=1)
    """SSL_DeepFenseMLP: values of a frame after each of its layers"""
    deepfense_norm: Literal["layer", "batch", "none"] = "layer"
    """SSL_DeepFenseMLP: what normalises frames after each layer"""
    deepfense_activation: Literal["relu", "selu", "tanh", "sigmoid"] = "relu"
    """SSL_DeepFenseMLP: activation of its layers"""


class DeepFenseMLPBackEnd(SizedBackEnd, TimedBackEnd):
    """Layers on each frame, the mean over time, and a linear layer.

    Args:
        widths: Number of values of a frame after each layer.
        norm: Normalisation after each layer, before its activation: 'layer', 'batch' or 'none'.
        activation: Key of `ACTIVATIONS`.
    """

    short_name = "deepfense_mlp"
    size_settings = ("deepfense_layers", "deepfense_norm", "deepfense_activation")

    def __init__(self, dimension: int, widths: tuple[int, ...], norm: str, activation: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for width in widths:
            layers.append(nn.Linear(dimension, width))
            if norm == "layer":
                layers.append(nn.LayerNorm(width))
            elif norm == "batch":
                layers.append(FrameNorm(width))
            layers.append(ACTIVATIONS[activation]())
            dimension = width
        self.projection_block = nn.Sequential(*layers)
        self.frame_dimension = dimension
        self.fc = nn.Linear(dimension, 2)

    def with_frames(self, features_BLF: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, last width), logits, and the frames before the mean."""
        frames_BLE = self.projection_block(features_BLF)
        embeddings_BE = frames_BLE.mean(dim=1)
        return embeddings_BE, in_full_precision(self.fc, embeddings_BE), frames_BLE


class FrameNorm(nn.Module):
    """A batch norm of frames (batch, frames, values)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bn = nn.BatchNorm1d(width)

    def forward(self, x_BLC: Tensor) -> Tensor:
        normed_BCL: Tensor = self.bn(x_BLC.transpose(1, 2))
        return normed_BCL.transpose(1, 2)


class SSL_DeepFenseAASIST(PairedDetector):
    """A front end and DeepFense's AASIST."""

    back_end_class = DeepFenseAASISTBackEnd
    paper = "DeepFense, arXiv 2604.08450"


class SSL_DeepFenseNes2Net(PairedDetector):
    """A front end and DeepFense's Nes2Net."""

    back_end_class = DeepFenseNes2NetBackEnd
    paper = "DeepFense, arXiv 2604.08450"


class SSL_DeepFenseMLP(PairedDetector):
    """A front end, layers on each frame and their mean, as in DeepFense."""

    back_end_class = DeepFenseMLPBackEnd
    paper = "DeepFense, arXiv 2604.08450"


class SSL_DeepFenseTCM(PairedDetector):
    """A front end and TCM, `SSL_ConformerTCM` in the layout of DeepFense."""

    back_end_class = TCMBackEnd
    paper = "DeepFense, arXiv 2604.08450"
