"""Back ends that keep time: behind them each frame of an utterance can be judged by itself.

Invariant: `forward` is `with_frames` without the frames, so that an utterance's logits are the same
numbers with a frame head and without.

Shapes: B utterances, F frames, C values of a frame.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

from torch import Tensor

from asdf.networks.back_ends.back_end import BackEnd


class TimedBackEnd(BackEnd):
    """A back end with features of frames before what it pools over time.

    Attributes:
        frame_step: frames of the front end per frame of its own.
        frame_dimension: values of such a frame.
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

        Frame f stands for the samples from f * frame_step * hop of the front end on. There may be
        one less than fit into the recording.

        Args:
            features: Features that `takes` names.
        """
