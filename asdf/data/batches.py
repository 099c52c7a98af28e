"""What goes into a loader and what comes out of it: clips, and batches of them.

Invariant: what cannot be read comes back as a clip and a batch with its error. Raised in a worker,
the error would reach the user wrapped in two tracebacks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_collate

from asdf.audio.rawboost import Draws
from asdf.audio.rawboost_batch import Unboosted, prepare
from asdf.errors import AsdfError
from asdf.settings.sections import RawBoost


@dataclass(frozen=True)
class Clip:
    """What is read for one key of a dataset.

    Attributes:
        samples: (T,) float32, or features; None where they cannot be read.
        rawboost: settings of RawBoost, where it reaches the clip with its batch; else None.
        draws: RawBoost's, for the batch; None: the clip stays as it is.
        error: why the clip cannot be read.
    """

    samples: np.ndarray | None = None
    rawboost: RawBoost | None = None
    draws: Draws | None = None
    error: AsdfError | None = None


@dataclass(frozen=True)
class Batch:
    """Clips of equal shape, on one device. A DataLoader pins it as it pins tensors.

    Attributes:
        samples: (batch, ...) float32 waveforms, or features; None in the two cases below.
        unboosted: the waveforms, where RawBoost is still to be computed on the device.
        error: why the first of the clips that cannot be read cannot be.
        decoded_by_ffmpeg: paths of recordings that libsndfile could not decode. A worker has no
            other way to let the main process know.
    """

    samples: Tensor | None = None
    unboosted: Unboosted | None = None
    error: AsdfError | None = None
    decoded_by_ffmpeg: frozenset[str] = frozenset()

    def boosted(self) -> Tensor:
        """Return the clips as the network gets them, after RawBoost: (batch, ...)."""
        if self.unboosted is not None:
            return self.unboosted.boosted()
        assert self.samples is not None  # a batch with an error is handed to nobody
        return self.samples

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory."""
        if self.unboosted is not None:
            return replace(self, unboosted=self.unboosted.pin_memory())
        if self.samples is not None:
            return replace(self, samples=self.samples.pin_memory())
        return self

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """Return the batch on `device`."""
        if self.unboosted is not None:
            return replace(self, unboosted=self.unboosted.to(device, non_blocking=non_blocking))
        if self.samples is not None:
            return replace(self, samples=self.samples.to(device, non_blocking=non_blocking))
        return self

    def record_stream(self, stream: torch.Stream) -> None:
        """Do what `Tensor.record_stream` does, for each tensor."""
        if self.unboosted is not None:
            self.unboosted.record_stream(stream)
        elif self.samples is not None:
            self.samples.record_stream(stream)


def collate(clips: Sequence[Clip]) -> Batch:
    """Make a batch of clips of equal shape, or of the first error among them."""
    arrays = []
    for clip in clips:
        if clip.error is not None:
            return Batch(error=clip.error)
        assert clip.samples is not None
        arrays.append(torch.from_numpy(clip.samples))
    # A worker makes the tensor in shared memory, so that it need not be copied there.
    samples: Tensor = default_collate(arrays)
    rawboost = clips[0].rawboost
    if rawboost is None:
        return Batch(samples)
    return Batch(unboosted=prepare(samples, [clip.draws for clip in clips], rawboost))
