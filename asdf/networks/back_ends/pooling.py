"""Attentive statistics pooling, with a linear layer or as a part of other back ends.

Invariant: an utterance's pooled values do not depend on other utterances of its batch, and are
finite for a single frame.

Source: Okabe et al., "Attentive statistics pooling for deep speaker embedding", Interspeech 2018.

Shapes: B utterances, L frames, C feature values, E embedding values.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.interface import softmax_over_frames
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, setting

MIN_VARIANCE = 1e-10


class AttentiveStatistics(nn.Module):
    """Mean and deviation over time, weighted by a separate attention for each value.

    Maps (batch, channels, frames) to (batch, 2 * channels). Okabe et al. use one weight per frame;
    one per value is what later networks adopted, including published Nes2Net-X checkpoints.
    """

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.linear1 = nn.Conv1d(channels, hidden, kernel_size=1)
        self.linear2 = nn.Conv1d(hidden, channels, kernel_size=1)

    def forward(self, x_BCL: Tensor) -> Tensor:
        scores_BCL = self.linear2(self.linear1(x_BCL).tanh())
        weights_BCL = scores_BCL.softmax(dim=2)
        return weighted_statistics(x_BCL, weights_BCL)


def weighted_statistics(x_BCL: Tensor, weights_BCL: Tensor) -> Tensor:
    """Return mean and standard deviation over time, (batch, 2 * channels).

    The weights sum to 1 over time; they may be shared by all channels, (batch, 1, frames).
    """
    mean_BC = (weights_BCL * x_BCL).sum(dim=2)
    # Centred first, since a difference of two large numbers is inaccurate in half precision.
    squares_BCL = (x_BCL - mean_BC.unsqueeze(2)).square()
    variance_BC = (weights_BCL * squares_BCL).sum(dim=2)
    deviation_BC = variance_BC.clamp(min=MIN_VARIANCE).sqrt()
    return torch.cat([mean_BC, deviation_BC], dim=1)


@dataclass
class ASPSizes(OwnSettings, section_name="back_end"):
    """Size of attentive statistics pooling."""

    asp_hidden: int = setting(128, unit="values", at_least=1)
    """SSL_ASP: hidden units of the attention"""


class ASPBackEnd(SizedBackEnd, TimedBackEnd):
    """Attentive statistics pooling with one weight per frame, as in Okabe et al."""

    short_name = "asp"
    size_settings = ("asp_hidden",)

    def __init__(self, dimension: int, hidden: int) -> None:
        super().__init__()
        self.frame_dimension = dimension
        self.attention = nn.Sequential(
            nn.Linear(dimension, hidden), nn.Tanh(), nn.Linear(hidden, 1, bias=False)
        )
        self.output = nn.Linear(2 * dimension, 2)

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, 2 * dimension), logits, and the features unchanged."""
        # All values of a frame share its weight.
        pooled = self._pool(features_BLC, self.attention(features_BLC).softmax(dim=1))
        return (*pooled, features_BLC)

    def of_padded(self, features_BLC: Tensor, counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return embeddings and logits of padded features."""
        scores_BL1 = self.attention(features_BLC)
        return self._pool(features_BLC, softmax_over_frames(scores_BL1, counts_BL))

    def _pool(self, features_BLC: Tensor, weights_BL1: Tensor) -> tuple[Tensor, Tensor]:
        weights_B1L = weights_BL1.transpose(1, 2)
        embeddings_BE = weighted_statistics(features_BLC.transpose(1, 2), weights_B1L)
        return embeddings_BE, in_full_precision(self.output, embeddings_BE)


class SSL_ASP(PairedDetector):
    """wav2vec 2.0, attentive statistics pooling (Okabe et al., 2018) and a linear layer."""

    back_end_class = ASPBackEnd
    paper = "Okabe et al., Interspeech 2018"
