"""The self-supervised front end of the wav2vec 2.0 family: wav2vec 2.0, HuBERT and WavLM.

Invariant: the last layer's features are taken after the encoder's final layer norm, as in fairseq.
The constructor reads no file; pretrained weights are loaded afterwards.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from torchaudio.models import Wav2Vec2Model

from asdf.facts import SAMPLE_RATE
from asdf.networks.casting import norms_are_short, weights_cast_together
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.front_ends.encoder_layers import (
    computes_frames_first,
    convolve_frames,
    encoder_states,
    run_cast,
)
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.interface import counting_frames, pad_rows
from asdf.settings.sections import FrontEnd as FrontEndSettings


class Wav2Vec2FrontEnd(FrontEnd):
    """wav2vec 2.0 (Baevski et al., NeurIPS 2020), HuBERT or WavLM in any size.

    In all published sizes, a frame sees 400 samples, and frames start every 320 samples.

    Attributes:
        architecture: Architecture of the built network.
    """

    short_name = "wav2vec2"
    sample_rate = SAMPLE_RATE
    model: Wav2Vec2Model
    cacheable: ClassVar[bool] = True

    @classmethod
    def own_rate(cls, settings: FrontEndSettings) -> int | None:
        """Return the rate of the architecture; None if pretrained weights will state it."""
        if settings.weights is not None:
            return None
        return Architecture.from_text(settings.architecture).sample_rate

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read `settings.architecture`.

        Raises:
            UsageError: the architecture is not known.
        """
        self.architecture = Architecture.from_text(settings.architecture)
        self.architecture_setting = self.architecture.to_text()
        self.sample_rate = self.architecture.sample_rate
        self.dimension = self.architecture.dimension
        self.encoder_layers = self.architecture.layers
        self.window = self.architecture.min_samples(frames=1)
        self.hop = self.architecture.min_samples(frames=2) - self.window
        self.layer_drop = settings.layer_drop
        self.gradient_checkpointing = settings.gradient_checkpointing

    def make_model(self, settings: FrontEndSettings) -> Wav2Vec2Model:
        """Return torchaudio's network with random weights."""
        return self.architecture.build(settings.dropout)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the first encoder layer's input, and each layer's output up to `layers`."""
        yield from self._encode(self._convolve(waveforms_BT))

    def padded_states(self, recordings: Sequence[Tensor]) -> Iterator[Tensor]:
        """Yield the states of recordings of varying length, computed together under a mask."""
        if self.architecture.relative_positions or self.repeats_last_frame:
            return super().padded_states(recordings)
        if self.architecture.extractor_mode == "group_norm":
            # The norm needs the statistics of a whole recording.
            features_BLC = pad_rows([self._convolve(recording) for recording in recordings])
        else:
            features_BLC = self._convolve(pad_rows(recordings))
        frames = [self.frames(recording.shape[1]) for recording in recordings]
        counts_BL = counting_frames(frames, features_BLC.device)
        # Padding may leave samples that give frames of their own, which are cut off.
        return self._encode(features_BLC[:, : max(frames)], counts_BL)

    def _encode(self, features_BLC: Tensor, counts_BL: Tensor | None = None) -> Iterator[Tensor]:
        """Yield the states of the stem's features; arguments as in `encoder_states`."""
        encoder = self.model.encoder
        x_BLC = self.mask(run_cast(encoder.feature_projection, features_BLC, norms_are_short()))
        if counts_BL is not None:
            # The convolution of positions then sees zeros, as after the end of a recording alone.
            x_BLC = x_BLC * counts_BL[:, :, None]
        yield from encoder_states(
            encoder.transformer,
            x_BLC,
            self.architecture.layer_norm_first,
            self.layers,
            self.layer_drop,
            self.gradient_checkpointing,
            counts_BL,
        )

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the layer norm that ends a pre-norm encoder, if all of its layers are computed."""
        if not self.architecture.layer_norm_first or self.layers < self.encoder_layers:
            return x_BLC
        return run_cast(self.model.encoder.transformer.layer_norm, x_BLC, norms_are_short())

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of a pre-norm encoder's final layer norm."""
        if self.architecture.layer_norm_first:
            yield from self.model.encoder.transformer.layer_norm.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters of layers above `layers`, and then of the final layer norm."""
        if self.layers < self.encoder_layers:
            yield from self.model.encoder.transformer.layers[self.layers :].parameters()
            yield from self.final_norm_parameters()

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return the convolutional stem, the projection after it, and the modules for positions."""
        transformer = self.model.encoder.transformer
        positions: list[nn.Module] = [transformer.pos_conv_embed]
        if self.architecture.relative_positions:
            # The first layer holds the biases of all layers.
            positions.append(transformer.layers[0].attention.rel_attn_embed)
        return {
            "convolutions": [self.model.feature_extractor],
            "projection": [self.model.encoder.feature_projection],
            "positions": positions,
        }

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder's layers."""
        return list(self.model.encoder.transformer.layers)

    def used_samples(self, samples: int) -> int:
        """Return the leading samples that frames depend on; a group norm depends on more."""
        return self.architecture.used_samples(samples)

    def _convolve(self, waveforms_BT: Tensor) -> Tensor:
        """Compute the convolutional stem, recomputed in the backward pass to save memory.

        Its seven layers hold 127 frames for each frame of the encoder, more than all encoder layers
        once these are recomputed. Its norms allow computing a few utterances at a time, so that
        memory is needed only for those.
        """
        short = norms_are_short()
        if not (self.gradient_checkpointing and torch.is_grad_enabled()):
            return self._stem(waveforms_BT, short)
        parts_BLC = []
        for part_BT in waveforms_BT.split(_recomputed_at_a_time(len(waveforms_BT))):
            # The stem draws no random numbers, so no random state needs to be restored.
            part_BLC = checkpoint(
                self._stem, part_BT, short, use_reentrant=False, preserve_rng_state=False
            )
            parts_BLC.append(part_BLC)
        return torch.cat(parts_BLC)

    def _stem(self, waveforms_BT: Tensor, short_norms: bool) -> Tensor:
        stem = self.model.feature_extractor
        frames_first = computes_frames_first(stem, waveforms_BT)
        with weights_cast_together(stem, waveforms_BT.device, short_norms):
            if frames_first:
                return convolve_frames(stem, waveforms_BT, short_norms)
            features_BLC: Tensor = stem(waveforms_BT, None)[0]
        return features_BLC


def _recomputed_at_a_time(utterances: int) -> int:
    """Return a quarter of a minibatch, but at most four utterances.

    Each part costs a GPU the same number of launches: with 14 utterances, one at a time would need
    half as many launches again for a whole step. More than four save few launches but take more
    memory.
    """
    return min(4, math.ceil(utterances / 4))
