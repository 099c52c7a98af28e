"""The front end of BEATs, a self-supervised encoder for all kinds of sound.

Invariant: a frame is a patch of the authors' network, in their order. The constructor reads no
file.

BEATs' encoder: patches of a filter bank, and layers with gated relative position biases.

Invariant: numbers are those of the authors' network; names differ where ours describe a part
better. The filter bank depends on the waveform alone.

Source: Chen et al., "BEATs: Audio Pre-Training with Acoustic Tokenizers", ICML 2023; the network in
microsoft/unilm, beats.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values,
H heads, D values of a head.

Weights of BEATs as its authors publish them: a file with a configuration and named layers.

Source: microsoft/unilm, beats: `{"cfg": ..., "model": ...}`, pretrained or fine-tuned on AudioSet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchaudio.models.wav2vec2.components import ConvolutionalPositionalEmbedding

from asdf.checkpoint.weights_file import read_weights_file, state_dict_in
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.patches import (
    KaldiBank,
    PatchFrontEnd,
    PatchSizes,
    PatchWeights,
    check_required,
)
from asdf.networks.front_ends.encoder_layers import (
    buckets_between,
    encode_positions,
    make_bucket_table,
)
from asdf.networks.front_ends.spectral import WINDOW

# Of filter banks in pretraining.
_MEAN, _DEVIATION = 15.41663, 6.55582


@dataclass(frozen=True)
class BEATsSizes(PatchSizes):
    """The sizes of the network; the defaults are those of all published weights.

    Attributes:
        patch_dimension: Number of values of a patch before the projection.
        deep_norm: Whether residuals are scaled with the number of layers (DeepNorm).
    """

    name: ClassVar[str] = "beats"
    words: ClassVar[str] = "BEATs'"
    first_layer: ClassVar[str] = "layers.0.feed_forward_in.weight"
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
        # Kaldi's default, the Povey window.
        taper_W = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64).pow(0.85)
        self.filter_bank = KaldiBank(taper_W, _MEAN, _DEVIATION)
        table_D = make_bucket_table(sizes.buckets, sizes.max_distance)
        # Not persistent, since it depends only on the sizes.
        self.register_buffer("bucket_table", table_D, persistent=False)

    def patches(self, waveforms_BT: Tensor) -> Tensor:
        """Return projected patches (batch, patches, dimension), grouped by time."""
        x_BLN = self.filter_bank(waveforms_BT)
        x_BCLN = self.patch_embedding(x_BLN.unsqueeze(1))
        x_BPC = self.patch_norm(x_BCLN.flatten(2).transpose(1, 2))
        return self.projection(x_BPC)

    def add_positions(self, x_BPC: Tensor) -> Tensor:
        """Return the input of the first layer."""
        x_BPC = x_BPC + encode_positions(self.positions, x_BPC)
        return self.dropout(self.layer_norm(x_BPC))

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
        return self.final_norm(self.scale * x_BPC + outer_BPC)


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
        return self.out_proj(attended_BHPD.transpose(1, 2).flatten(2))

    def _heads_of(self, x_BPC: Tensor) -> Tensor:
        x_BPHD: Tensor = x_BPC.unflatten(2, (self.heads, -1))
        return x_BPHD.transpose(1, 2)


class BEATsFrontEnd(PatchFrontEnd):
    """BEATs (Chen et al., ICML 2023): patches of 160 ms and an eighth of 128 mel bands."""

    short_name = "beats"
    sizes_class = BEATsSizes
    encoder_class = BEATsEncoder
    sizes: BEATsSizes

    @classmethod
    def read_weights(cls, path: Path) -> PatchWeights:
        """Read a file that the authors publish, pretrained or fine-tuned. Raises as the base."""
        content = read_weights_file(path)
        state = state_dict_in(content, path)
        config = content.get("cfg")
        if not is_beats(state) or not isinstance(config, Mapping):
            raise AsdfError(
                f"weights file {path} is not a BEATs file: it lacks the configuration ('cfg') or "
                "the layer patch_embedding. Name a file published by microsoft/unilm."
            )
        check_required(config, _REQUIRED, f"weights file {path}")
        missing = [name for name in _SIZES if not isinstance(config.get(name), int)]
        if missing:
            raise AsdfError(
                f"weights file {path} is damaged: its configuration lacks the number {missing[0]}."
            )
        sizes = BEATsSizes(**{ours: config[theirs] for theirs, ours in _SIZES.items()})
        layers = {}
        left_out = []
        for name, tensor in state.items():
            if name.startswith(_PREDICTOR):
                left_out.append(name)
            elif name == _FIRST_BIASES:
                layers["position_biases.weight"] = tensor
            # All layers share the biases of the first, which the file repeats.
            elif not (name.endswith(_BIASES) and torch.equal(tensor, state[_FIRST_BIASES])):
                our_name = _replace_start(name, _PARTS)
                if in_layer := _LAYER.fullmatch(name):
                    number, rest = in_layer.groups()
                    our_name = f"layers.{number}.{_replace_start(rest, _IN_LAYERS)}"
                layers[our_name] = tensor
        return PatchWeights(sizes, layers, left_out)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output up to `layers`."""
        x_BPC = self.model.add_positions(self.mask(self.model.patches(waveforms_BT)))
        yield from self.run_layers(x_BPC, self.model.position_bias)

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder's layers."""
        return list(self.model.layers)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers above `layers`, and of biases that no layer computes."""
        yield from self.model.layers[self.layers :].parameters()
        if self.layers == 0:
            yield from self.model.position_biases.parameters()

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return the modules for patches, projection and positions."""
        return {
            "convolutions": [self.model.patch_embedding],
            "projection": [self.model.patch_norm, self.model.projection],
            "positions": [self.model.positions, self.model.position_biases],
        }


# The authors' prefixes of the parts.
_PARTS = {
    "post_extract_proj.": "projection.",
    "layer_norm.": "patch_norm.",
    "encoder.layer_norm.": "layer_norm.",
    "encoder.pos_conv.0.weight_g": "positions.conv.parametrizations.weight.original0",
    "encoder.pos_conv.0.weight_v": "positions.conv.parametrizations.weight.original1",
    "encoder.pos_conv.0.bias": "positions.conv.bias",
}
# Names within a layer.
_IN_LAYERS = {
    "self_attn.grep_linear.": "attention.pos_gate.",
    "self_attn.grep_a": "attention.pos_gate_scale",
    "self_attn_layer_norm.": "attention_norm.",
    "self_attn.": "attention.",
    "fc1.": "feed_forward_in.",
    "fc2.": "feed_forward_out.",
    "final_layer_norm.": "final_norm.",
}
_LAYER = re.compile(r"encoder\.layers\.(\d+)\.(.+)")
_BIASES = "self_attn.relative_attention_bias.weight"
_FIRST_BIASES = f"encoder.layers.0.{_BIASES}"
# Prefix of the layers after the encoder in fine-tuned networks.
_PREDICTOR = "predictor."
_SIZES = {
    "encoder_layers": "layers",
    "encoder_embed_dim": "dimension",
    "encoder_attention_heads": "heads",
    "encoder_ffn_embed_dim": "feed_forward",
    "input_patch_size": "patch",
    "embed_dim": "patch_dimension",
    "conv_pos": "pos_conv_kernel",
    "conv_pos_groups": "pos_conv_groups",
    "num_buckets": "buckets",
    "max_distance": "max_distance",
    "deep_norm": "deep_norm",
}
# Required values, because with others the same layers would give other features.
_REQUIRED = {
    "layer_norm_first": False,
    "relative_position_embedding": True,
    "gru_rel_pos": True,
    "activation_fn": "gelu",
    "conv_bias": False,
}


def is_beats(state: Mapping[str, Any]) -> bool:
    """Return whether layers have BEATs' names."""
    return "patch_embedding.weight" in state and _FIRST_BIASES in state


def _replace_start(name: str, starts: Mapping[str, str]) -> str:
    for theirs, ours in starts.items():
        if name.startswith(theirs):
            return ours + name.removeprefix(theirs)
    return name
