"""Multi-head factorized attentive pooling: attention and values from two sums of the layers.

Invariant: parameter names are those of the authors' implementation; the output layer is ours.

Source: Peng et al., "An attention-based backend allowing efficient fine-tuning of transformer
models for speaker verification", SLT 2022.

Shapes: B utterances, L frames, C feature values, K compressed values, H heads, E embedding values.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from asdf.networks.autocast import in_full_precision
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.back_ends.timed_back_end import TimedBackEnd
from asdf.networks.front_ends.encoder_layers import weighted_sum
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.networks.views import NetworkSections


class MHFABackEnd(TimedBackEnd):
    """MHFA on the hidden states of a front end.

    Args:
        states: number of hidden states.
    """

    takes = "hidden_states"

    def __init__(
        self,
        dimension: int,
        states: int,
        heads: int,
        compression: int,
        embedding: int,
    ) -> None:
        super().__init__()
        self.frame_dimension = 2 * compression
        self.weights_k = nn.Parameter(torch.ones(states))
        self.weights_v = nn.Parameter(torch.ones(states))
        self.cmp_linear_k = nn.Linear(dimension, compression)
        self.cmp_linear_v = nn.Linear(dimension, compression)
        self.att_head = nn.Linear(compression, heads)
        self.pooling_fc = nn.Linear(heads * compression, embedding)
        self.output = nn.Linear(embedding, 2)

    @classmethod
    def from_settings(cls, settings: NetworkSections, front_end: FrontEnd) -> BackEnd:
        sizes = settings.back_end
        return cls(
            front_end.dimension,
            front_end.layers + 1,
            sizes.mhfa_heads,
            sizes.mhfa_compression,
            sizes.mhfa_embedding,
        )

    def with_frames(self, states: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, embedding), logits, and keys and values, compressed.

        Args:
            states: each (batch, frames, dimension).
        """
        # Each of the two chooses its layers.
        keys_BLC = weighted_sum(states, self.weights_k.softmax(dim=0))
        keys_BLK = self.cmp_linear_k(keys_BLC)
        values_BLC = weighted_sum(states, self.weights_v.softmax(dim=0))
        values_BLK = self.cmp_linear_v(values_BLC)
        attention_BLH = self.att_head(keys_BLK).softmax(dim=1)
        pooled_BHK = attention_BLH.transpose(1, 2) @ values_BLK
        embeddings_BE = self.pooling_fc(pooled_BHK.flatten(1))
        frames_BLC = torch.cat([keys_BLK, values_BLK], dim=2)
        return embeddings_BE, in_full_precision(self.output, embeddings_BE), frames_BLC


class SSL_MHFA(PairedDetector):
    """wav2vec 2.0 and multi-head factorized attentive pooling (Peng et al., SLT 2022)."""

    back_end_class = MHFABackEnd
    paper = "Peng et al., SLT 2022"
