"""EAT, a self-supervised encoder for all kinds of sound, and its front end.

Invariant: numbers and layer names are those of the authors' network. Its fixed positions, stored in
its files for 2 minutes, are computed by a formula for any length. The token for the whole recording
takes part in attention but is not a frame. The constructor reads no file.

Source: Chen et al., "EAT: Self-Supervised Pre-Training with Efficient Audio Transformer", IJCAI
2024; cwx-worst-one/EAT, and its networks for transformers on the hub.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values,
H heads, D values of a head.

Weights of EAT as its authors publish them on the hub: a folder with a configuration.

Source: cwx-worst-one/EAT's networks for transformers, of the model type 'eat'.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from asdf.checkpoint.network_reading import CONFIG
from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.patches import (
    BANDS,
    KaldiBank,
    PatchFrontEnd,
    PatchSizes,
    PatchWeights,
)
from asdf.interchange import hugging_face
from asdf.networks.front_ends.spectral import WINDOW

# Of filter banks in pretraining.
_MEAN, _DEVIATION = -4.268, 4.569


@dataclass(frozen=True)
class EATSizes(PatchSizes):
    """The sizes of the network; the defaults are those of the published base networks."""

    name: ClassVar[str] = "eat"
    words: ClassVar[str] = "EAT's"

    def rests(self) -> dict[str, int]:
        """Return remainders as in the base class, and that of the fixed positions' four parts."""
        return {**super().rests(), "dimension": self.dimension % 4}


class EATEncoder(nn.Module):
    """An encoder from waveforms (batch, samples) to a token and patches, with its layers."""

    def __init__(self, sizes: EATSizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.local_encoder = nn.Module()
        self.local_encoder.proj = nn.Conv2d(
            1, sizes.dimension, kernel_size=sizes.patch, stride=sizes.patch
        )
        self.extra_tokens = nn.Parameter(0.02 * torch.randn(1, 1, sizes.dimension))
        self.pre_norm = nn.LayerNorm(sizes.dimension, eps=1e-6)
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            PatchLayer(sizes, dropout, pre_norm=False) for _ in range(sizes.layers)
        )
        taper_W = torch.hann_window(WINDOW, periodic=False, dtype=torch.float64)
        self.filter_bank = KaldiBank(taper_W, _MEAN, _DEVIATION, scale=1.0)

    def patches(self, waveforms_BT: Tensor) -> Tensor:
        """Return patches (batch, patches, dimension) with positions, grouped by time."""
        x_BLN = self.filter_bank(waveforms_BT)
        x_BCLN = self.local_encoder.get_submodule("proj")(x_BLN.unsqueeze(1))
        x_BPC: Tensor = x_BCLN.flatten(2).transpose(1, 2)
        positions_PC = make_positions(self.sizes, x_BCLN.shape[2], x_BPC.device)
        return x_BPC + positions_PC.to(x_BPC.dtype)

    def with_token(self, x_BPC: Tensor) -> Tensor:
        """Return the input of the first layer: the token of the recording, then patches."""
        token_B1C = self.extra_tokens.expand(x_BPC.shape[0], -1, -1).to(x_BPC.dtype)
        joined: Tensor = self.pre_norm(torch.cat([token_B1C, x_BPC], dim=1))
        return self.dropout(joined)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        return self.with_token(self.patches(waveforms_BT))


def make_positions(sizes: EATSizes, columns: int, device: torch.device) -> Tensor:
    """Return sinusoidal positions of patches over frequency and time, (patches, dimension)."""
    quarter = sizes.dimension // 4
    ratios = torch.arange(quarter, device=device, dtype=torch.float64) / quarter
    frequencies = 1.0 / 10000**ratios
    rows = BANDS // sizes.patch
    bands_P = torch.arange(rows, device=device).repeat(columns)
    times_P = torch.arange(columns, device=device).repeat_interleave(rows)
    parts = []
    for positions_P in (bands_P, times_P):
        angles = positions_P.double().unsqueeze(1) * frequencies
        parts += [angles.sin(), angles.cos()]
    return torch.cat(parts, dim=1).float()


class PatchLayer(nn.Module):
    """A layer with its norms before attention and feed-forward maps, or after their sums."""

    def __init__(self, sizes: PatchSizes, dropout: float, pre_norm: bool) -> None:
        super().__init__()
        self.pre_norm = pre_norm
        norm1 = nn.LayerNorm(sizes.dimension, eps=1e-6)
        norm2 = nn.LayerNorm(sizes.dimension, eps=1e-6)
        attn = JoinedAttention(sizes.dimension, sizes.heads, dropout)
        mlp = nn.Module()
        mlp.fc1 = nn.Linear(sizes.dimension, sizes.feed_forward)
        mlp.fc2 = nn.Linear(sizes.feed_forward, sizes.dimension)
        # In the order of computation, by which checkpoints number an optimiser's parameters.
        if pre_norm:
            self.norm1, self.attn, self.norm2, self.mlp = norm1, attn, norm2, mlp
        else:
            self.attn, self.norm1, self.mlp, self.norm2 = attn, norm1, mlp, norm2
        self.dropout = nn.Dropout(dropout)

    def forward(self, x_BPC: Tensor, position_bias: Tensor | None = None) -> Tensor:
        """Return patches of the same shape."""
        if self.pre_norm:
            x_BPC = x_BPC + self.dropout(self.attn(self.norm1(x_BPC), position_bias))
            return x_BPC + self._feed_forward(self.norm2(x_BPC))
        x_BPC = self.norm1(x_BPC + self.dropout(self.attn(x_BPC, position_bias)))
        return self.norm2(x_BPC + self._feed_forward(x_BPC))

    def _feed_forward(self, x_BPC: Tensor) -> Tensor:
        inner_BPC = F.gelu(self.mlp.get_submodule("fc1")(x_BPC))
        return self.dropout(self.mlp.get_submodule("fc2")(inner_BPC))


class JoinedAttention(nn.Module):
    """Attention with one joint map for queries, keys and values."""

    def __init__(self, dimension: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = nn.Linear(dimension, 3 * dimension)
        self.proj = nn.Linear(dimension, dimension)

    def forward(self, x_BPC: Tensor, bias_PP: Tensor | None = None) -> Tensor:
        """Return (batch, patches, dimension).

        Args:
            bias_PP: Bias added to the attention scores of each patch (row); None for no bias.
        """
        joined_BP3HD = self.qkv(x_BPC).unflatten(2, (3, self.heads, -1))
        queries_BHPD, keys_BHPD, values_BHPD = joined_BP3HD.permute(2, 0, 3, 1, 4).unbind()
        attended_BHPD = F.scaled_dot_product_attention(
            queries_BHPD,
            keys_BHPD,
            values_BHPD,
            attn_mask=None if bias_PP is None else bias_PP.to(queries_BHPD.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        return self.proj(attended_BHPD.transpose(1, 2).flatten(2))


class EATFrontEnd(PatchFrontEnd):
    """EAT (Chen et al., IJCAI 2024): patches of 160 ms and an eighth of 128 mel bands."""

    short_name = "eat"
    sizes_class = EATSizes
    encoder_class = EATEncoder
    sizes: EATSizes

    @classmethod
    def read_weights(cls, path: Path) -> PatchWeights:
        """Read a folder that the authors publish on the hub. Raises as the base."""
        folder = hugging_face.folder_of(path)
        if folder is None:
            raise AsdfError(
                f"weights {path} are not a folder of EAT: it contains no {CONFIG}. Name a folder, "
                "or a repository of the hub such as 'worstchan/EAT-base_epoch30_pretrain'."
            )
        config = read_json(folder / CONFIG)
        if config.get("model_type") != "eat":
            raise AsdfError(
                f"{folder / CONFIG} is of the model type {config.get('model_type')!r}, not EAT."
            )
        sizes = EATSizes.from_config(config, _REQUIRED, str(folder))
        layers = {}
        left_out = []
        for name, tensor in hugging_face.read_state(path).items():
            inner = name.removeprefix(_PREFIX)
            if inner.startswith(_HEADS):
                left_out.append(name)
            elif inner == _POSITIONS:
                columns = tensor.shape[1] // (BANDS // sizes.patch)
                ours_PC = make_positions(sizes, columns, tensor.device)
                is_alike = tensor.shape[1:] == ours_PC.shape
                if not is_alike or (tensor[0].float() - ours_PC).abs().max() > _TOLERANCE:
                    raise AsdfError(f"weights {path} have positions other than EAT's sines.")
            else:
                layers[inner] = tensor
        return PatchWeights(sizes, layers, left_out)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the first layer's input and each layer's output, for patches without the token."""
        x_BPC = self.model.with_token(self.mask(self.model.patches(waveforms_BT)))
        for state_BPC in self.run_layers(x_BPC):
            yield state_BPC[:, 1:]

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers above `layers`, and a token that nothing attends to."""
        yield from self.model.blocks[self.layers :].parameters()
        if self.layers == 0:
            yield self.model.extra_tokens

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return the modules that create patches, and the norm after them."""
        return {"convolutions": [self.model.local_encoder], "projection": [self.model.pre_norm]}


_PREFIX = "model."
_POSITIONS = "fixed_positional_encoder.positions"
# Prefixes of the layers after the encoder in fine-tuned networks.
_HEADS = ("fc_norm.", "head.")
# Required values, because with others the same layers would give other features.
_REQUIRED = {
    "stride": 16,
    "patch_size": 16,
    "in_chans": 1,
    "mel_bins": BANDS,
    "layer_norm_first": False,
    "norm_eps": 1e-6,
    "norm_affine": True,
    "qkv_bias": True,
    "fixed_positions": True,
}
_TOLERANCE = 1e-3
