"""AASIST on raw waveforms, in its two published sizes.

Invariant: parameter names and numbers are those of the published networks, so their weights load
and score alike.

Source: Jung et al., "AASIST: Audio Anti-Spoofing using Integrated Spectro-Temporal Graph Attention
Networks", ICASSP 2022.

Shapes: B utterances, T samples, then times; F frequencies, C channels, E embedding values.
"""

from __future__ import annotations

from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.facts import SAMPLE_RATE
from asdf.networks.back_ends.graph_back_end import (
    GraphBackEnd,
    Sizes,
    normalize_map,
    order_one_channel,
)
from asdf.networks.filters import SincFilters
from asdf.networks.interface import DetectorNetwork, repeat_short
from asdf.settings.sections import Sections

FILTERS = 70
FILTER_LENGTH = 128
POOL = 3
SPECTRAL_NODES = FILTERS // POOL


class MagnitudePool(nn.Module):
    """The largest magnitude in each window of `POOL` filters and `POOL` times."""

    def forward(self, x_BFT: Tensor) -> Tensor:
        """Pool (batch, filters, times) to (batch, 1, filters // POOL, times // POOL)."""
        return F.max_pool2d(x_BFT.abs().unsqueeze(1), POOL)


class AASIST(GraphBackEnd, DetectorNetwork):
    """Raw-waveform AASIST, 297,866 parameters."""

    sample_rate = SAMPLE_RATE
    sizes = Sizes(SPECTRAL_NODES, pool_ratios=(0.5, 0.7, 0.5))
    paper = "Jung et al., ICASSP 2022"
    # None, so that front_end.weights are not even read.
    front_end_class: ClassVar[None] = None
    frequency_masking = False
    """In training, silence up to 19 neighbouring filters. A derived class may turn it on."""

    def __init__(self, settings: Sections) -> None:
        super().__init__(self.sizes, pool_time=True)
        self.conv_time = SincFilters(FILTERS, FILTER_LENGTH)
        self.pool_magnitudes = MagnitudePool()
        # The encoder pools time by 3 in each block, and one frame must remain after the last.
        self.shortest_input = self._min_samples(POOL ** len(self.encoder))

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Return the embeddings (batch, 160) and logits (batch, 2) of waveforms (batch, samples).

        Waveforms shorter than `shortest_input`, 2,315 samples, are repeated to that length.
        """
        waveforms_BT = repeat_short(waveforms_BT, self.shortest_input)
        masks_filters = self.training and self.frequency_masking
        x_BFT = self.conv_time(waveforms_BT, mask=masks_filters)
        x_B1FT = normalize_map(self.first_bn, self.pool_magnitudes(x_BFT))
        x_BCFT = self.encoder(order_one_channel(self.selu(x_B1FT)))
        magnitudes_BCFT = x_BCFT.abs()
        spectral_BFC = magnitudes_BCFT.amax(dim=3).transpose(1, 2)
        temporal_BTC = magnitudes_BCFT.amax(dim=2).transpose(1, 2)
        return self.readout(spectral_BFC, temporal_BTC)

    def scoring_length(self, samples: int) -> int:
        """Return the number of samples up to the end of the last whole pooling window."""
        if samples < self.shortest_input:
            return samples
        filtered = samples - self.conv_time.length + 1
        return self._min_samples(filtered // POOL)

    def _min_samples(self, frames: int) -> int:
        return POOL * frames + self.conv_time.length - 1


class AASIST_L(AASIST):
    """The light AASIST, 85,306 parameters."""

    sizes = Sizes(
        SPECTRAL_NODES,
        encoder_channels=(1, 32, 32, 24, 24, 24, 24),
        gat_dims=(24, 32),
        pool_ratios=(0.4, 0.5, 0.7),
    )
