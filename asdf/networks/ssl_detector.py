"""What all networks with a self-supervised front end share: the front end, then a back end, whichever it is.

Invariant: a back end gets what its paper feeds it, and it alone decides what that is (`takes`). Parameter names are
`front_end.*` and `back_end.*`, the latter as in published checkpoints where there are any.

Shapes: B utterances, T samples, L frames, C feature values, E embedding values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.front_end import Wav2Vec2FrontEnd
from asdf.networks.interface import DetectorNetwork, cut_or_repeat, repeat_short
from asdf.settings.sections import Sections

Takes = Literal["features", "hidden_states", "layer_outputs"]


class BackEnd(nn.Module, ABC):
    """From features to embeddings and logits.

    Attributes:
        takes: 'features' (batch, frames, dimension) of the layers that `front_end.layer` chooses; or a list of such
            tensors, one a layer: 'hidden_states' (with the input of the first layer, and the last one after the
            final norm) or 'layer_outputs' (without either).
        shortest_frames: the fewest frames that it works on.
    """

    takes: ClassVar[Takes] = "features"
    shortest_frames: ClassVar[int] = 1

    @abstractmethod
    def forward(self, features: Any) -> tuple[Tensor, Tensor]:
        """Embeddings (batch, anything) and logits (batch, 2), column 1 for bona fide, of what `takes` says."""


class SSLDetector(DetectorNetwork):
    """A self-supervised front end and the back end that a derived class makes.

        class MyNetwork(SSLDetector):
            def make_back_end(self, settings):
                return MyBackEnd(self.front_end.dimension)

    Attributes:
        paper: where the network, or its back end, was published.
    """

    paper: ClassVar[str] = ""

    def __init__(self, settings: Sections) -> None:
        super().__init__(settings)
        self.front_end = Wav2Vec2FrontEnd(settings.front_end)
        self.back_end = self.make_back_end(settings)
        if self.back_end.takes != "features" and settings.front_end.layer == "weighted":
            raise UsageError(
                f"front_end.layer = 'weighted': {type(self).__name__} weighs the layers by itself. "
                "Leave front_end.layer at 'last', or give the highest layer that it shall get."
            )
        self.shortest_input = self.front_end.architecture.shortest(self.back_end.shortest_frames)

    @abstractmethod
    def make_back_end(self, settings: Sections) -> BackEnd:
        """The back end for `self.front_end`, which is there already; it may set `self.fixed_samples`."""

    def forward(self, waveforms_BT: Tensor) -> tuple[Tensor, Tensor]:
        """Embeddings and logits (batch, 2) of waveforms (batch, samples).

        Waveforms shorter than `shortest_input` are repeated up to it; with `fixed_samples` all are cut or repeated.
        """
        return self.forward_features(self.front_end_features(waveforms_BT))

    def front_end_features(self, waveforms_BT: Tensor) -> Tensor | list[Tensor]:
        """What `forward` computes of waveforms (batch, samples) before anything that learns with a frozen front end.

        Returns:
            (batch, frames, dimension); or a list of such tensors, one a layer, if layers are weighed after it.
        """
        if self.fixed_samples is not None:
            waveforms_BT = cut_or_repeat(waveforms_BT, self.fixed_samples)
        waveforms_BT = repeat_short(waveforms_BT, self.shortest_input)
        if self.given == "hidden_states":
            return self.front_end.hidden_states(waveforms_BT)
        if self.given == "layer_outputs":
            return self.front_end.layer_outputs(waveforms_BT)
        features_BLC: Tensor = self.front_end(waveforms_BT)
        return features_BLC

    def forward_features(self, features: Any) -> tuple[Tensor, Tensor]:
        """Embeddings and logits (batch, 2) of what `front_end_features` returns: the rest of `forward`."""
        layer_sum = self.front_end.layer_sum
        outputs: tuple[Tensor, Tensor] = self.back_end(
            features if layer_sum is None else layer_sum(features)
        )
        return outputs

    @property
    def given(self) -> Takes:
        """What `front_end_features` returns."""
        # A learned sum of layers learns also behind a frozen front end.
        return self.back_end.takes if self.front_end.layer_sum is None else "hidden_states"

    def scoring_length(self, samples: int) -> int:
        """Samples up to the end of the front end's last whole window; at most `fixed_samples`."""
        if self.fixed_samples is not None:
            return min(samples, self.fixed_samples)
        # Frames that the back end's pooling leaves out still count: every frame attends to them.
        return samples if samples < self.shortest_input else self.front_end.scoring_length(samples)

    def front_end_parameters(self) -> Iterator[nn.Parameter]:
        """All of the front end's."""
        return self.front_end.parameters()

    def unused_parameters(self) -> Iterator[nn.Parameter]:
        """The encoder's final layer norm, where the back end takes the layers' bare outputs."""
        if self.back_end.takes == "layer_outputs":
            yield from self.front_end.final_norm_parameters()
