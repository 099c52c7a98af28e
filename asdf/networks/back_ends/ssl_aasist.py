"""A self-supervised front end and AASIST.

Invariant: parameter names and numbers are those of the published networks; `asdf.interchange`
renames the prefix `ssl_model.model.*` of their state dicts.

Source: Tak et al., "Automatic speaker verification spoofing and deepfake detection using wav2vec
2.0 and data augmentation", Odyssey 2022.

Shapes: B utterances, L frames, F feature values, P projected values, S = P // 3 spectral and
N = L // 3 temporal nodes, C channels.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.aasist import AASIST_L
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.back_ends.graph_back_end import GraphBackEnd, Sizes, normalize_map
from asdf.networks.casting import weights_cast_together
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.functions import LearningSELU, softmax_mean
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.sections import Sections

PROJECTED = 128
POOL = 3


class NodeAttention(nn.Sequential):
    """Scores of positions in a map, (batch, C, S, N) like its input."""


class AASISTBackEnd(GraphBackEnd, BackEnd):
    """AASIST on features (batch, frames, dimension) of any dimension, with at least 3 frames."""

    short_name = "aasist"
    sizes: ClassVar[Sizes] = Sizes(spectral_nodes=PROJECTED // POOL)
    shortest_frames = POOL

    def __init__(self, dimension: int) -> None:
        super().__init__(self.sizes, pool_time=False)
        channels = self.pos_S.shape[-1]
        self.LL = nn.Linear(dimension, PROJECTED)
        self.first_bn1 = nn.BatchNorm2d(channels)
        self.attention = NodeAttention(
            nn.Conv2d(channels, 128, kernel_size=1),
            LearningSELU(),
            nn.BatchNorm2d(128),
            nn.Conv2d(128, channels, kernel_size=1),
        )

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        return cls(front_end.dimension)

    def forward(self, features_BLF: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, 160) and logits (batch, 2)."""
        with weights_cast_together(self.LL, features_BLF.device):
            x_BPL = self.LL(features_BLF).transpose(1, 2)
        pooled_B1SN = F.max_pool2d(x_BPL.unsqueeze(1), POOL)
        x_B1SN = self.selu(normalize_map(self.first_bn, pooled_B1SN))
        x_BCSN = self.selu(self.first_bn1(self.encoder(x_B1SN)))
        with weights_cast_together(self.attention, x_BCSN.device):
            scores_BCSN = self.attention(x_BCSN)
        # One attention serves both graphs: over time for spectral nodes, over bands for temporal
        # ones.
        spectral_BCS = softmax_mean(x_BCSN, scores_BCSN, -1)
        temporal_BCN = softmax_mean(x_BCSN, scores_BCSN, -2)
        spectral_BSC = spectral_BCS.transpose(1, 2)
        temporal_BNC = temporal_BCN.transpose(1, 2)
        return self.readout(spectral_BSC, temporal_BNC)


class AASISTLBackEnd(AASISTBackEnd):
    """An AASIST back end with the channels, graph sizes and pool ratios of AASIST-L."""

    short_name = "aasist_l"
    sizes = replace(AASIST_L.sizes, spectral_nodes=PROJECTED // POOL)


class SSL_AASIST(PairedDetector):
    """wav2vec 2.0 and AASIST (Tak et al., Odyssey 2022)."""

    back_end_class = AASISTBackEnd
    paper = "Tak et al., Odyssey 2022"


class SSL_AASIST_L(PairedDetector):
    """wav2vec 2.0 and AASIST-L (Jung et al., ICASSP 2022), published for raw waveforms."""

    back_end_class = AASISTLBackEnd
    paper = "Jung et al., ICASSP 2022"


class SSL_SUPERBAASIST(PairedDetector):
    """Any encoder and AASIST, as trained in spoof_SUPERB.

    The benchmark's features are `front_end.layer = 'weighted'` with `front_end.repeat_last_frame`.
    """

    back_end_class = AASISTBackEnd
    paper = "Tak et al., Odyssey 2022"
