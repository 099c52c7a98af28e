"""The front end of BEATs, a self-supervised encoder of sounds of any kind.

Invariant: a frame is a patch of the authors' network, in their order: eight patches, from low to
high frequencies, every 160 ms. The constructor reads no file.

Source: as `beats_encoder.py`.

Shapes: B utterances, T samples, P patches, C feature values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from asdf.errors import UsageError
from asdf.networks.front_ends.beats_encoder import BEATsEncoder, BEATsSizes
from asdf.networks.front_ends.encoder_inputs import HOP, WINDOW
from asdf.networks.front_ends.encoder_layers import choose_dropped
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.settings.sections import FrontEnd as FrontEndSettings


class BEATsFrontEnd(FrontEnd):
    """BEATs (Chen et al., ICML 2023): patches of 160 ms and an eighth of 128 mel bands.

    Attributes:
        sizes: Sizes of the network that was built.
    """

    model: BEATsEncoder
    cacheable: ClassVar[bool] = True

    @classmethod
    def min_layers(cls, settings: FrontEndSettings) -> int:
        """Return the number of its encoder layers."""
        return BEATsSizes.from_text(settings.architecture).layers

    def set_sizes(self, settings: FrontEndSettings) -> None:
        """Read `settings.architecture`.

        Raises:
            UsageError: it is a literal of no sizes, or frames are to have scores of their own.
        """
        self.sizes = BEATsSizes.from_text(settings.architecture)
        if self.sections.localisation.enabled:
            raise UsageError(
                "localisation.enabled = True: the frames of front_end.front_end_class = 'beats' "
                "are patches of time and frequency, which do not follow each other in time. "
                "Choose another front end."
            )
        self.architecture_setting = self.sizes.to_text()
        self.dimension = self.sizes.dimension
        self.encoder_layers = self.sizes.layers
        self.window = WINDOW + (self.sizes.patch - 1) * HOP
        # On average: all patches of one time begin together.
        self.hop = self.step // self.sizes.per_step
        self.layer_drop = settings.layer_drop
        self.gradient_checkpointing = settings.gradient_checkpointing

    @property
    def step(self) -> int:
        """Samples from one column of patches to the next."""
        return self.sizes.patch * HOP

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the encoder with random weights."""
        return BEATsEncoder(self.sizes, settings.dropout)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield what enters the first layer, and each layer's output up to `layers`."""
        x_BPC = self.model.add_positions(self.mask(self.model.patches(waveforms_BT)))
        yield x_BPC
        layers = self.layer_modules()[: self.layers]
        if not layers:
            return
        # Prompts, which a layer puts before its patches, are the positions before them.
        prompts = getattr(layers[0], "prompts", None)
        before = prompts.tokens if prompts is not None else 0
        bias_1HPP = self.model.position_bias(x_BPC.shape[1] + before)
        dropped = choose_dropped(len(layers), self.layer_drop, self.training)
        for layer, is_dropped in zip(layers, dropped, strict=True):
            if self.gradient_checkpointing and torch.is_grad_enabled():
                output_BPC = checkpoint(layer, x_BPC, position_bias=bias_1HPP, use_reentrant=False)
            else:
                output_BPC = layer(x_BPC, position_bias=bias_1HPP)
            # A dropped layer has gradients of zeros, so that no process waits for them.
            x_BPC = x_BPC + 0.0 * output_BPC if is_dropped else output_BPC
            yield x_BPC

    def layer_modules(self) -> list[nn.Module]:
        """Return the encoder's layers."""
        return list(self.model.layers)

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """Yield those of the layers above `layers`, and of biases that no layer computes."""
        yield from self.model.layers[self.layers :].parameters()
        if self.layers == 0:
            yield from self.model.position_biases.parameters()

    def part_modules(self) -> dict[str, list[nn.Module]]:
        """Return what makes patches, what projects them, and what encodes positions."""
        return {
            "convolutions": [self.model.patch_embedding],
            "projection": [self.model.patch_norm, self.model.projection],
            "positions": [self.model.positions, self.model.position_biases],
        }

    def frames(self, samples: int) -> int:
        """Return how many patches `samples` samples give."""
        if samples < self.window:
            return 0
        columns = (samples - self.window) // self.step + 1
        return columns * self.sizes.per_step

    def min_samples(self, frames: int) -> int:
        """Return the fewest samples that give `frames` patches."""
        columns = -(-frames // self.sizes.per_step)
        return self.window + (columns - 1) * self.step
