"""A back end: the base class of the project's, and of your own.

Invariant: a back end knows the front end that precedes it by its dimension, layers and hop alone,
so any of them works behind any front end that has what it takes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.views import NetworkSections
from asdf.settings.sections import BackEnd as BackEndSettings

# Names of our back ends that mask padding.
MASKING = ("asp", "linear", "mhfa", "mlp", "wedefense_mhfa")

Takes = Literal["features", "hidden_states", "layer_outputs"]


class BackEnd(nn.Module, ABC):
    """The part of a detector from features to embeddings and logits.

    Attributes:
        takes: 'features' (batch, frames, dimension) of the layers that `front_end.layer` chooses;
            or a list of such tensors, one per layer: 'hidden_states' (with the input of the first
            layer, and the last one after the final norm) or 'layer_outputs' (without either).
        shortest_frames: the fewest frames that it works on.
        fixed_samples: the one length of waveforms that it works on, if it takes no other.
        frame_step: frames of the front end per frame of `with_frames`, for a frame-level head; None
            for one that keeps no time. One that does is a `TimedBackEnd`.
        frame_dimension: values of such a frame.

    One that `back_end.back_end_class` names is built from all sections and the front end that
    precedes it: its constructor takes these two, or it has another `from_settings`.

    Examples:
        >>> import torch
        >>> from asdf.networks import BackEnd, Wav2Vec2FrontEnd
        >>> from asdf.settings import Sections
        >>> class Mean(BackEnd):
        ...     def __init__(self, settings, front_end):
        ...         super().__init__()
        ...         self.output = torch.nn.Linear(front_end.dimension, 2)
        ...
        ...     def forward(self, features_BLC):
        ...         embeddings_BE = features_BLC.mean(dim=1)
        ...         return embeddings_BE, self.output(embeddings_BE)
        >>> settings = Sections()
        >>> settings.front_end.architecture = "tiny"
        >>> front_end = Wav2Vec2FrontEnd(settings.front_end)
        >>> back_end = Mean.from_settings(settings, front_end)
        >>> embeddings_BE, logits_B2 = back_end(front_end(torch.zeros(2, 8000)))
        >>> logits_B2.shape
        torch.Size([2, 2])
    """

    takes: ClassVar[Takes] = "features"
    shortest_frames: ClassVar[int] = 1
    fixed_samples: int | None = None
    frame_step: ClassVar[int | None] = None
    frame_dimension: int = 0

    @classmethod
    def from_settings(cls, settings: NetworkSections, front_end: FrontEnd) -> BackEnd:
        """Build it for `front_end`, whose `dimension` and `layers` are known.

        Raises:
            UsageError: it does not work behind this front end, or with these settings.
        """
        return cls(settings, front_end)

    @classmethod
    def min_layers(cls, sizes: BackEndSettings) -> int:
        """Return its smallest number of layers, which settings show before it is built."""
        return 0

    @abstractmethod
    def forward(self, features: Any) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, anything) and logits (batch, 2), column 1 for bona fide.

        Args:
            features: Features that `takes` names.
        """

    def of_padded(self, features: Any, counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same of features that are padded, as each recording has them alone.

        A back end that masks padding has this method of its own.

        Args:
            counts_BL: True for the frames of recordings, False for padding.

        Raises:
            UsageError: it masks no padding.
        """
        raise masks_no_padding(type(self))

    def with_frames(self, features: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return the same and frames (batch, frames, frame_dimension); see `TimedBackEnd`.

        Raises:
            UsageError: it has no features of frames.
        """
        raise UsageError(
            f"{type(self).__qualname__} has no features of frames. Choose a back end that is a "
            "TimedBackEnd, such as 'asp', or set localisation.enabled = False."
        )


def masks_no_padding(kind: type[BackEnd]) -> UsageError:
    """Return the error of a back end that cannot mask the padding of recordings."""
    return UsageError(
        f"lengths.masks = True: {kind.__qualname__} masks no padding. Choose a back end that does "
        f"({', '.join(MASKING)}), give yours a method of_padded, or set lengths.masks = False: "
        "padding is silence to the network then."
    )


class SizedBackEnd(BackEnd):
    """A back end whose constructor takes the features' dimension, then sizes.

    Attributes:
        size_settings: Names of the settings of `back_end` that it takes, in their order; None: it
            takes the section as a whole.
    """

    size_settings: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def from_settings(cls, settings: NetworkSections, front_end: FrontEnd) -> BackEnd:
        sizes = settings.back_end
        if cls.size_settings is None:
            return cls(front_end.dimension, sizes)
        return cls(front_end.dimension, *(getattr(sizes, name) for name in cls.size_settings))
