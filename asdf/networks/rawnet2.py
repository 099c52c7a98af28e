"""RawNet2 on raw waveforms, the baseline of the ASVspoof 2021 challenge.

Invariant: parameter names and numbers are those of the published network, so its weights give the
same scores. As in AASIST's blocks, the first batch norm of blocks 1 to 5 is in the state dict but
not computed, since the published code discards its output.

Source: Tak et al., "End-to-End anti-spoofing with RawNet2", ICASSP 2021; asvspoof-challenge/2021,
LA/Baseline-RawNet2.

Shapes: B utterances, T samples, then times; C channels, E embedding values.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import in_full_precision
from asdf.networks.filters import SincFilters
from asdf.networks.interface import DetectorNetwork, repeat_short
from asdf.settings.fields import MAX_FFT, MAX_FILTERS, OwnSettings, setting
from asdf.settings.sections import Sections

POOL = 3
BLOCKS = 6
SLOPE = 0.3


class WaveBlock(nn.Module):
    """Two convolutions over time around a batch norm, added to their input, then pooled by 3."""

    def __init__(self, channels_in: int, channels_out: int, first: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm1d(channels_in)
        self.conv1 = nn.Conv1d(channels_in, channels_out, kernel_size=3, padding=1)
        self.bn2 = nn.BatchNorm1d(channels_out)
        self.conv2 = nn.Conv1d(channels_out, channels_out, kernel_size=3, padding=1)
        self.changes_channels = channels_in != channels_out
        if self.changes_channels:
            self.conv_downsample = nn.Conv1d(channels_in, channels_out, kernel_size=1)

    def forward(self, x_BCT: Tensor) -> Tensor:
        """Map (batch, channels_in, T) to (batch, channels_out, T // 3)."""
        inside_BCT = F.leaky_relu(self.bn2(self.conv1(x_BCT)), SLOPE)
        out_BCT = self.conv2(inside_BCT)
        if self.changes_channels:
            x_BCT = self.conv_downsample(x_BCT)
        return F.max_pool1d(out_BCT + x_BCT, POOL)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the first batch norm."""
        if hasattr(self, "bn1"):
            yield from self.bn1.parameters()


@dataclass
class RawNet2Sizes(OwnSettings, section_name="back_end"):
    """Sizes of RawNet2."""

    rawnet2_filters: int = setting(20, at_least=1, at_most=MAX_FILTERS)
    """RawNet2: band-pass filters, and channels of the first two blocks; 128 in the paper"""
    rawnet2_taps: int = setting(1024, unit="samples", at_least=1, at_most=MAX_FFT)
    """RawNet2: length of the filters; 1 is added to an even one"""
    rawnet2_channels: int = setting(128, at_least=1)
    """RawNet2: channels of the other four blocks; 512 in the paper"""
    rawnet2_layers: int = setting(3, at_least=1)
    """RawNet2: gated recurrent layers"""
    rawnet2_recurrent: int = setting(1024, at_least=1)
    """RawNet2: units of each of them"""
    rawnet2_embedding: int = setting(1024, unit="values", at_least=1)
    """RawNet2: size of the embedding"""


class RawNet2(DetectorNetwork):
    """RawNet2 in the sizes of the ASVspoof 2021 baseline, 17,621,410 parameters, or in others.

    The paper has 128 and 512 channels instead of 20 and 128, and 25,433,602 parameters.
    """

    sample_rate = SAMPLE_RATE
    paper = "Tak et al., ICASSP 2021"
    # None, so that front_end.weights are not even read.
    front_end_class: ClassVar[None] = None

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        sizes = RawNet2Sizes.of(settings)
        filters = sizes.rawnet2_filters
        self.Sinc_conv = SincFilters(filters, sizes.rawnet2_taps)
        self.first_bn = nn.BatchNorm1d(filters)
        channels_in = filters
        for number in range(BLOCKS):
            channels = filters if number < 2 else sizes.rawnet2_channels
            block = WaveBlock(channels_in, channels, first=number == 0)
            # In a Sequential, as in the published names.
            self.add_module(f"block{number}", nn.Sequential(block))
            scaling = nn.Sequential(nn.Linear(channels, channels))
            self.add_module(f"fc_attention{number}", scaling)
            channels_in = channels
        self.bn_before_gru = nn.BatchNorm1d(channels_in)
        units = sizes.rawnet2_recurrent
        self.gru = nn.GRU(channels_in, units, sizes.rawnet2_layers, batch_first=True)
        self.fc1_gru = nn.Linear(units, sizes.rawnet2_embedding)
        self.fc2_gru = nn.Linear(sizes.rawnet2_embedding, 2)
        # The filters' outputs and each block are pooled, and one time must remain.
        self.shortest_input = self._min_samples(POOL**BLOCKS)

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, rawnet2_embedding) and log probabilities (batch, 2).

        The published scores are the log probabilities. Waveforms (batch, samples) shorter than
        `shortest_input`, 3,211 samples by default, are repeated to that length.
        """
        waveforms_BT = repeat_short(waveforms_BT, self.shortest_input)
        x_BCT = F.max_pool1d(self.Sinc_conv(waveforms_BT).abs(), POOL)
        x_BCT = F.selu(self.first_bn(x_BCT))
        for number in range(BLOCKS):
            x_BCT = self.get_submodule(f"block{number}")(x_BCT)
            # Feature map scaling, multiplicative and additive.
            scores_BC = self.get_submodule(f"fc_attention{number}")(x_BCT.mean(dim=2))
            factors_BC1 = scores_BC.sigmoid().unsqueeze(2)
            x_BCT = x_BCT * factors_BC1 + factors_BC1
        x_BCT = F.selu(self.bn_before_gru(x_BCT))
        states_BTC, _ = self.gru(x_BCT.transpose(1, 2))
        embeddings_BE = self.fc1_gru(states_BTC[:, -1])
        logits_B2 = in_full_precision(self.fc2_gru, embeddings_BE)
        return embeddings_BE, logits_B2.log_softmax(dim=1)

    def scoring_length(self, samples: int) -> int:
        """Return the samples up to the end of the last whole pooling window of the filters."""
        if samples < self.shortest_input:
            return samples
        filtered = samples - self.Sinc_conv.length + 1
        return self._min_samples(filtered // POOL)

    def _min_samples(self, frames: int) -> int:
        return POOL * frames + self.Sinc_conv.length - 1
