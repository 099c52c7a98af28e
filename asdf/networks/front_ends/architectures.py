"""Architectures of wav2vec 2.0, HuBERT and WavLM: known ones by name, others as a literal.

Invariant: an `Architecture` defines every layer's shape and how layers are joined, so equal
architectures can exchange weights and give equal features. Dropout is not part of it.

Source: Baevski et al., "wav2vec 2.0", NeurIPS 2020; Babu et al., "XLS-R", Interspeech 2022; Hsu et
al., "HuBERT", TASLP 2021; Chen et al., "WavLM", JSTSP 2022.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import nn
from torchaudio.models import Wav2Vec2Model, wav2vec2_model, wavlm_model

from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import without_numbers
from asdf.networks.front_ends.encoder_layers import add_bucket_table
from asdf.text import did_you_mean

# Channels, kernel and stride of each layer.
ConvLayers = tuple[tuple[int, int, int], ...]
_COUNTS = ("dimension", "layers", "heads", "feed_forward", "pos_conv_kernel", "pos_conv_groups")


def stem(channels: int) -> ConvLayers:
    """Return the usual seven layers: windows of 400 samples every 320 samples."""
    middle = [(channels, 3, 2)] * 4
    last = [(channels, 2, 2)] * 2
    return ((channels, 10, 5), *middle, *last)


@dataclass(frozen=True)
class Architecture:
    """A network of the wav2vec 2.0 family; HuBERT has the same architecture.

    Attributes:
        extractor_mode: Normalisation of the stem: 'group_norm' (one norm, over time, after the
            first convolution) or 'layer_norm' (one after each).
        layer_norm_first: Whether the encoder is pre-norm, with a final layer norm, rather than
            post-norm.
        relative_positions: Number of buckets of WavLM's gated relative position bias, and the
            distance in frames from which all share one bucket; None for other models.
        sample_rate: Sampling rate of its training data, in Hz; for MERT it may be 24,000.
    """

    conv_layers: ConvLayers
    extractor_mode: str
    conv_bias: bool
    dimension: int
    layers: int
    heads: int
    feed_forward: int
    layer_norm_first: bool
    pos_conv_kernel: int = 128
    pos_conv_groups: int = 16
    relative_positions: tuple[int, int] | None = None
    sample_rate: int = SAMPLE_RATE

    def __post_init__(self) -> None:
        """Refuse impossible sizes with a ValueError that names the first of them."""
        if self.extractor_mode not in ("group_norm", "layer_norm"):
            raise ValueError(
                f"extractor_mode is {self.extractor_mode!r}, but must be 'group_norm' or "
                "'layer_norm'"
            )
        for name in _COUNTS:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}, but must be at least 1")
        for name in ("heads", "pos_conv_groups"):
            if self.dimension % getattr(self, name):
                raise ValueError(
                    f"dimension {self.dimension} cannot be divided among {getattr(self, name)} "
                    f"{name}"
                )
        if self.relative_positions:
            buckets, distance = self.relative_positions
            # Half of a direction's buckets hold one distance each; the others must reach farther.
            if not 1 <= buckets // 4 < distance:
                raise ValueError(
                    f"relative_positions is {self.relative_positions}, but must be at least 4 "
                    "buckets and a max distance above a quarter of them"
                )

    def build(self, dropout: float = 0.0) -> Wav2Vec2Model:
        """Build the network with random weights, with `dropout` at every dropout of its encoder."""
        make: Callable[..., Wav2Vec2Model] = wav2vec2_model
        if self.relative_positions:
            buckets, distance = self.relative_positions
            make = partial(wavlm_model, encoder_num_buckets=buckets, encoder_max_distance=distance)
        model = make(
            extractor_mode=self.extractor_mode,
            extractor_conv_layer_config=list(self.conv_layers),
            extractor_conv_bias=self.conv_bias,
            encoder_embed_dim=self.dimension,
            encoder_projection_dropout=dropout,
            encoder_pos_conv_kernel=self.pos_conv_kernel,
            encoder_pos_conv_groups=self.pos_conv_groups,
            encoder_num_layers=self.layers,
            encoder_num_heads=self.heads,
            encoder_attention_dropout=dropout,
            encoder_ff_interm_features=self.feed_forward,
            encoder_ff_interm_dropout=dropout,
            encoder_dropout=dropout,
            encoder_layer_norm_first=self.layer_norm_first,
            # `encoder_states` drops layers.
            encoder_layer_drop=0.0,
            aux_num_out=None,
        )
        if self.relative_positions:
            add_bucket_table(model.encoder.transformer.layers[0].attention)
        # With torch's default biases, speech at a usual level hardly affects the first norm's
        # output, and a network trained from scratch stays at chance for long. fairseq draws weights
        # this way, too.
        for layer in model.feature_extractor.conv_layers:
            nn.init.kaiming_normal_(layer.conv.weight)
            if self.conv_bias:
                nn.init.zeros_(layer.conv.bias)
        return model

    def shapes(self) -> dict[str, torch.Size]:
        """Return the shape of every layer's weights by torchaudio's name."""
        # On the meta device, so that the weights take no memory.
        with without_numbers():
            layers = self.build().state_dict()
        return {name: tensor.shape for name, tensor in layers.items()}

    def frames(self, samples: int) -> int:
        """Return the number of feature frames for `samples` samples."""
        for _, kernel, stride in self.conv_layers:
            samples = max(0, (samples - kernel) // stride + 1)
        return samples

    def min_samples(self, frames: int) -> int:
        """Return the minimum samples for `frames` frames: usually 400 + 320 * (frames - 1)."""
        return needed_samples(self.conv_layers, frames)

    def used_samples(self, samples: int) -> int:
        """Return how many leading samples the features depend on.

        Samples after the last whole window are not used, except by a group norm, which includes all
        outputs of the first convolution.
        """
        if self.frames(samples) == 0:
            return samples
        computed = 1 if self.extractor_mode == "group_norm" else len(self.conv_layers)
        return first_inputs(self.conv_layers, samples, computed)

    def to_text(self) -> str:
        """Return its value of `front_end.architecture`: a known name, or a literal."""
        for name, known in KNOWN.items():
            if known == self:
                return name
        fields = asdict(self)
        # As in files from before this choice existed.
        if self.sample_rate == SAMPLE_RATE:
            del fields["sample_rate"]
        return repr(fields)

    @classmethod
    def from_text(cls, text: str) -> Architecture:
        """Return the architecture for a value of `front_end.architecture`.

        Raises:
            UsageError: the name is unknown, or the literal is not one of `to_text`.
        """
        if text in KNOWN:
            return KNOWN[text]
        if not text.lstrip().startswith("{"):
            raise UsageError(
                f"front_end.architecture: {text!r} is not known.{did_you_mean(text, KNOWN)} Known "
                f"are {', '.join(KNOWN)}."
            )
        try:
            # Only literals: the text may be from a network file, and none of its code may run.
            fields: dict[str, Any] = dict(ast.literal_eval(text))
            # JSON has lists instead of tuples.
            fields["conv_layers"] = tuple(tuple(layer) for layer in fields["conv_layers"])
            positions = fields.get("relative_positions")
            fields["relative_positions"] = tuple(positions) if positions else None
            return cls(**fields)
        # Python has seven errors for a text that is not a literal, or has other fields or types.
        except Exception as error:
            raise UsageError(
                f"front_end.architecture: {text!r} is not the literal of an architecture "
                f"({error}). A literal looks like {asdict(KNOWN['tiny'])!r}."
            ) from error


def first_inputs(layers: ConvLayers, samples: int, computed: int) -> int:
    """Return the number of leading samples seen by the first `computed` convolution outputs."""
    outputs = samples
    for _, kernel, stride in layers[:computed]:
        outputs = (outputs - kernel) // stride + 1
    return needed_samples(layers[:computed], outputs)


def needed_samples(layers: ConvLayers, outputs: int) -> int:
    """Return the minimum samples for `outputs` outputs of the convolutions."""
    for _, kernel, stride in reversed(layers):
        outputs = (outputs - 1) * stride + kernel
    return outputs


def _pre_norm(dimension: int, layers: int, heads: int) -> Architecture:
    return Architecture(
        stem(512), "layer_norm", True, dimension, layers, heads, 4 * dimension, True
    )


def _post_norm(dimension: int, layers: int, heads: int) -> Architecture:
    return Architecture(
        stem(512), "group_norm", False, dimension, layers, heads, 4 * dimension, False
    )


def _from_scratch(channels: int) -> Architecture:
    """Return a small architecture to train from scratch.

    A group norm preserves loudness over time, which a layer norm removes from every frame: with it,
    this network learns the demo corpus in a minute; without it, it stays near chance that long.
    """
    return Architecture(
        stem(channels),
        "group_norm",
        False,
        64,
        2,
        4,
        128,
        True,
        pos_conv_kernel=32,
        pos_conv_groups=4,
    )


# The convolutions of HuBERT's and WavLM's large sizes have no biases.
_UNBIASED = replace(_pre_norm(1024, 24, 16), conv_bias=False)
_WAVLM = (320, 800)  # buckets, and the largest distance in frames

KNOWN: dict[str, Architecture] = {
    "tiny": _from_scratch(32),
    "small": _from_scratch(64),
    "wav2vec2_base": _post_norm(768, 12, 12),
    "wav2vec2_large": _post_norm(1024, 24, 16),
    "wav2vec2_xlsr_300m": _pre_norm(1024, 24, 16),
    "wav2vec2_xlsr_1b": _pre_norm(1280, 48, 16),
    "wav2vec2_xlsr_2b": _pre_norm(1920, 48, 16),
    "wav2vec2_large_lv60k": _pre_norm(1024, 24, 16),
    "hubert_base": _post_norm(768, 12, 12),
    "hubert_large": _UNBIASED,
    "hubert_xlarge": replace(_UNBIASED, dimension=1280, layers=48, feed_forward=5120),
    "wavlm_base": replace(_post_norm(768, 12, 12), relative_positions=_WAVLM),
    "wavlm_large": replace(_UNBIASED, relative_positions=_WAVLM),
}
