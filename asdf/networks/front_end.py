"""The self-supervised front end: waveforms in, features out, of one encoder layer or of all.

Invariant: in `eval()` mode an utterance's features depend on that utterance alone, and a frozen front end is always
in that mode. The last layer's features are taken after the encoder's final layer norm, where fairseq takes them.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from asdf.errors import UsageError
from asdf.interchange.fitting import load_layers
from asdf.interchange.front_end_weights import read_front_end_weights, tell_normalization
from asdf.networks.architectures import Architecture
from asdf.networks.casting import weights_cast_together
from asdf.networks.interface import repeat_short
from asdf.networks.layers import WeightedSum, encoder_states
from asdf.networks.masking import Masking
from asdf.settings.sections import FrontEnd


class Wav2Vec2FrontEnd(nn.Module):
    """wav2vec 2.0 (Baevski et al., NeurIPS 2020), HuBERT or WavLM in any size, from scratch or pretrained.

    Attributes:
        dimension: C, the number of values of a frame.
        layers: how many encoder layers are computed; `front_end.layer` may leave the upper ones out.
        architecture: what was built; read from the weights where these tell it.
        frozen: see `freeze`.
    """

    def __init__(self, settings: FrontEnd) -> None:
        """Build it and load `settings.weights`, if any.

        Raises:
            UsageError: the architecture is not known, or has no such layer.
            AsdfError: the weights cannot be read or fetched, or do not fit layer by layer.
        """
        super().__init__()
        architecture = Architecture.from_text(settings.architecture)
        weights = (
            read_front_end_weights(settings.weights, architecture) if settings.weights else None
        )
        self.architecture = weights.architecture if weights else architecture
        self.dimension = self.architecture.dimension
        self.layers = (
            settings.layer if isinstance(settings.layer, int) else self.architecture.layers
        )
        if self.layers > self.architecture.layers:
            raise UsageError(
                f"front_end.layer = {self.layers}: this front end has {self.architecture.layers} encoder layers. "
                "Choose one of them, 0 for the input of the first, 'last' or 'weighted'."
            )
        self.layer_drop = settings.layer_drop
        self.gradient_checkpointing = settings.gradient_checkpointing
        self.normalize_waveforms = settings.normalize_waveforms
        self.model = self.architecture.build(settings.dropout)
        if weights:
            load_layers(self.model, weights.layers, weights.source)
            tell_normalization(weights, settings.normalize_waveforms)
        masks = settings.time_mask_proportion or settings.channel_mask_proportion
        self.masking = (
            Masking(settings, self.dimension, weights.mask_embedding if weights else None)
            if masks
            else None
        )
        self.layer_sum = WeightedSum(self.layers + 1) if settings.layer == "weighted" else None
        self.frozen = False
        self.freeze(settings.frozen)

    def train(self, mode: bool = True) -> Wav2Vec2FrontEnd:
        """Training mode, unless the front end is frozen: then it stays without dropout and masks."""
        return super().train(mode and not self.frozen)

    def freeze(self, frozen: bool) -> None:
        """Let its weights stay as they are, or learn; a learned sum of layers learns in both cases."""
        self.frozen = frozen
        unused = {id(parameter) for parameter in self.unused_parameters()}
        for module in filter(None, (self.model, self.masking)):
            for parameter in module.parameters():
                parameter.requires_grad_(not frozen and id(parameter) not in unused)
        if frozen:
            self.train(False)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        """Features (batch, frames, dimension) of waveforms (batch, samples) at 16 kHz, as `front_end.layer` says.

        A frame sees 400 samples, and there is one every 320 samples. Waveforms shorter than one frame are repeated.
        """
        if self.layer_sum is not None:
            features_BLC: Tensor = self.layer_sum(self.hidden_states(waveforms_BT))
            return features_BLC
        with self._gradients():
            # Of the states before the last one, none is held.
            return self._final_norm(deque(self._states(waveforms_BT), maxlen=1).pop())

    def hidden_states(self, waveforms_BT: Tensor) -> list[Tensor]:
        """The first encoder layer's input and each layer's output up to `layers`, each (batch, frames, dimension).

        As in SUPERB, the last layer's is taken after the encoder's final layer norm.
        """
        with self._gradients():
            *states, last_BLC = self._states(waveforms_BT)
            return [*states, self._final_norm(last_BLC)]

    def layer_outputs(self, waveforms_BT: Tensor) -> list[Tensor]:
        """Each encoder layer's output up to `layers`, without the final layer norm: fairseq's `layer_results`."""
        with self._gradients():
            return list(self._states(waveforms_BT))[1:]

    def final_norm_parameters(self) -> Iterator[nn.Parameter]:
        """Those of a pre-norm encoder's final layer norm, which `layer_outputs` does without."""
        if self.architecture.layer_norm_first:
            yield from self.model.encoder.transformer.layer_norm.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Those of the encoder layers above `layers`, and of the final layer norm then."""
        if self.layers < self.architecture.layers:
            yield from self.model.encoder.transformer.layers[self.layers :].parameters()
            yield from self.final_norm_parameters()

    def scoring_length(self, samples: int) -> int:
        """How many leading samples the features of an utterance of `samples` samples depend on."""
        return samples if self.normalize_waveforms else self.architecture.used_samples(samples)

    def _gradients(self) -> torch.set_grad_enabled:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen)

    def _states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        waveforms_BT = repeat_short(waveforms_BT, self.architecture.shortest(frames=1))
        if self.normalize_waveforms:
            # Each row by itself: torchaudio's bundles normalise a batch as a whole.
            waveforms_BT = F.layer_norm(
                waveforms_BT, [int(waveforms_BT.shape[-1])]
            )  # int: ONNX wants a constant
        x_BLC = self.model.encoder.feature_projection(self._convolved(waveforms_BT))
        if self.masking is not None:
            x_BLC = self.masking(x_BLC)
        yield from encoder_states(
            self.model.encoder.transformer,
            x_BLC,
            self.architecture.layer_norm_first,
            self.layers,
            self.layer_drop,
            self.gradient_checkpointing,
        )

    def _convolved(self, waveforms_BT: Tensor) -> Tensor:
        """The convolutional stem's output; recomputed in the backward pass where memory is to be saved.

        Its seven layers keep 127 frames for each that the encoder sees: more than all encoder layers do once these are
        recomputed. A few utterances at a time, which its norms allow, only those of a few are ever there.
        """
        if not (self.gradient_checkpointing and torch.is_grad_enabled()):
            return self._stem(waveforms_BT)
        parts = [
            # It draws no random numbers, so there is no state of them to go back to.
            checkpoint(self._stem, part, use_reentrant=False, preserve_rng_state=False)
            for part in waveforms_BT.split(_recomputed_at_a_time(len(waveforms_BT)))
        ]
        return torch.cat(parts)

    def _stem(self, waveforms_BT: Tensor) -> Tensor:
        stem = self.model.feature_extractor
        with weights_cast_together(stem, waveforms_BT.device):
            features_BLC: Tensor = stem(waveforms_BT, None)[0]
        return features_BLC

    def _final_norm(self, x_BLC: Tensor) -> Tensor:
        if not self.architecture.layer_norm_first or self.layers < self.architecture.layers:
            return x_BLC
        normed_BLC: Tensor = self.model.encoder.transformer.layer_norm(x_BLC)
        return normed_BLC


def _recomputed_at_a_time(utterances: int) -> int:
    """A quarter of a minibatch, and four utterances at most.

    Each part costs a GPU the same number of launches: with 14 utterances, one at a time would cost
    half as many again for a whole step. More than four save few launches, and take more memory.
    """
    return min(4, math.ceil(utterances / 4))
