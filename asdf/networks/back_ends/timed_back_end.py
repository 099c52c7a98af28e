"""Back ends with a time axis, so that each frame of an utterance can be scored.

Invariant: `forward` is `with_frames` without the frames, so an utterance's logits are the same with
and without a frame head.

Shapes: B utterances, F frames, C values of a frame.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from asdf.networks.back_ends.back_end import BackEnd


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
