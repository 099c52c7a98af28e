"""The front end of BEATs, a self-supervised encoder for all kinds of sound.

Invariant: a frame is a patch of the authors' network, in their order. The constructor reads no
file.

Source: as in `beats_encoder.py`.

Shapes: B utterances, T samples, P patches, C feature values.
"""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from asdf.extras.zoo.networks.beats_encoder import BEATsEncoder, BEATsSizes
from asdf.extras.zoo.networks.patches import PatchFrontEnd
from asdf.settings.sections import FrontEnd as FrontEndSettings


class BEATsFrontEnd(PatchFrontEnd):
    """BEATs (Chen et al., ICML 2023): patches of 160 ms and an eighth of 128 mel bands."""

    model: BEATsEncoder
    weights_reader = "asdf.extras.zoo.networks.beats_weights"
    sizes_class = BEATsSizes
    sizes: BEATsSizes

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return the encoder with random weights."""
        return BEATsEncoder(self.sizes, settings.dropout)

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the input of the first layer, and each layer's output up to `layers`."""
        x_BPC = self.model.add_positions(self.mask(self.model.patches(waveforms_BT)))
        yield from self.run_biased_layers(x_BPC, self.model.position_bias)

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
