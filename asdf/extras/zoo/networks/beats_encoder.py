"""BEATs' encoder: patches of a filter bank, and layers with gated relative position biases.

Invariant: numbers are those of the authors' network; names differ where ours describe a part better
(`beats_weights.py`). The filter bank depends on the waveform alone.

Source: Chen et al., "BEATs: Audio Pre-Training with Acoustic Tokenizers", ICML 2023; the network in
microsoft/unilm, beats.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values,
H heads, D values of a head.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import ConvolutionalPositionalEmbedding

from asdf.extras.zoo.networks.patches import PatchSizes, kaldi_bands
from asdf.networks.autocast import without_autocast
from asdf.networks.front_ends.encoder_inputs import WINDOW, kaldi_log_bands
from asdf.networks.front_ends.encoder_layers import buckets_between, make_bucket_table
from asdf.networks.front_ends.gpu_convolutions import encode_positions

# Mean, and twice the deviation, of filter banks in pretraining.
_MEAN = 15.41663
_SCALE = 2 * 6.55582


@dataclass(frozen=True)
class BEATsSizes(PatchSizes):
    """The sizes of the network; the defaults are those of all published weights.

    Attributes:
        patch_dimension: Number of values of a patch before the projection.
        deep_norm: Whether residuals are scaled with the number of layers (DeepNorm).
    """

    name: ClassVar[str] = "beats"
    words: ClassVar[str] = "BEATs'"
    patch_dimension: int = 512
    pos_conv_kernel: int = 128
    pos_conv_groups: int = 16
    buckets: int = 320
    max_distance: int = 800
    deep_norm: bool = True

    def rests(self) -> dict[str, int]:
        """Return remainders as in the base class, and of position groups and bucket counts."""
        groups = self.dimension % self.pos_conv_groups
        is_ordered = 1 <= self.buckets // 4 < self.max_distance
        return {**super().rests(), "pos_conv_groups": groups, "buckets": int(not is_ordered)}


class BEATsEncoder(nn.Module):
    """An encoder from waveforms (batch, samples) to patches, with the layers on them.

    `forward` returns the input of the first layer; a front end calls the layers one by one.
    """

    taper: Tensor
    bands: Tensor
    bucket_table: Tensor

    def __init__(self, sizes: BEATsSizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.patch_embedding = nn.Conv2d(
            1, sizes.patch_dimension, kernel_size=sizes.patch, stride=sizes.patch, bias=False
        )
        self.patch_norm = nn.LayerNorm(sizes.patch_dimension)
        self.projection: nn.Module = nn.Identity()
        if sizes.patch_dimension != sizes.dimension:
            self.projection = nn.Linear(sizes.patch_dimension, sizes.dimension)
        self.positions = ConvolutionalPositionalEmbedding(
            sizes.dimension, sizes.pos_conv_kernel, sizes.pos_conv_groups
        )
        self.layer_norm = nn.LayerNorm(sizes.dimension)
        self.dropout = nn.Dropout(dropout)
        self.position_biases = nn.Embedding(sizes.buckets, sizes.heads)
        self.layers = nn.ModuleList(BEATsLayer(sizes, dropout) for _ in range(sizes.layers))
        # Not persistent, since they depend only on the sizes.
        bands_FN = kaldi_bands().to(self.layer_norm.weight.device)
        # Kaldi's default, the Povey window.
        taper_W = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64).pow(0.85)
        table_D = make_bucket_table(sizes.buckets, sizes.max_distance)
        for name, tensor in (("bands", bands_FN), ("taper", taper_W), ("bucket_table", table_D)):
            self.register_buffer(name, tensor, persistent=False)

    def filter_bank(self, waveforms_BT: Tensor) -> Tensor:
        """Return normalised log filter banks, (batch, frames of 10 ms, bands)."""
        with without_autocast(waveforms_BT):
            x_BLN = kaldi_log_bands(waveforms_BT, self.taper.double(), self.bands.double())
            return ((x_BLN - _MEAN) / _SCALE).float()

    def patches(self, waveforms_BT: Tensor) -> Tensor:
        """Return projected patches (batch, patches, dimension), grouped by time."""
        x_BLN = self.filter_bank(waveforms_BT)
        x_BCLN = self.patch_embedding(x_BLN.unsqueeze(1))
        x_BPC = self.patch_norm(x_BCLN.flatten(2).transpose(1, 2))
        projected_BPC: Tensor = self.projection(x_BPC)
        return projected_BPC

    def add_positions(self, x_BPC: Tensor) -> Tensor:
        """Return the input of the first layer."""
        x_BPC = x_BPC + encode_positions(self.positions, x_BPC)
        entering_BPC: Tensor = self.dropout(self.layer_norm(x_BPC))
        return entering_BPC

    def position_bias(self, patches: int) -> Tensor:
        """Return the relative position biases that all layers gate, (1, H, P, P)."""
        bias_PPH: Tensor = self.position_biases(buckets_between(self.bucket_table, patches))
        return bias_PPH.permute(2, 0, 1).unsqueeze(0)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        return self.add_positions(self.patches(waveforms_BT))


class BEATsLayer(nn.Module):
    """A post-norm layer with residuals scaled by DeepNorm."""

    def __init__(self, sizes: BEATsSizes, dropout: float) -> None:
        super().__init__()
        self.scale = (2 * sizes.layers) ** 0.25 if sizes.deep_norm else 1.0
        self.attention = GatedBiasAttention(sizes.dimension, sizes.heads, dropout)
        self.attention_norm = nn.LayerNorm(sizes.dimension)
        self.feed_forward_in = nn.Linear(sizes.dimension, sizes.feed_forward)
        self.feed_forward_out = nn.Linear(sizes.feed_forward, sizes.dimension)
        self.final_norm = nn.LayerNorm(sizes.dimension)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BPC: Tensor, position_bias: Tensor) -> Tensor:
        """Return patches of the same shape."""
        attended_BPC = self.dropout(self.attention(x_BPC, position_bias))
        x_BPC = self.attention_norm(self.scale * x_BPC + attended_BPC)
        inner_BPC = F.gelu(self.feed_forward_in(x_BPC))
        outer_BPC = self.dropout(self.feed_forward_out(inner_BPC))
        normed_BPC: Tensor = self.final_norm(self.scale * x_BPC + outer_BPC)
        return normed_BPC


class GatedBiasAttention(nn.Module):
    """Attention with relative position biases, gated by each query."""

    def __init__(self, dimension: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.q_proj = nn.Linear(dimension, dimension)
        self.k_proj = nn.Linear(dimension, dimension)
        self.v_proj = nn.Linear(dimension, dimension)
        self.out_proj = nn.Linear(dimension, dimension)
        self.pos_gate = nn.Linear(dimension // heads, 8)
        self.pos_gate_scale = nn.Parameter(torch.ones(1, heads, 1, 1))

    def forward(self, x_BPC: Tensor, bias_1HPP: Tensor) -> Tensor:
        """Return (batch, patches, dimension)."""
        queries_BHPD = self._heads_of(self.q_proj(x_BPC))
        keys_BHPD = self._heads_of(self.k_proj(x_BPC))
        values_BHPD = self._heads_of(self.v_proj(x_BPC))
        gates_BHP2 = self.pos_gate(queries_BHPD).unflatten(3, (2, 4)).sum(dim=4).sigmoid()
        update_BHP1, reset_BHP1 = gates_BHP2.chunk(2, dim=3)
        gate_BHP1 = update_BHP1 * (reset_BHP1 * self.pos_gate_scale - 1.0) + 2.0
        attended_BHPD = F.scaled_dot_product_attention(
            queries_BHPD,
            keys_BHPD,
            values_BHPD,
            attn_mask=(gate_BHP1 * bias_1HPP).to(queries_BHPD.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        projected_BPC: Tensor = self.out_proj(attended_BHPD.transpose(1, 2).flatten(2))
        return projected_BPC

    def _heads_of(self, x_BPC: Tensor) -> Tensor:
        x_BPHD: Tensor = x_BPC.unflatten(2, (self.heads, -1))
        return x_BPHD.transpose(1, 2)
