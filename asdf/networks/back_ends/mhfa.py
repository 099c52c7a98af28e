"""Multi-head factorized attentive pooling, with keys and values from two weighted layer sums.

Invariant: parameter names are those of the authors' implementation; the output layer is ours,
except in WeDefense's variant, which has theirs.

Source: Peng et al., "An attention-based backend allowing efficient fine-tuning of transformer
models for speaker verification", SLT 2022; zlin0/wedefense, `models/ssl_backend/MHFA.py`,
`models/projections.py` and `dataset/dataset_utils.py`.

Shapes: B utterances, L frames, C feature values, K compressed values, H heads, E embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import BackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.front_ends.encoder_layers import weighted_sum
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.interface import softmax_over_frames
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting
from asdf.settings.sections import Sections


@dataclass
class MHFASizes(OwnSettings, section_name="back_end"):
    """Sizes of MHFA."""

    mhfa_heads: int = setting(64, at_least=1)
    """SSL_MHFA, SSL_WeDefenseMHFA: attention heads"""
    mhfa_compression: int = setting(128, unit="values", at_least=1)
    """SSL_MHFA, SSL_WeDefenseMHFA: values that keys and values are compressed to"""
    mhfa_embedding: int = setting(256, unit="values", at_least=1)
    """SSL_MHFA, SSL_WeDefenseMHFA: size of the embedding"""


class MHFABackEnd(TimedBackEnd):
    """MHFA on the hidden states of a front end.

    Args:
        states: Number of hidden states.
    """

    short_name = "mhfa"
    takes = "hidden_states"

    def __init__(
        self, dimension: int, states: int, heads: int, compression: int, embedding: int
    ) -> None:
        super().__init__()
        self.frame_dimension = 2 * compression
        self.weights_k = nn.Parameter(torch.ones(states))
        self.weights_v = nn.Parameter(torch.ones(states))
        self.cmp_linear_k = nn.Linear(dimension, compression)
        self.cmp_linear_v = nn.Linear(dimension, compression)
        self.att_head = nn.Linear(compression, heads)
        self.pooling_fc = nn.Linear(heads * compression, embedding)
        self.add_output(embedding)

    def add_output(self, embedding: int) -> None:
        """Add the layers that map embeddings to logits."""
        self.output = nn.Linear(embedding, 2)

    def classify(self, embeddings_BE: Tensor) -> Tensor:
        """Return logits (batch, 2) of embeddings."""
        return in_full_precision(self.output, embeddings_BE)

    def mix(self, states: list[Tensor], weights_N: Tensor) -> Tensor:
        """Return the sum of the states, weighted by the softmax of `weights_N`."""
        return weighted_sum(states, weights_N.softmax(dim=0))

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        sizes = MHFASizes.of(settings)
        return cls(
            front_end.dimension,
            front_end.layers + 1,
            sizes.mhfa_heads,
            sizes.mhfa_compression,
            sizes.mhfa_embedding,
        )

    def with_frames(self, states: list[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, embedding), logits, and the concatenated keys and values.

        Args:
            states: Hidden states, each (batch, frames, dimension).
        """
        keys_BLK, values_BLK = self._compress(states)
        pooled = self._pool(values_BLK, self.att_head(keys_BLK).softmax(dim=1))
        return (*pooled, torch.cat([keys_BLK, values_BLK], dim=2))

    def of_padded(self, states: list[Tensor], counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings and logits of padded states."""
        keys_BLK, values_BLK = self._compress(states)
        return self._pool(values_BLK, softmax_over_frames(self.att_head(keys_BLK), counts_BL))

    def _compress(self, states: list[Tensor]) -> tuple[Tensor, Tensor]:
        # Keys and values have separate layer weights.
        keys_BLK = self.cmp_linear_k(self.mix(states, self.weights_k))
        return keys_BLK, self.cmp_linear_v(self.mix(states, self.weights_v))

    def _pool(self, values_BLK: Tensor, attention_BLH: Tensor) -> tuple[Tensor, Tensor]:
        pooled_BHK = attention_BLH.transpose(1, 2) @ values_BLK
        embeddings_BE = self.pooling_fc(pooled_BHK.flatten(1))
        return embeddings_BE, self.classify(embeddings_BE)


class WeDefenseMHFABackEnd(MHFABackEnd):
    """WeDefense's MHFA: on centred frames, with a norm before the output.

    Its normalisation over time actually subtracts each frame's mean over its values, since the
    function expects the frames in another dimension.
    """

    short_name = "wedefense_mhfa"

    def add_output(self, embedding: int) -> None:
        """Add WeDefense's projection: a batch norm, ReLU and a linear layer."""
        norm = nn.BatchNorm1d(embedding)
        output = nn.Linear(embedding, 2)
        # The published name.
        self.projection = nn.ModuleDict({"trans": nn.Sequential(norm, nn.ReLU(), output)})

    def classify(self, embeddings_BE: Tensor) -> Tensor:
        """Return logits (batch, 2) of embeddings."""
        norm = self.projection.get_submodule("trans.0")
        output = cast(nn.Linear, self.projection.get_submodule("trans.2"))
        return in_full_precision(output, F.relu(norm(embeddings_BE)))

    def mix(self, states: list[Tensor], weights_N: Tensor) -> Tensor:
        """Return the weighted sum of the states, with each frame centred to mean 0."""
        # The mean of a sum is the sum of the means, so no state needs to be copied.
        mixed_BLC = super().mix(states, weights_N)
        return mixed_BLC - mixed_BLC.mean(dim=2, keepdim=True)


class SSL_MHFA(PairedDetector):
    """wav2vec 2.0 and multi-head factorized attentive pooling (Peng et al., SLT 2022)."""

    back_end_class = MHFABackEnd
    paper = "Peng et al., SLT 2022"


class SSL_WeDefenseMHFA(PairedDetector):
    """wav2vec 2.0 and MHFA as WeDefense publishes it (Zhang et al., arXiv 2601.15240)."""

    back_end_class = WeDefenseMHFABackEnd
    paper = "Zhang et al., arXiv 2601.15240"
