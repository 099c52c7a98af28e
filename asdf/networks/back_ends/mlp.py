"""One hidden layer on features of a whole recording: a small back end for few recordings.

Invariant: features are standardised with statistics of the training set (a batch norm without
parameters) and clipped, so that no outlying value determines the score alone.

Shapes: B utterances, L frames, C feature values, E embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.interface import mean_over_frames
from asdf.settings.fields import OwnSettings, proportion, setting

LIMIT = 4.0
"""Number of deviations from the mean at which standardised features are clipped."""


@dataclass
class MLPSizes(OwnSettings, section_name="back_end"):
    """Sizes of the hidden layer."""

    mlp_hidden: int = setting(64, unit="values", at_least=1)
    """mlp: units of its hidden layer, which is the embedding"""
    mlp_dropout: float = proportion(0.3)
    """mlp: dropout of the features and of the hidden layer"""


class MLPBackEnd(SizedBackEnd):
    """Standardised mean over time, a hidden layer that gives the embedding, and the logits.

    Args:
        dimension: Dimension of the features.
        settings: Section with `mlp_hidden` and `mlp_dropout`.
    """

    short_name = "mlp"

    def __init__(self, dimension: int, settings: MLPSizes) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(dimension, affine=False)
        self.dropout = nn.Dropout(settings.mlp_dropout)
        self.hidden = nn.Linear(dimension, settings.mlp_hidden)
        self.out_layer = nn.Linear(settings.mlp_hidden, 2)

    def forward(self, features_BLC: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, mlp_hidden) and logits (batch, 2)."""
        return self._classify(features_BLC.mean(dim=1))

    def of_padded(self, features_BLC: Tensor, counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings and logits of padded features."""
        return self._classify(mean_over_frames(features_BLC, counts_BL))

    def _classify(self, mean_BC: Tensor) -> tuple[Tensor, Tensor]:
        standard_BC = self.norm(mean_BC).clamp(-LIMIT, LIMIT)
        embeddings_BE = self.hidden(self.dropout(standard_BC)).relu()
        logits_B2 = in_full_precision(self.out_layer, self.dropout(embeddings_BE))
        return embeddings_BE, logits_B2
