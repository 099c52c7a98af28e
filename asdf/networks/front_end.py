"""The self-supervised front end: waveforms in, features of the last encoder layer out.

Invariant: in `eval()` mode an utterance's features depend on that utterance alone, and a frozen front end is always
in that mode. Features are taken after the encoder's final layer norm, where fairseq takes them.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from asdf.networks.architectures import Architecture
from asdf.networks.interface import repeat_short
from asdf.networks.weights import load_layers, read_front_end_weights
from asdf.settings.sections import FrontEnd


class Wav2Vec2FrontEnd(nn.Module):
    """wav2vec 2.0 (Baevski et al., NeurIPS 2020) in any size, from scratch or pretrained.

    Attributes:
        dimension: C, the number of values of a frame.
        architecture: what was built; read from the weights where these tell it.
    """

    def __init__(self, settings: FrontEnd) -> None:
        """Build it and load `settings.weights`, if any.

        Raises:
            UsageError: the architecture is not known.
            AsdfError: the weights cannot be read or fetched, or do not fit layer by layer.
        """
        super().__init__()
        architecture = Architecture.from_text(settings.architecture)
        weights = read_front_end_weights(settings.weights, architecture) if settings.weights else None
        self.architecture = weights.architecture if weights else architecture
        self.dimension = self.architecture.dimension
        self.frozen = settings.frozen
        self.gradient_checkpointing = settings.gradient_checkpointing
        self.normalize_waveforms = settings.normalize_waveforms
        self.model = self.architecture.build(settings.dropout)
        if weights:
            load_layers(self.model, weights.layers, weights.source)
        if self.frozen:
            self.requires_grad_(False)
            self.train(False)

    def train(self, mode: bool = True) -> Wav2Vec2FrontEnd:
        """Training mode, unless the front end is frozen: then it stays without dropout."""
        return super().train(mode and not self.frozen)

    def forward(self, waveforms_BT: Tensor) -> Tensor:
        """Features (batch, frames, dimension) of waveforms (batch, samples) at 16 kHz.

        A frame sees 400 samples, and there is one every 320 samples. Waveforms shorter than one frame are repeated.
        """
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.frozen):
            waveforms_BT = repeat_short(waveforms_BT, self.architecture.shortest(frames=1))
            if self.normalize_waveforms:
                # Each row by itself: torchaudio's bundles normalise a batch as a whole.
                waveforms_BT = F.layer_norm(waveforms_BT, waveforms_BT.shape[-1:])
            features_BLC, _ = self.model.feature_extractor(waveforms_BT, None)
            return self._encode(self.model.encoder.feature_projection(features_BLC))

    def scoring_length(self, samples: int) -> int:
        """How many leading samples the features of an utterance of `samples` samples depend on."""
        return samples if self.normalize_waveforms else self.architecture.used_samples(samples)

    def _encode(self, x_BLC: Tensor) -> Tensor:
        # Written out, since torchaudio's loop draws a random number for each layer in training, also when no layer
        # is to be dropped, and drops the layer when that number is exactly 0.
        transformer = self.model.encoder.transformer
        norm_first = self.architecture.layer_norm_first
        x_BLC = x_BLC + transformer.pos_conv_embed(x_BLC)
        x_BLC = transformer.dropout(x_BLC if norm_first else transformer.layer_norm(x_BLC))
        for layer in transformer.layers:
            if self.gradient_checkpointing and torch.is_grad_enabled():
                x_BLC, _ = checkpoint(layer, x_BLC, use_reentrant=False)
            else:
                x_BLC, _ = layer(x_BLC)
        return transformer.layer_norm(x_BLC) if norm_first else x_BLC
