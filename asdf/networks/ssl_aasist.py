"""AASIST on the features of a self-supervised front end.

Invariant: the back end's parameter names and numbers are those of the published networks; `weights.py` renames what
their state dicts call `ssl_model.model.*`.

Source: Tak et al., "Automatic speaker verification spoofing and deepfake detection using wav2vec 2.0 and data
augmentation", Odyssey 2022.

Shapes: B utterances, T samples, L frames, F feature values, S = F // 3 spectral and N = L // 3 temporal nodes,
C channels, E embedding values.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.front_end import Wav2Vec2FrontEnd
from asdf.networks.graph_back_end import GraphBackEnd, Sizes
from asdf.networks.interface import DetectorNetwork, repeat_short
from asdf.settings.sections import Sections

PROJECTED = 128
POOL = 3


class AASISTBackEnd(GraphBackEnd):
    """AASIST on features (batch, frames, dimension) of any dimension and of 3 frames or more."""

    def __init__(self, dimension: int) -> None:
        super().__init__(Sizes(spectral_nodes=PROJECTED // POOL), pool_time=False)
        channels = self.pos_S.shape[-1]
        self.LL = nn.Linear(dimension, PROJECTED)
        self.first_bn1 = nn.BatchNorm2d(channels)
        self.attention = nn.Sequential(
            nn.Conv2d(channels, 128, kernel_size=1),
            nn.SELU(),
            nn.BatchNorm2d(128),
            nn.Conv2d(128, channels, kernel_size=1),
        )

    def forward(self, features_BLF: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings (batch, 160) and logits (batch, 2)."""
        x_B1FL = self.LL(features_BLF).transpose(1, 2).unsqueeze(1)
        x_B1SN = F.selu(self.first_bn(F.max_pool2d(x_B1FL, POOL)))
        x_BCSN = F.selu(self.first_bn1(self.encoder(x_B1SN)))
        weights_BCSN = self.attention(x_BCSN)
        spectral_BCS = (x_BCSN * weights_BCSN.softmax(dim=-1)).sum(dim=-1)
        temporal_BCN = (x_BCSN * weights_BCSN.softmax(dim=-2)).sum(dim=-2)
        return self.readout(spectral_BCS.transpose(1, 2), temporal_BCN.transpose(1, 2))


class SSL_AASIST(DetectorNetwork):
    """wav2vec 2.0 and AASIST."""

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.back_end = AASISTBackEnd(self.front_end.dimension)
        self.shortest_input = self.front_end.architecture.shortest(frames=POOL)

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings (batch, 160) and logits (batch, 2) of waveforms (batch, samples).

        Waveforms shorter than `shortest_input`, 1,040 samples, are repeated up to it.
        """
        return self.back_end(self.front_end(repeat_short(waveforms_BT, self.shortest_input)))

    def scoring_length(self, samples: int) -> int:
        """Samples up to the end of the front end's last whole window."""
        # Frames that the back end's pooling leaves out still count: every frame attends to them.
        return samples if samples < self.shortest_input else self.front_end.scoring_length(samples)

    def front_end_parameters(self) -> Iterator[nn.Parameter]:
        """All of the front end's."""
        return self.front_end.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """The first batch norms of the back end's residual blocks."""
        return self.back_end.unused_parameters()
