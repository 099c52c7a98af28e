"""The frame-level head: logits for each frame of an utterance, besides those of the utterance.

Invariant: frame f covers the samples from f * `hop` to (f + 1) * `hop`, for every back end before
the head. A back end without frames is refused when the network is built.

Shapes: B utterances, F frames, C values of a frame, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.autocast import in_full_precision
from asdf.networks.back_ends.back_end import BackEnd
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.settings.relations import THAT_KEEP_TIME
from asdf.settings.sections import Localisation


class FrameHead(nn.Module):
    """A linear layer on the frames of a back end, or on means of `pooled` consecutive frames.

    Attributes:
        hop: Number of samples from the start of a frame to the start of the next.
    """

    def __init__(self, dimension: int, hop: int, pooled: int = 1) -> None:
        super().__init__()
        self.hop = hop
        self._pooled = pooled
        self.output = nn.Linear(dimension, 2)

    def forward(self, frames_BFC: Tensor) -> Tensor:
        """Return logits (batch, frames, 2), column 1 for bona fide."""
        if self._pooled > 1:
            # The last mean may be of fewer frames, so that all of them are used.
            pooled_BCF = F.avg_pool1d(
                frames_BFC.transpose(1, 2), self._pooled, self._pooled, ceil_mode=True
            )
            frames_BFC = pooled_BCF.transpose(1, 2)
        return in_full_precision(self.output, frames_BFC)


def make_frame_head(
    settings: Localisation,
    front_end: FrontEnd,
    back_end: BackEnd,
) -> FrameHead | None:
    """Return the head for `back_end`; None if the settings request none.

    Raises:
        UsageError: the back end has no time axis, or `localisation.resolution` is not a multiple of
            the samples per frame.
    """
    if not settings.enabled:
        return None
    if back_end.frame_step is None:
        raise UsageError(
            f"localisation.enabled = True: {type(back_end).__name__} has no frames to classify. "
            f"Choose a back end that has: {THAT_KEEP_TIME}; or derive your own from "
            "asdf.networks.TimedBackEnd."
        )
    samples = front_end.hop * back_end.frame_step
    hop = settings.resolution or samples
    if hop % samples:
        lower = hop - hop % samples
        nearest = [str(size) for size in (lower, lower + samples) if size]
        raise UsageError(
            f"localisation.resolution = {hop}: frames of {type(back_end).__name__} behind this "
            f"front end are {samples} samples long, and the resolution must be a multiple of that. "
            f"The nearest: {' and '.join(nearest)}."
        )
    return FrameHead(back_end.frame_dimension, hop, hop // samples)
