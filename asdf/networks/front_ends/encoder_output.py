"""The outputs of encoders that change the number of frames after their layers, such as SEW.

Invariant: the last state is the output of transformers' encoder; earlier states are the layers'.

Shapes: B utterances, T samples, L frames, C feature values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from torch import Tensor, nn

from asdf.networks.front_ends.encoder_outline import first_tensor, run_encoder
from asdf.networks.front_ends.transformers_front_end import TransformersFrontEnd
from asdf.settings.sections import FrontEnd as FrontEndSettings


class EncoderOutputFrontEnd(TransformersFrontEnd):
    """An encoder of transformers with all modules after its layers, such as SEW's upsampling.

    The frames of its features are those of the encoder's input; `frames` and frame-level heads
    count the frames of its layers.
    """

    cacheable: ClassVar[bool] = True

    def make_model(self, settings: FrontEndSettings) -> nn.Module:
        """Return transformers' encoder with random weights, all of which are trained."""
        model = super().make_model(settings)
        # Parameters after the layers, which the gradient of their last output does not reach.
        self.without_gradient = {
            name for name in self.without_gradient if ".upsample." not in f".{name}"
        }
        return model

    def states(self, waveforms_BT: Tensor) -> Iterator[Tensor]:
        """Yield the first layer's input, all outputs but the last, and the encoder's output."""
        with self.watched() as watch:
            output = run_encoder(self.model, self.inputs, waveforms_BT)
        yield from watch.states[: self.layers]
        yield first_tensor(output)

    def final_norm(self, x_BLC: Tensor) -> Tensor:
        """Return the encoder's output unchanged."""
        return x_BLC
