"""Gates for the layers of the front end, then a Conformer with class token: DF-Arena's detectors.

Invariant: parameter names and numbers are those of the published networks; each layer's gate
depends on the utterance, and positional encodings are computed rather than stored.

Source: Kulkarni et al., "Do Compact SSL Backbones Matter for Audio Deepfake Detection? A Controlled
Study with RAPTOR", 2026 (arXiv 2603.06164), and the layers of Speech-Arena-2025/DF_Arena_1B_V_1.

Shapes: B utterances, L frames, C feature values, which are the embedding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import SizedBackEnd, Takes, TimedBackEnd
from asdf.networks.back_ends.conformer import ConformerSizes, TCMEncoder
from asdf.networks.ssl_detector import PairedDetector


class GatedConformerBackEnd(SizedBackEnd, TimedBackEnd):
    """A gate for each layer, their sum, and a Conformer with head tokens as wide as the features.

    Raises:
        UsageError: the features' dimension is not divisible by the number of heads.
    """

    short_name = "gated_conformer"
    takes: ClassVar[Takes] = "hidden_states"

    def __init__(self, dimension: int, sizes: ConformerSizes) -> None:
        super().__init__()
        if dimension % sizes.conformer_heads:
            raise UsageError(
                f"back_end.conformer_heads = {sizes.conformer_heads}: features of {dimension} "
                "values cannot be divided among that many heads."
            )
        self.frame_dimension = dimension
        self.attn_scores = nn.Linear(dimension, 1, bias=False)
        self.fc0 = nn.Linear(dimension, 1)
        self.first_bn = nn.BatchNorm2d(1)
        # No layer maps the features to another width.
        self.conformer = TCMEncoder(replace(sizes, conformer_dimension=dimension))

    def with_frames(self, states: Sequence[Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, dimension), logits, and the last block's frames."""
        total_BLC = self._gated(states[0])
        for state_BLC in states[1:]:
            total_BLC = total_BLC + self._gated(state_BLC)
        # One mean and one variance for all values.
        normed_BLC = self.first_bn(total_BLC.unsqueeze(1)).squeeze(1)
        return self.conformer(F.selu(normed_BLC))

    def _gated(self, x_BLC: Tensor) -> Tensor:
        """Return a layer's output times its gate, computed from an attentive mean over time."""
        weights_BL1 = self.attn_scores(x_BLC).softmax(dim=1)
        mean_B1C = (weights_BL1 * x_BLC).sum(dim=1, keepdim=True)
        return x_BLC * self.fc0(mean_B1C).sigmoid()


class SSL_GatedConformer(PairedDetector):
    """A front end, gates for its layers, and a Conformer (RAPTOR; Kulkarni et al., 2026)."""

    back_end_class = GatedConformerBackEnd
    paper = "Kulkarni et al., 2026"
