"""Conformer with a class token, and its variant with temporal-channel modelling (TCM).

Invariant: parameter names and numbers are those of the published networks. The variant's positional
encodings are computed rather than stored; published files hold them for 10,000 frames.

Source: Rosello et al., "A conformer-based classifier for variable-length utterance processing in
anti-spoofing", Interspeech 2023; Truong et al., "Temporal-Channel Modeling in Multi-head
Self-Attention for Synthetic Speech Detection", Interspeech 2024.

Shapes: B utterances, L frames, C feature values, E embedding values.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.autocast import in_full_precision
from asdf.networks.back_ends.back_end import SizedBackEnd
from asdf.networks.back_ends.conformer_blocks import (
    ConformerBlock,
    HeadTokenAttention,
    RelativeAttention,
)
from asdf.networks.back_ends.timed_back_end import TimedBackEnd
from asdf.networks.ssl_detector import PairedDetector
from asdf.networks.traced_sizes import Size
from asdf.settings.sections import BackEnd as BackEndSettings


class ConformerEncoder(nn.Module):
    """Conformer blocks on frames and a learned class token, whose final state is the embedding.

    It returns embeddings, logits and the final states of the frames.

    Attributes:
        attention_class: Class of the blocks' attention.
    """

    attention_class: ClassVar[type[RelativeAttention | HeadTokenAttention]] = RelativeAttention

    def __init__(self, sizes: BackEndSettings) -> None:
        super().__init__()
        dimension = sizes.conformer_dimension
        self.class_token = nn.Parameter(torch.rand(1, dimension))
        self.encoder_blocks = nn.ModuleList()
        for _ in range(sizes.conformer_blocks):
            attention = self.attention_class(
                dimension, sizes.conformer_heads, sizes.conformer_dropout
            )
            block = ConformerBlock(
                dimension, attention, sizes.conformer_kernel, sizes.conformer_dropout
            )
            self.encoder_blocks.append(block)
        self.fc5 = nn.Linear(dimension, 2)

    def forward(self, x_BLE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        class_B1E = self.class_token.expand(x_BLE.shape[0], 1, -1)
        x_BLE = torch.cat([class_B1E, x_BLE], dim=1)
        for block in self.encoder_blocks:
            x_BLE = block(x_BLE)
        embeddings_BE = x_BLE[:, 0]
        return embeddings_BE, in_full_precision(self.fc5, embeddings_BE), x_BLE[:, 1:]


class TCMEncoder(ConformerEncoder):
    """A Conformer encoder with head tokens and positional encodings added to the frames."""

    attention_class = HeadTokenAttention

    def forward(self, x_BLE: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        positions_LE = sinusoids(x_BLE.shape[1], int(x_BLE.shape[2]), x_BLE.device)
        return super().forward(x_BLE + positions_LE)


def sinusoids(frames: Size, dimension: int, device: torch.device | None = None) -> Tensor:
    """Return positional encodings (frames, dimension): sines at even and cosines at odd indices.

    Angles are first rounded to float32, as in the published code.

    Source: Vaswani et al., "Attention is all you need", NeurIPS 2017.
    """
    positions_L1 = torch.arange(frames, dtype=torch.float64, device=device).unsqueeze(1)
    pairs_E = torch.arange(dimension, dtype=torch.float64, device=device) // 2
    angles_LE = (positions_L1 / 10000 ** (2 * pairs_E / dimension)).float()
    is_even_E = torch.arange(dimension, device=device) % 2 == 0
    return torch.where(is_even_E, angles_LE.sin(), angles_LE.cos())


class ConformerBackEnd(SizedBackEnd, TimedBackEnd):
    """A linear layer and a batch norm, then a Conformer with class token.

    Raises:
        UsageError: the dimension is not divisible by the number of heads.
    """

    encoder_class: ClassVar[type[ConformerEncoder]] = ConformerEncoder

    def __init__(self, dimension: int, sizes: BackEndSettings) -> None:
        super().__init__()
        inside = sizes.conformer_dimension
        if inside % sizes.conformer_heads:
            raise UsageError(
                f"back_end.conformer_heads = {sizes.conformer_heads}: frames of {inside} values "
                "(back_end.conformer_dimension) cannot be divided among that many heads."
            )
        self.frame_dimension = inside
        self.LL = nn.Linear(dimension, inside)
        self.first_bn = nn.BatchNorm2d(1)
        self.conformer = self.encoder_class(sizes)

    @classmethod
    def min_layers(cls, sizes: BackEndSettings) -> int:
        """Return the number of blocks, each of which has at least one layer."""
        return sizes.conformer_blocks

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, conformer_dimension), logits, and the last block's frames."""
        x_BLE = self.LL(features_BLC)
        # One mean and one variance for all values.
        normed_BLE = self.first_bn(x_BLE.unsqueeze(1)).squeeze(1)
        outputs: tuple[Tensor, Tensor, Tensor] = self.conformer(F.selu(normed_BLE))
        return outputs


class TCMBackEnd(ConformerBackEnd):
    """A Conformer back end with temporal-channel modelling."""

    encoder_class = TCMEncoder


class SSL_Conformer(PairedDetector):
    """wav2vec 2.0 and a Conformer with class token (Rosello et al., Interspeech 2023)."""

    back_end_class = ConformerBackEnd
    paper = "Rosello et al., Interspeech 2023"


class SSL_ConformerTCM(PairedDetector):
    """wav2vec 2.0 and a Conformer with head tokens, TCM (Truong et al., Interspeech 2024)."""

    back_end_class = TCMBackEnd
    paper = "Truong et al., Interspeech 2024"
