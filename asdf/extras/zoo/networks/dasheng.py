"""Dasheng, a self-supervised encoder for all kinds of sound, and its front end.

Invariant: numbers are those of the authors' network for a single recording, and layer names are
theirs. A frame is a patch of all bands and 40 ms, so frames are consecutive in time. As in the
authors' code, a recording is cut into chunks with as many patches as there are positions (10 s),
without attention between chunks. Means and variances of bands stay those of the weights, even in
training. The constructor reads no file.

Source: Dinkel et al., "Scaling up masked audio encoder learning for general audio classification",
Interspeech 2024; the package dasheng, and its networks for transformers on the hub.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values.

Weights of Dasheng as its authors publish them: a folder of the hub, or the package's file.

Source: mispeech/dasheng-base and its larger ones on the hub, of the model type 'dasheng', whose
configuration has `encoder_kwargs`; the package dasheng, whose files are
`{"model": ..., "config": ...}`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
import torchaudio.functional
from torch import Tensor, nn

from asdf.checkpoint.network_reading import CONFIG
from asdf.checkpoint.weights_file import read_json, read_weights_file
from asdf.errors import AsdfError
from asdf.extras.zoo.networks.decibel_cepstra import limited_decibels
from asdf.extras.zoo.networks.eat import PatchLayer
from asdf.extras.zoo.networks.patches import PatchFrontEnd, PatchSizes, PatchWeights
from asdf.facts import SAMPLE_RATE
from asdf.interchange import hugging_face
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.spectral import HOP
from asdf.networks.functions import is_traced
from asdf.settings.sections import FrontEnd as FrontEndSettings

BANDS = 64
WINDOW = 512
_BINS = WINDOW // 2 + 1
# Lower limit of band levels, relative to a recording's strongest band.
_RANGE_DB = 120.0


@dataclass(frozen=True)
class DashengSizes(PatchSizes):
    """The sizes of the network; the defaults are those of the published base network.

    Attributes:
        patch: Number of frames of a patch, which includes all bands.
        positions: Number of patches of a chunk.
    """

    name: ClassVar[str] = "dasheng"
    words: ClassVar[str] = "Dasheng's"
    patch: int = 4
    positions: int = 252

    @classmethod
    def usual_heads(cls, dimension: int) -> int:
        """Return the heads in the authors' loaders, which files do not state."""
        return _HEADS.get(dimension, cls().heads)

    def rests(self) -> dict[str, int]:
        """Return the remainder of the dimension divided by the heads; a patch has all bands."""
        return {"heads": self.dimension % self.heads}


class DashengEncoder(nn.Module):
    """An encoder from waveforms (batch, samples) to patches with positions, with its layers."""

    taper: Tensor
    bands: Tensor

    def __init__(self, sizes: DashengSizes, dropout: float) -> None:
        super().__init__()
        self.sizes = sizes
        self.band_norm = BandNorm(BANDS)
        self.patch_embed = nn.Module()
        kernel = (BANDS, sizes.patch)
        self.patch_embed.proj = nn.Conv2d(1, sizes.dimension, kernel_size=kernel, stride=kernel)
        positions = (1, sizes.dimension, 1, sizes.positions)
        self.time_pos_embed = nn.Parameter(0.02 * torch.randn(positions))
        self.freq_pos_embed = nn.Parameter(0.02 * torch.randn(1, sizes.dimension, 1, 1))
        self.dropout = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(
            PatchLayer(sizes, dropout, pre_norm=True) for _ in range(sizes.layers)
        )
        self.norm = nn.LayerNorm(sizes.dimension, eps=1e-6)
        # Not persistent, since they depend only on the sizes.
        device = self.norm.weight.device
        taper_W = torch.hann_window(WINDOW, dtype=torch.float64, device=device)
        self.register_buffer("taper", taper_W, persistent=False)
        # With values even in a network built without: torchaudio looks for filters that are empty.
        with torch.device("cpu"):
            bands_FN = torchaudio.functional.melscale_fbanks(
                _BINS, 0.0, SAMPLE_RATE / 2, BANDS, SAMPLE_RATE
            )
        self.register_buffer("bands", bands_FN.double().to(device), persistent=False)

    def filter_bank(self, waveforms_BT: Tensor) -> Tensor:
        """Return levels of bands in dB, (batch, frames of 10 ms, bands), for centred windows."""
        with without_autocast(waveforms_BT):
            taper_W, bands_FN = self.taper.double(), self.bands.double()
            levels_BLN = limited_decibels(
                waveforms_BT.double(), taper_W, bands_FN, HOP, WINDOW, _RANGE_DB
            )
            return levels_BLN.float()

    def patches(self, waveforms_BT: Tensor) -> Tensor:
        """Return patches (batch, patches, dimension) with positions in their chunk and bands."""
        x_BLN = self.filter_bank(waveforms_BT)
        with without_autocast(x_BLN):
            x_BLN = self.band_norm(x_BLN)
        x_BC1P = self.patch_embed.get_submodule("proj")(x_BLN.transpose(1, 2).unsqueeze(1))
        numbers_P = torch.arange(x_BC1P.shape[3], device=x_BC1P.device) % self.sizes.positions
        positions_1C1P = self.time_pos_embed[:, :, :, numbers_P] + self.freq_pos_embed
        x_BC1P = x_BC1P + positions_1C1P.to(x_BC1P.dtype)
        return x_BC1P.flatten(2).transpose(1, 2)

    def chunk_bias(self, patches: Any) -> Tensor | None:
        """Return a bias that prevents attention between chunks; None if there is only one."""
        if not is_traced() and patches <= self.sizes.positions:
            return None
        device = self.norm.weight.device
        chunks_P = torch.arange(patches, device=device) // self.sizes.positions
        is_other_PP = chunks_P.unsqueeze(0) != chunks_P.unsqueeze(1)
        return torch.zeros(is_other_PP.shape, device=device).masked_fill(is_other_PP, -torch.inf)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        return self.dropout(self.patches(waveforms_BT))


class BandNorm(nn.Module):
    """A batch norm of bands that always uses the means and variances of its weights."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, bands: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(bands))
        self.bias = nn.Parameter(torch.zeros(bands))
        self.register_buffer("running_mean", torch.zeros(bands))
        self.register_buffer("running_var", torch.ones(bands))

    def forward(self, x_BLN: Tensor) -> Tensor:
        """Return (batch, frames, bands)."""
        normed_BLN = (x_BLN - self.running_mean) * (self.running_var + 1e-5).rsqrt()
        return normed_BLN * self.weight + self.bias


class DashengFrontEnd(PatchFrontEnd):
    """Dasheng (Dinkel et al., Interspeech 2024): patches of 40 ms and all of 64 mel bands."""

    short_name = "dasheng"
    sizes_class = DashengSizes
    encoder_class = DashengEncoder
    sizes: DashengSizes

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read `settings.architecture`. Raises as `read_sizes`."""
        self.read_sizes(settings)
        self.step = self.sizes.patch * HOP
        self.hop = self.step
        self.per_step = 1
        # Windows are centred, so the first one of a patch begins before the recording. The samples
        # reflected there must exist.
        self.window = max((self.sizes.patch - 1) * HOP, WINDOW // 2 + 1)

    @classmethod
    def read_weights(cls, path: Path) -> PatchWeights:
        """Read a folder of the hub, or a file of the package dasheng. Raises as the base."""
        folder = hugging_face.folder_of(path)
        if folder is not None:
            state: Any = hugging_face.read_state(path)
            config = read_json(folder / CONFIG)
            if config.get("model_type") != "dasheng":
                raise AsdfError(
                    f"{folder / CONFIG} is of the model type {config.get('model_type')!r}, not "
                    "Dasheng."
                )
            stated = config.get("encoder_kwargs")
        else:
            content = read_weights_file(path)
            stated, state = content.get("config"), content.get("model")
        is_known = isinstance(state, Mapping) and is_dasheng(state)
        if not is_known or not isinstance(stated, Mapping):
            raise AsdfError(
                f"weights {path} are not Dasheng's: a folder of the hub has encoder_kwargs in "
                f"{CONFIG}, a file of the package dasheng 'model' and 'config', and both have "
                "layers such as time_pos_embed. Name a folder, a file such as dasheng_base.pt, or "
                "a repository such as 'mispeech/dasheng-base'."
            )
        layers = {}
        left_out = []
        for name, tensor in state.items():
            inner = name.removeprefix(_PREFIX)
            if inner.startswith(_OF_NO_USE):
                left_out.append(name)
            elif inner.startswith(_THEIR_NORM):
                layers[_OUR_NORM + inner.removeprefix(_THEIR_NORM)] = tensor
            else:
                layers[inner] = tensor
        positions = layers[_POSITIONS].shape[-1]
        sizes = DashengSizes.from_config(stated, _REQUIRED, str(path), positions=positions)
        return PatchWeights(sizes, layers, left_out)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output up to `layers`."""
        x_BPC = self.model.dropout(self.mask(self.model.patches(waveforms_BT)))
        yield from self.run_layers(x_BPC, self.model.chunk_bias)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the layer norm that ends the encoder, if all of its layers are computed."""
        if self.layers < self.encoder_layers:
            return x_BLC
        return self.model.norm(x_BLC)

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of the layer norm that ends the encoder."""
        yield from self.model.norm.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers above `layers`, and then of the final layer norm."""
        if self.layers < self.encoder_layers:
            yield from self.model.blocks[self.layers :].parameters()
            yield from self.final_norm_parameters()

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return the modules that normalise bands and create patches."""
        return {"convolutions": [self.model.band_norm, self.model.patch_embed]}

    def used_samples(self, samples: int) -> int:
        """Return all samples, since the end is reflected and the strongest band depends on all."""
        return samples


_PREFIX = "encoder."
_POSITIONS = "time_pos_embed"
_NAMES = (_POSITIONS, "freq_pos_embed", "patch_embed.proj.weight", "init_bn.1.weight")
_THEIR_NORM = "init_bn.1."
_OUR_NORM = "band_norm."
# The filter bank, which follows from the sizes; batch counts; and the layers after the encoder.
_OF_NO_USE = ("front_end.", "init_bn.1.num_batches_tracked", "outputlayer.", "decoder.")
_HEADS = {768: 12, 1280: 16, 1536: 24}
# Required values, because with others the same layers would give other features.
_REQUIRED: dict[str, Any] = {
    "patch_size": [BANDS, 4],
    "patch_stride": [BANDS, 4],
    "n_mels": BANDS,
    "hop_size": HOP,
    "win_size": WINDOW,
    "n_fft": WINDOW,
    "f_min": 0,
    "f_max": 8000,
    "center": True,
    "top_db": 120,
    "qkv_bias": True,
    "pooling": "mean",
    "init_values": None,
    "init_bn": True,
}


def is_dasheng(state: Mapping[str, Any]) -> bool:
    """Return whether layers have the names of Dasheng's."""
    names = {name.removeprefix(_PREFIX) for name in state}
    return names.issuperset(_NAMES)
