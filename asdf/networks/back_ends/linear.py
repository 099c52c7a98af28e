"""The mean of the features over time and a linear layer, to evaluate a front end alone.

Invariant: the layer is called `proj_fc`, as in AntiDeepfake's checkpoints, so that these can be
mapped.

Source: Ge et al., "Post-training for Deepfake Speech Detection", 2025 (AntiDeepfake).

Shapes: B utterances, L frames, C feature values, which are the embedding.
"""

from __future__ import annotations

from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.interface import mean_over_frames
from asdf.networks.ssl_detector import PairedDetector


class LinearBackEnd(SizedBackEnd, TimedBackEnd):
    """Mean over time and a linear layer."""

    short_name = "linear"
    size_settings = ()

    def __init__(self, dimension: int) -> None:
        super().__init__()
        self.frame_dimension = dimension
        self.proj_fc = nn.Linear(dimension, 2)

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, dimension), logits, and the features unchanged."""
        embeddings_BC = features_BLC.mean(dim=1)
        return embeddings_BC, in_full_precision(self.proj_fc, embeddings_BC), features_BLC

    def of_padded(self, features_BLC: Tensor, counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, dimension) and logits of padded features."""
        embeddings_BC = mean_over_frames(features_BLC, counts_BL)
        return embeddings_BC, in_full_precision(self.proj_fc, embeddings_BC)


class SSL_Linear(PairedDetector):
    """wav2vec 2.0, the mean over time and a linear layer (Ge et al., 2025)."""

    back_end_class = LinearBackEnd
    paper = "Ge et al., 2025"
