"""RawGAT-ST on raw waveforms: a graph of frequencies and one of times are fused into a third.

Invariant: parameter names and numbers are those of the published networks. As in AASIST's blocks,
the first batch norm of blocks 1 to 5 and their one-channel convolution are in the state dict but
not computed: the published code discards the output of the former and never calls the latter.

Linear layers over nodes give both graphs the same size, so the network takes only one length: other
recordings are cut or repeated, as in the authors' code.

Source: Tak et al., "End-to-end spectro-temporal graph attention networks for speaker verification
anti-spoofing and speech deepfake detection", ASVspoof Workshop 2021;
eurecom-asp/RawGAT-ST-antispoofing, `model.py`.

Shapes: B utterances, T samples, then times; F frequencies, C channels, then values of a node; N
nodes, M nodes after a linear layer over them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE
from asdf.networks.aasist import FILTER_LENGTH, FILTERS, POOL, SPECTRAL_NODES, MagnitudePool
from asdf.networks.back_ends.graph_attention import GraphAttention, GraphPool
from asdf.networks.back_ends.graph_back_end import normalize_map, order_map
from asdf.networks.casting import in_full_precision, without_autocast
from asdf.networks.filters import SincFilters
from asdf.networks.functions import LearningSELU, share
from asdf.networks.interface import DetectorNetwork, cut_or_repeat
from asdf.settings.fields import OwnSettings
from asdf.settings.sections import Sections

SAMPLES = 64600
CHANNELS = (1, 32, 32, 64, 64, 64, 64)
WIDE, NARROW = 32, 16
NODES = 12
"""Nodes of each of the two graphs when they are joined."""
_SPECTRAL_RATIO, _TEMPORAL_RATIO, _JOINT_RATIO = 0.64, 0.81, 0.64


class MapBlock(nn.Module):
    """Two convolutions around a batch norm, added to their input; times are pooled by 3."""

    def __init__(self, channels_in: int, channels_out: int, first: bool) -> None:
        super().__init__()
        self.first = first
        if not first:
            self.bn1 = nn.BatchNorm2d(channels_in)
            self.conv1 = _convolution(channels_in, channels_out, padding=(1, 1))
        # Used by the first block, which reads one channel; the others hold it without using it.
        self.conv_1 = _convolution(1, channels_out, padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.conv2 = _convolution(channels_out, channels_out, padding=(0, 1))
        self.changes_channels = not first and channels_in != channels_out
        if self.changes_channels:
            self.conv_downsample = nn.Conv2d(
                channels_in, channels_out, kernel_size=(1, 3), padding=(0, 1)
            )
        self.selu = LearningSELU()

    def forward(self, x_BCFT: Tensor) -> Tensor:
        """Map (batch, channels_in, F, T) to (batch, channels_out, F, T // 3)."""
        convolution = self.conv_1 if self.first else self.conv1
        inside_BCFT = self.selu(self.bn2(order_map(convolution(x_BCFT))))
        out_BCFT = self.conv2(inside_BCFT)
        if self.changes_channels:
            x_BCFT = order_map(self.conv_downsample(x_BCFT))
        # The first block's single input channel is added to every output channel.
        return F.max_pool2d(out_BCFT + x_BCFT, (1, POOL))

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the first batch norm's parameters, and those of a convolution for block 0 only."""
        if not self.first:
            yield from self.bn1.parameters()
            yield from self.conv_1.parameters()


def _convolution(channels_in: int, channels_out: int, padding: tuple[int, int]) -> nn.Conv2d:
    return nn.Conv2d(channels_in, channels_out, kernel_size=(2, 3), padding=padding)


def _make_encoder() -> nn.Sequential:
    pairs = enumerate(pairwise(CHANNELS))
    # Each block in a Sequential, as in the published names.
    blocks = [nn.Sequential(MapBlock(*pair, first=number == 0)) for number, pair in pairs]
    return nn.Sequential(*blocks)


@dataclass
class RawGATSizes(OwnSettings, section_name="back_end"):
    """How RawGAT-ST joins its graphs."""

    rawgat_fusion: Literal["mul", "add", "cat"] = "mul"
    """RawGAT_ST: how the graphs of frequencies and of times are joined: by their product, by their
    sum, or side by side"""


class RawGAT_ST(DetectorNetwork):
    """RawGAT-ST, 440,810 parameters, for recordings of 64,600 samples.

    `back_end.rawgat_fusion` fuses both graphs by product, sum or concatenation, which gives three
    published networks.
    """

    sample_rate = SAMPLE_RATE
    paper = "Tak et al., ASVspoof Workshop 2021"
    fixed_samples = SAMPLES
    # None, so that front_end.weights are not even read.
    front_end_class: ClassVar[None] = None

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        self.fusion = RawGATSizes.of(settings).rawgat_fusion
        # Concatenation doubles the width of the nodes and of the following layers.
        factor = 2 if self.fusion == "cat" else 1
        self.conv_time = SincFilters(FILTERS, FILTER_LENGTH)
        self.pool_magnitudes = MagnitudePool()
        self.first_bn = nn.BatchNorm2d(1)
        self.selu = LearningSELU()
        self.encoder1 = _make_encoder()
        self.encoder2 = _make_encoder()
        self.GAT_layer1 = GraphAttention(CHANNELS[-1], WIDE, temperature=1.0)
        self.pool1 = GraphPool(_SPECTRAL_RATIO, WIDE)
        self.GAT_layer2 = GraphAttention(CHANNELS[-1], WIDE, temperature=1.0)
        self.pool2 = GraphPool(_TEMPORAL_RATIO, WIDE)
        self.GAT_layer3 = GraphAttention(factor * WIDE, factor * NARROW, temperature=1.0)
        self.pool3 = GraphPool(_JOINT_RATIO, factor * NARROW)
        self.proj1 = nn.Linear(share(SPECTRAL_NODES, _SPECTRAL_RATIO), NODES)
        # The number of times after the encoders.
        times: int = (SAMPLES - self.conv_time.length + 1) // POOL
        for _ in CHANNELS[1:]:
            times //= POOL
        self.proj2 = nn.Linear(share(times, _TEMPORAL_RATIO), NODES)
        self.proj = nn.Linear(factor * NARROW, 1)
        self.proj_node = nn.Linear(share(NODES, _JOINT_RATIO), 2)

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 7), one value per node of the last graph, and logits.

        Waveforms (batch, samples) are cut or repeated to 64,600 samples.
        """
        filtered_BFT = self.conv_time(cut_or_repeat(waveforms_BT, SAMPLES))
        x_B1FT = normalize_map(self.first_bn, self.pool_magnitudes(filtered_BFT))
        x_B1FT = self.selu(x_B1FT)
        spectral_BCF = self.encoder1(x_B1FT).abs().amax(dim=3)
        temporal_BCT = self.encoder2(x_B1FT).abs().amax(dim=2)
        # The graphs are small: in a shorter format, most operations would be casts.
        with without_autocast(spectral_BCF):
            kind = self.proj.weight.dtype
            spectral_BNC = self.pool1(self.GAT_layer1(spectral_BCF.transpose(1, 2).to(kind)))
            temporal_BNC = self.pool2(self.GAT_layer2(temporal_BCT.transpose(1, 2).to(kind)))
            spectral_BCM = self.proj1(spectral_BNC.transpose(1, 2))
            temporal_BCM = self.proj2(temporal_BNC.transpose(1, 2))
            if self.fusion == "cat":
                joined_BCM = torch.cat([spectral_BCM, temporal_BCM], dim=1)
            elif self.fusion == "mul":
                joined_BCM = spectral_BCM * temporal_BCM
            else:
                joined_BCM = spectral_BCM + temporal_BCM
            nodes_BNC = self.pool3(self.GAT_layer3(joined_BCM.transpose(1, 2)))
            embeddings_BN = self.proj(nodes_BNC).flatten(1)
        return embeddings_BN, in_full_precision(self.proj_node, embeddings_BN)

    def scoring_length(self, samples: int) -> int:
        """Return 64,600, or `samples` if that is smaller."""
        return min(samples, SAMPLES)
