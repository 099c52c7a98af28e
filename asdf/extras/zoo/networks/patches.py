"""The base of front ends whose frames are patches of a filter bank.

Invariant: a frame is a patch in the order of the authors' networks, grouped by time, from low to
high frequencies. Only whole patches are used; nothing is padded. Every layer of published weights
is a layer of the front end, or is known to be irrelevant for features and logged; any other layer
keeps its name, so that the check of layers reports it. No code in them is executed.

Shapes: B utterances, T samples, L frames of the filter bank, N bands, P patches, C feature values.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchaudio.compliance.kaldi import get_mel_banks

from asdf.checkpoint.base_weights import by_module, load_layers
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.interchange.front_end_weights import fetch_weights
from asdf.networks.casting import without_autocast
from asdf.networks.front_ends.encoder_layers import choose_dropped
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.spectral import HOP, WINDOW, kaldi_log_bands
from asdf.runs.log import LOG
from asdf.settings.sections import FrontEnd as FrontEndSettings

if TYPE_CHECKING:
    from typing_extensions import Self

BANDS = 128
_LARGEST_SIZE = 10**5


@dataclass(frozen=True)
class PatchSizes:
    """The sizes of a network; the defaults are those of its published weights.

    Attributes:
        name: Value of `front_end.architecture` for the default sizes.
        words: Name of the network in messages, as a possessive.
        patch: Number of frames, and of bands, of a patch.
        first_layer: Name of the first encoder layer's weight of shape (feed_forward, dimension).
    """

    name: ClassVar[str]
    words: ClassVar[str]
    first_layer: ClassVar[str] = "blocks.0.mlp.fc1.weight"
    layers: int = 12
    dimension: int = 768
    heads: int = 12
    feed_forward: int = 3072
    patch: int = 16

    def to_text(self) -> str:
        """Return the value of `front_end.architecture` for these sizes."""
        return self.name if self == type(self)() else json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the sizes for a value of `front_end.architecture`; a name gives published ones.

        Raises:
            UsageError: the literal is not one of `to_text`, or has impossible sizes.
        """
        if not text.lstrip().startswith("{"):
            return cls()
        try:
            sizes = cls(**json.loads(text))
            sizes.check()
        except (ValueError, TypeError, RecursionError) as error:
            raise UsageError(
                f"front_end.architecture: {text!r} is not the literal of {cls.words} sizes "
                f"({error}). Set it to {cls.name!r}, or to a literal such as "
                f"{json.dumps(asdict(cls()))}."
            ) from error
        return sizes

    def check(self) -> None:
        """Refuse impossible sizes.

        Raises:
            ValueError: a size is not an integer, or does not fit the others.
        """
        for name, value in asdict(self).items():
            wanted = type(getattr(type(self), name))
            # Exactly this type, since bool is a subclass of int.
            is_known = type(value) is wanted and 0 <= value <= _LARGEST_SIZE
            if not is_known or (wanted is int and value < 1):
                raise ValueError(f"{name} is {value!r}")
        for name, rest in self.rests().items():
            if rest:
                raise ValueError(f"{name} = {getattr(self, name)} does not match the other sizes")

    @classmethod
    def from_config(
        cls, config: Mapping[str, Any], required: Mapping[str, Any], where: str, **others: int
    ) -> Self:
        """Return the sizes in a published configuration with timm's names.

        Args:
            required: Values with others than which the same layers would give other features.
            where: Name of the configuration in messages.
            others: Sizes that it does not state.

        Raises:
            AsdfError: they are impossible, or of an unsupported network.
        """
        check_required(config, required, where)
        usual = cls()
        try:
            dimension = int(config.get("embed_dim", usual.dimension))
            stated = {
                "layers": int(config.get("depth", usual.layers)),
                "dimension": dimension,
                "heads": int(config.get("num_heads", cls.usual_heads(dimension))),
                "feed_forward": int(dimension * float(config.get("mlp_ratio", 4.0))),
            }
            sizes = cls(**stated, **others)
            sizes.check()
        except (ValueError, TypeError, OverflowError) as error:
            raise AsdfError(f"the configuration of {where} is invalid: {error}.") from error
        return sizes

    @classmethod
    def usual_heads(cls, dimension: int) -> int:
        """Return the attention heads of published networks with this dimension."""
        return cls().heads

    def rests(self) -> dict[str, int]:
        """Return remainders that must be zero, by the size's name."""
        return {"heads": self.dimension % self.heads, "patch": BANDS % self.patch}


def check_required(config: Mapping[str, Any], required: Mapping[str, Any], where: str) -> None:
    """Refuse a configuration with other values than the supported ones.

    Raises:
        AsdfError: it has one.
    """
    for name, value in required.items():
        stated = config.get(name, value)
        # Files of torch.save state tuples, a config.json lists.
        if (list(stated) if isinstance(stated, tuple) else stated) != value:
            raise AsdfError(
                f"{where} has {name} = {stated!r} in its configuration; ASDF supports {value!r}."
            )


@dataclass(frozen=True)
class PatchWeights:
    """Published weights of an encoder.

    Attributes:
        layers: Layers by the names of ours.
        left_out: Names of layers that are irrelevant for features.
    """

    sizes: PatchSizes
    layers: dict[str, Tensor]
    left_out: list[str]


class PatchFrontEnd(FrontEnd):
    """The base class of front ends on patches.

    Attributes:
        sizes_class: Class of the sizes that `front_end.architecture` states.
        encoder_class: Class of the network, of these sizes and the dropout.
        sizes: Sizes of the network that was built.
        step: Samples from one column of patches to the next.
        per_step: Number of patches in a column, over frequency.
    """

    sample_rate = SAMPLE_RATE
    model: Any
    sizes_class: ClassVar[type[PatchSizes]]
    encoder_class: ClassVar[type[nn.Module]]
    cacheable: ClassVar[bool] = True
    sizes: PatchSizes
    step: int
    per_step: int

    @classmethod
    @abstractmethod
    def read_weights(cls, path: Path) -> PatchWeights:
        """Read published weights.

        Raises:
            AsdfError: they cannot be read, or are of another network.
        """

    @classmethod
    def architecture_of(cls, weights: str) -> str:
        """Return the sizes of weights, compared with their layers before memory is allocated.

        Raises:
            AsdfError: as `read_weights`; or the layers have other sizes.
        """
        read = cls.read_weights(Path(fetch_weights(weights)))
        sizes = read.sizes
        stem, _, inner = sizes.first_layer.partition(".0.")
        numbers = {name.split(".")[1] for name in read.layers if name.startswith(f"{stem}.")}
        first = read.layers.get(f"{stem}.0.{inner}")
        shape = None if first is None else tuple(first.shape)
        if len(numbers) != sizes.layers or shape != (sizes.feed_forward, sizes.dimension):
            raise AsdfError(
                f"the configuration of {weights} states {sizes.layers:,} layers of "
                f"{sizes.dimension:,} and {sizes.feed_forward:,} values, but its weights have "
                f"{len(numbers):,} layers, the first of {shape}. They are damaged, or from another "
                "network."
            )
        return sizes.to_text()

    def load_weights(self, weights: str) -> None:
        """Load published weights of the same sizes.

        Raises:
            AsdfError: as `read_weights`; or they do not fit.
        """
        read = self.read_weights(Path(weights))
        if read.sizes != self.sizes:
            raise AsdfError(
                f"weights {weights} are of other sizes than the front end was built with. Set "
                f"front_end.architecture = {read.sizes.to_text()!r}."
            )
        LOG.info("front end: %d layers from %s", len(read.layers), weights)
        if read.left_out:
            LOG.info("front end: not loaded from %s: %s", weights, by_module(read.left_out))
        load_layers(self.model, read.layers, weights)

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read `settings.architecture`, with patches of equal numbers of frames and bands.

        Raises:
            UsageError: the value has no valid sizes, or scores of frames are requested.
        """
        self.read_sizes(settings)
        patch = self.sizes.patch
        if self.sections.localisation.enabled:
            raise UsageError(
                f"localisation.enabled = True: the frames of {type(self).__name__} are patches of "
                "time and frequency, which do not follow each other in time. Choose another "
                "front_end.front_end_class."
            )
        self.step = patch * HOP
        self.per_step = BANDS // patch
        self.window = WINDOW + (patch - 1) * HOP
        # On average, since all patches of one time begin together.
        self.hop = self.step // self.per_step

    def read_sizes(self, settings: FrontEndSettings) -> None:
        """Read `settings.architecture`, and the settings of running layers.

        Raises:
            UsageError: the value has no valid sizes.
        """
        self.sizes = self.sizes_class.from_text(settings.architecture)
        self.architecture_setting = self.sizes.to_text()
        self.dimension = self.sizes.dimension
        self.encoder_layers = self.sizes.layers
        self.layer_drop = settings.layer_drop
        self.gradient_checkpointing = settings.gradient_checkpointing

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the encoder with random weights."""
        return self.encoder_class(self.sizes, settings.dropout)

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder's layers."""
        return list(self.model.blocks)

    def run_layers(
        self, x_BPC: Tensor, bias_of: Callable[[int], Tensor | None] = lambda _: None
    ) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output up to `layers`.

        Args:
            bias_of: Function that returns the attention bias for a number of patches.
        """
        yield x_BPC
        layers = self.layer_modules()[: self.layers]
        bias = bias_of(x_BPC.shape[1]) if layers else None
        dropped = choose_dropped(len(layers), self.layer_drop, self.training)
        for layer, is_dropped in zip(layers, dropped, strict=True):
            if self.gradient_checkpointing and torch.is_grad_enabled():
                output_BPC = checkpoint(layer, x_BPC, bias, use_reentrant=False)
            else:
                output_BPC = layer(x_BPC, bias)
            # A dropped layer gets zero gradients, so that no process waits for them.
            x_BPC = x_BPC + 0.0 * output_BPC if is_dropped else output_BPC
            yield x_BPC

    def frames(self, samples: int) -> int:
        """Return the number of patches for `samples` samples."""
        if samples < self.window:
            return 0
        columns = (samples - self.window) // self.step + 1
        return columns * self.per_step

    def min_samples(self, frames: int) -> int:
        """Return the minimum number of samples for `frames` patches."""
        columns = -(-frames // self.per_step)
        return self.window + (columns - 1) * self.step


class KaldiBank(nn.Module):
    """Normalised log filter banks of waveforms: (batch, frames of 10 ms, bands).

    Args:
        taper_W: Window, in float64.
        mean, deviation: Mean and deviation of log filter banks in pretraining.
        scale: Factor for the samples, as of `kaldi_log_bands`.
    """

    taper: Tensor
    bands: Tensor

    def __init__(
        self, taper_W: Tensor, mean: float, deviation: float, scale: float = 2**15
    ) -> None:
        super().__init__()
        self.mean, self.deviation, self.scale = mean, deviation, scale
        # With values even in a network built without: torchaudio looks for filters that are empty.
        with torch.device("cpu"):
            bins_NF, _ = get_mel_banks(
                BANDS, 512, float(SAMPLE_RATE), 20.0, 0.0, 100.0, -500.0, 1.0
            )
        # These filters lack the highest bin, whose weight is 0.
        bands_FN = F.pad(bins_NF, (0, 1)).T.double().to(taper_W.device)
        # Not persistent, since they depend only on the sizes.
        self.register_buffer("taper", taper_W, persistent=False)
        self.register_buffer("bands", bands_FN, persistent=False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        with without_autocast(waveforms_BT):
            taper_W, bands_FN = self.taper.double(), self.bands.double()
            x_BLN = kaldi_log_bands(waveforms_BT, taper_W, bands_FN, self.scale)
            # As in AST, which halves the normalised values.
            return ((x_BLN - self.mean) / (2 * self.deviation)).float()
