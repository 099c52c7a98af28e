"""Conformer with a class token, and its variant with temporal-channel modelling (TCM).

Invariant: parameter names and numbers are those of the published networks, and so of lucidrains'
package `conformer` 0.2.5. The variant's positional encodings are computed rather than stored;
published files hold them for 10,000 frames. In `eval()` mode, no result depends on the other
utterances of a batch.

Source: Gulati et al., "Conformer: Convolution-augmented Transformer for Speech Recognition",
Interspeech 2020; Shaw et al., "Self-Attention with Relative Position Representations", NAACL 2018;
Rosello et al., "A conformer-based classifier for variable-length utterance processing in
anti-spoofing", Interspeech 2023; Truong et al., "Temporal-Channel Modeling in Multi-head
Self-Attention for Synthetic Speech Detection", Interspeech 2024.

Shapes: B utterances, L frames with the class token before them, C values, H heads, D values of a
head, R distances, N frames and head tokens, E embedding values.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.back_ends.back_end import SizedBackEnd, TimedBackEnd
from asdf.networks.casting import in_full_precision
from asdf.networks.functions import Size, at_most
from asdf.networks.ssl_detector import PairedDetector
from asdf.settings.fields import OwnSettings, proportion, setting

MAX_DISTANCE = 512
"""Maximum distance in frames; larger distances share its embedding."""
FEED_FORWARD = 4
EXPANSION = 2


class RelativeAttention(nn.Module):
    """Attention whose scores include an embedding of the distance between frames."""

    def __init__(self, dimension: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(dimension, dimension, bias=False)
        self.to_kv = nn.Linear(dimension, 2 * dimension, bias=False)
        self.to_out = nn.Linear(dimension, dimension)
        self.rel_pos_emb = nn.Embedding(2 * MAX_DISTANCE + 1, dimension // heads)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BLC: Tensor) -> Tensor:
        queries_BHLD = split_heads(self.to_q(x_BLC), self.heads)
        keys_BLC, values_BLC = self.to_kv(x_BLC).chunk(2, dim=2)
        keys_BHLD = split_heads(keys_BLC, self.heads)
        values_BHLD = split_heads(values_BLC, self.heads)
        scores_BHLL = queries_BHLD @ keys_BHLD.transpose(2, 3)
        scores_BHLL = scores_BHLL + self._score_distances(queries_BHLD)
        scale = queries_BHLD.shape[3] ** -0.5
        weights_BHLL = (scores_BHLL * scale).softmax(dim=3)
        out_BLC = (weights_BHLL @ values_BHLD).transpose(1, 2).flatten(2)
        return self.dropout(self.to_out(out_BLC))

    def _score_distances(self, queries_BHLD: Tensor) -> Tensor:
        """Return the product of each query with the embeddings of its distances, (B, H, L, L).

        The product with each occurring distance is computed once per query: an embedding for each
        pair of frames would take L times as much memory.
        """
        frames = queries_BHLD.shape[2]
        reach = at_most(frames - 1, MAX_DISTANCE)
        first = MAX_DISTANCE - reach
        embeddings_RD = self.rel_pos_emb.weight[first : first + 2 * reach + 1]
        by_distance_BHLR = queries_BHLD @ embeddings_RD.transpose(0, 1)
        positions_L = torch.arange(frames, device=queries_BHLD.device)
        distances_LL = positions_L[:, None] - positions_L
        index_LL = distances_LL.clamp(-reach, reach) + reach
        # Read each size separately, since a tracer turns a slice of a shape into constants.
        batch = queries_BHLD.shape[0]
        index_BHLL = index_LL.expand(batch, self.heads, frames, frames)
        return by_distance_BHLR.gather(3, index_BHLL)


class HeadTokenAttention(nn.Module):
    """Attention with an additional token per head, which summarises that head over all frames.

    The tokens and the mean of the frames are added to the class token, the first frame.
    """

    def __init__(self, dimension: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        width = dimension // heads
        self.qkv = nn.Linear(dimension, 3 * dimension, bias=False)
        self.proj = nn.Linear(dimension, dimension)
        self.ht_proj = nn.Linear(width, dimension)
        self.ht_norm = nn.LayerNorm(width)
        self.pos_embed = nn.Parameter(torch.zeros(1, heads, dimension))
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BLC: Tensor) -> Tensor:
        # A token of C values for each head.
        means_BHD = x_BLC.mean(dim=1).unflatten(1, (self.heads, -1))
        parts_BHHD = self.ht_proj(means_BHD).unflatten(2, (self.heads, -1))
        tokens_BHC = F.gelu(self.ht_norm(parts_BHHD)).flatten(2) + self.pos_embed
        x_BNC = torch.cat([x_BLC, tokens_BHC], dim=1)
        queries_BNC, keys_BNC, values_BNC = self.qkv(x_BNC).chunk(3, dim=2)
        queries_BHND = split_heads(queries_BNC, self.heads)
        keys_BHND = split_heads(keys_BNC, self.heads)
        values_BHND = split_heads(values_BNC, self.heads)
        scale = queries_BHND.shape[3] ** -0.5
        scores_BHNN = queries_BHND @ keys_BHND.transpose(2, 3) * scale
        out_BNC = (scores_BHNN.softmax(dim=3) @ values_BHND).transpose(1, 2).flatten(2)
        out_BNC = self.proj(out_BNC)
        frames_BLC = out_BNC[:, 1 : -self.heads]
        tokens_BHC = out_BNC[:, -self.heads :]
        class_B1C = out_BNC[:, :1] + tokens_BHC.mean(dim=1, keepdim=True)
        class_B1C = class_B1C + frames_BLC.mean(dim=1, keepdim=True)
        return self.dropout(torch.cat([class_B1C, frames_BLC], dim=1))


def split_heads(x_BLC: Tensor, heads: int) -> Tensor:
    """Return (batch, heads, frames, values of a head)."""
    # Not unflatten, since ONNX's exporter would make its batch size a constant.
    heads_BLHD = x_BLC.reshape(x_BLC.shape[0], x_BLC.shape[1], heads, -1)
    return heads_BLHD.transpose(1, 2)


class ConformerBlock(nn.Module):
    """Half a feed-forward layer, attention, a convolution over time, half a feed-forward layer."""

    def __init__(
        self, dimension: int, attention: nn.Module, kernel_size: int, dropout: float
    ) -> None:
        super().__init__()
        self.ff1 = _Half(_Normed(dimension, _FeedForward(dimension, dropout)))
        self.attn = _Normed(dimension, attention)
        self.conv = _TimeConvolution(dimension, kernel_size, dropout)
        self.ff2 = _Half(_Normed(dimension, _FeedForward(dimension, dropout)))
        self.post_norm = nn.LayerNorm(dimension)

    def forward(self, x_BLC: Tensor) -> Tensor:
        x_BLC = x_BLC + self.ff1(x_BLC)
        x_BLC = x_BLC + self.attn(x_BLC)
        x_BLC = x_BLC + self.conv(x_BLC)
        x_BLC = x_BLC + self.ff2(x_BLC)
        return self.post_norm(x_BLC)


class _Normed(nn.Module):
    def __init__(self, dimension: int, fn: nn.Module) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(dimension)
        self.fn = fn

    def forward(self, x_BLC: Tensor) -> Tensor:
        return self.fn(self.norm(x_BLC))


class _Half(nn.Module):
    def __init__(self, fn: nn.Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x_BLC: Tensor) -> Tensor:
        out_BLC: Tensor = self.fn(x_BLC)
        return 0.5 * out_BLC


class _FeedForward(nn.Module):
    def __init__(self, dimension: int, dropout: float) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(dimension, FEED_FORWARD * dimension),
            nn.SiLU(),
            nn.Dropout(dropout),
            nn.Linear(FEED_FORWARD * dimension, dimension),
            nn.Dropout(dropout),
        )

    def forward(self, x_BLC: Tensor) -> Tensor:
        return self.net(x_BLC)


class _TimeConvolution(nn.Module):
    """A gated depthwise convolution and a batch norm."""

    def __init__(self, dimension: int, kernel_size: int, dropout: float) -> None:
        super().__init__()
        inside = EXPANSION * dimension
        # Indices as in the published names, which also count modules without parameters.
        self.net = nn.Sequential(
            OrderedDict[str, nn.Module](
                {
                    "0": nn.LayerNorm(dimension),
                    "1": _Transposed(),
                    "2": nn.Conv1d(dimension, 2 * inside, kernel_size=1),
                    "3": nn.GLU(dim=1),
                    "4": _EachChannel(inside, kernel_size),
                    "5": nn.BatchNorm1d(inside),
                    "6": nn.SiLU(),
                    "7": nn.Conv1d(inside, dimension, kernel_size=1),
                    "8": _Transposed(),
                    "9": nn.Dropout(dropout),
                }
            )
        )

    def forward(self, x_BLC: Tensor) -> Tensor:
        return self.net(x_BLC)


class _Transposed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


class _EachChannel(nn.Module):
    """A depthwise convolution over time that preserves the number of frames."""

    def __init__(self, channels: int, kernel_size: int) -> None:
        super().__init__()
        before = kernel_size // 2
        self.padding = (before, kernel_size - 1 - before)
        self.conv = nn.Conv1d(channels, channels, kernel_size, groups=channels)

    def forward(self, x_BCL: Tensor) -> Tensor:
        return self.conv(F.pad(x_BCL, self.padding))


@dataclass
class ConformerSizes(OwnSettings, section_name="back_end"):
    """Sizes of a Conformer."""

    conformer_dimension: int = setting(144, unit="values", at_least=1)
    """SSL_Conformer, SSL_ConformerTCM: size of the frames and of the embedding"""
    conformer_blocks: int = setting(4, at_least=1)
    """SSL_Conformer, SSL_ConformerTCM: number of blocks"""
    conformer_heads: int = setting(4, at_least=1)
    """SSL_Conformer, SSL_ConformerTCM: attention heads"""
    conformer_kernel: int = setting(31, unit="frames", at_least=1)
    """SSL_Conformer, SSL_ConformerTCM: what a block's convolution looks at"""
    conformer_dropout: float = proportion(0.0)
    """SSL_Conformer, SSL_ConformerTCM: dropout after each part of a block"""


class ConformerEncoder(nn.Module):
    """Conformer blocks on frames and a learned class token, whose final state is the embedding.

    It returns embeddings, logits and the final states of the frames.

    Attributes:
        attention_class: Class of the blocks' attention.
    """

    attention_class: ClassVar[type[RelativeAttention | HeadTokenAttention]] = RelativeAttention

    def __init__(self, sizes: ConformerSizes) -> None:
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

    short_name = "conformer"
    encoder_class: ClassVar[type[ConformerEncoder]] = ConformerEncoder

    def __init__(self, dimension: int, sizes: ConformerSizes) -> None:
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

    def with_frames(self, features_BLC: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings (batch, conformer_dimension), logits, and the last block's frames."""
        x_BLE = self.LL(features_BLC)
        # One mean and one variance for all values.
        normed_BLE = self.first_bn(x_BLE.unsqueeze(1)).squeeze(1)
        return self.conformer(F.selu(normed_BLE))


class TCMBackEnd(ConformerBackEnd):
    """A Conformer back end with temporal-channel modelling."""

    short_name = "conformer_tcm"
    encoder_class = TCMEncoder


class SSL_Conformer(PairedDetector):
    """wav2vec 2.0 and a Conformer with class token (Rosello et al., Interspeech 2023)."""

    back_end_class = ConformerBackEnd
    paper = "Rosello et al., Interspeech 2023"


class SSL_ConformerTCM(PairedDetector):
    """wav2vec 2.0 and a Conformer with head tokens, TCM (Truong et al., Interspeech 2024)."""

    back_end_class = TCMBackEnd
    paper = "Truong et al., Interspeech 2024"
