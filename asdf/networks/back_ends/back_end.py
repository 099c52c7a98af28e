"""The base classes of back ends, the project's and your own.

Invariant: a back end knows of its front end only the dimension, layers and hop, so it works behind
every front end that provides the required features. With a time axis, `forward` is `with_frames`
without the frames, so an utterance's logits are the same with and without a frame head.

Features as maps are for back ends that treat them as images. The output of Whisper's encoder, in
frames of 20 ms, is tiled there to the length of cepstra in frames of 10 ms, as in the code of
Whisper-MesoNet; frames of the two then cover different times.

Source: piotrkawa/deepfake-whisper-features, `src/models/whisper_meso_net.py`, for the maps.

Shapes: B utterances, L or F frames, C values of a frame, M maps, F values, N times.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.ports import load
from asdf.settings.sections import BACK_ENDS, Sections

Takes = Literal["features", "hidden_states", "layer_outputs"]


class BackEnd(nn.Module, ABC):
    """The part of a detector from features to embeddings and logits.

    Attributes:
        short_name: Name of the class in configs, of a back end of the project.
        one_length: Setting of the only length of clips that it takes, if it takes one.
        takes: Kind of input: 'features' (batch, frames, dimension) of the layers that
            `front_end.layer` selects, or a list of such tensors, one per layer: 'hidden_states'
            (including the input of the first layer, and the last layer after the final norm) or
            'layer_outputs' (without either).
        shortest_frames: Minimum number of frames.
        fixed_samples: Fixed length of waveforms that it takes, in samples; None for any length.
        frame_step: Frames of the front end per frame of `with_frames`, for a frame-level head; None
            for a back end without a time axis. Back ends with one derive from `TimedBackEnd`.
        frame_dimension: Number of values of such a frame.

    A class named by `back_end.back_end_class` is built from all sections and its front end: its
    constructor takes these two, or it overrides `from_settings`.

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

    short_name: ClassVar[str] = ""
    one_length: ClassVar[str | None] = None
    takes: ClassVar[Takes] = "features"
    shortest_frames: ClassVar[int] = 1
    fixed_samples: int | None = None
    frame_step: ClassVar[int | None] = None
    frame_dimension: int = 0

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        """Build the back end for `front_end`, whose `dimension` and `layers` are known.

        Raises:
            UsageError: it does not work with this front end or these settings.
        """
        return cls(settings, front_end)

    @abstractmethod
    def forward(self, features: Any) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, anything) and logits (batch, 2), column 1 for bona fide.

        Args:
            features: Features of the kind in `takes`.
        """

    def of_padded(self, features: Any, counts_BL: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for padded features, equal to those of each recording alone.

        Back ends that mask padding override this method.

        Args:
            counts_BL: Mask that is True for frames of recordings and False for padding.

        Raises:
            UsageError: the back end does not mask padding.
        """
        raise masks_no_padding(type(self))

    def with_frames(self, features: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Also return frames (batch, frames, frame_dimension); see `TimedBackEnd`.

        Raises:
            UsageError: the back end has no features of frames.
        """
        raise UsageError(
            f"{type(self).__qualname__} has no frame-level features. Choose a back end that is a "
            "TimedBackEnd, such as 'asp', or set localisation.enabled = False."
        )


def masks_no_padding(kind: type[BackEnd]) -> UsageError:
    """Return the error for a back end that cannot mask the padding of recordings."""
    masking = [
        name for name, path in BACK_ENDS.items() if load(path).of_padded is not BackEnd.of_padded
    ]
    return UsageError(
        f"lengths.masks = True: {kind.__qualname__} does not mask padding. Choose a back end that "
        f"does ({', '.join(masking)}), implement of_padded in yours, or set lengths.masks = False: "
        "the network then processes padding as silence."
    )


class SizedBackEnd(BackEnd):
    """A back end whose constructor takes the features' dimension, then sizes.

    Attributes:
        size_settings: Names of settings in `back_end` to pass, in order; None to pass the whole
            section.
    """

    size_settings: ClassVar[tuple[str, ...] | None] = None

    @classmethod
    def from_settings(cls, settings: Sections, front_end: FrontEnd) -> BackEnd:
        sizes = settings.back_end
        if cls.size_settings is None:
            return cls(front_end.dimension, sizes)
        return cls(front_end.dimension, *(getattr(sizes, name) for name in cls.size_settings))


class TimedBackEnd(BackEnd):
    """A back end that has features of frames before it pools them over time.

    Attributes:
        frame_step: Frames of the front end per frame of the back end.
        frame_dimension: Number of values of a frame of the back end.

    Examples:
        >>> import torch
        >>> from asdf.networks import TimedBackEnd
        >>> class Smoothed(TimedBackEnd):
        ...     frame_dimension = 32
        ...
        ...     def __init__(self, dimension):
        ...         super().__init__()
        ...         self.smooth = torch.nn.Conv1d(dimension, 32, kernel_size=5, padding=2)
        ...         self.output = torch.nn.Linear(32, 2)
        ...
        ...     def with_frames(self, features_BLC):
        ...         frames_BCL = torch.relu(self.smooth(features_BLC.transpose(1, 2)))
        ...         frames_BLC = frames_BCL.transpose(1, 2)
        ...         embeddings_BE = frames_BLC.mean(dim=1)
        ...         return embeddings_BE, self.output(embeddings_BE), frames_BLC
        >>> embeddings_BE, logits_B2, frames_BLC = Smoothed(8).with_frames(torch.zeros(1, 50, 8))
        >>> frames_BLC.shape
        torch.Size([1, 50, 32])
    """

    frame_step: ClassVar[int] = 1
    frame_dimension: int

    def forward(self, features: Any) -> tuple[Tensor, Tensor]:
        """Return embeddings (batch, anything) and logits (batch, 2)."""
        embeddings_BE, logits_B2, _ = self.with_frames(features)
        return embeddings_BE, logits_B2

    @abstractmethod
    def with_frames(self, features: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return embeddings, logits and the frames, (batch, frames, frame_dimension).

        Frame f covers the samples from f * frame_step * hop (of the front end) on. There may be one
        frame fewer than fit into the recording.

        Args:
            features: Features of the kind in `takes`.
        """


_SLOW_HOP = 320
"""Number of samples between frames from which a map is repeated."""


class FrameMaps:
    """A converter from features of a front end to maps.

    Attributes:
        maps: Number of maps: 1, or 2 for an encoder with cepstra.
        values: Number of values of a map.
        frames: Number of frames in a map per frame of the front end.
    """

    def __init__(self, front_end: FrontEnd, fewest: int) -> None:
        """Read the sizes of the front end.

        Args:
            fewest: Minimum number of values of a map that the network needs.

        Raises:
            UsageError: there are fewer values.
        """
        beside = getattr(front_end, "cepstral_values", 0)
        self.maps = 2 if beside else 1
        self.frames = 2 if front_end.hop >= _SLOW_HOP else 1
        self.values = front_end.dimension - self.frames * beside
        if self.values < fewest:
            raise UsageError(
                f"the back end needs maps of at least {fewest} values, but the front end gives "
                f"{self.values} per frame. Choose a front end with more values."
            )

    def __call__(self, features_BLC: Tensor) -> Tensor:
        """Return (batch, maps, values, times)."""
        first_BLF = features_BLC[:, :, : self.values]
        first_BFN = torch.cat([first_BLF] * self.frames, dim=1).transpose(1, 2)
        if self.maps == 1:
            return first_BFN.unsqueeze(1)
        beside_BLC = features_BLC[:, :, self.values :]
        batch, frames, _ = beside_BLC.shape
        beside_BNF = beside_BLC.reshape(batch, self.frames * frames, -1)
        return torch.stack([first_BFN, beside_BNF.transpose(1, 2)], dim=1)
