"""The outputs of a network besides its score, as scoring passes them on; without torch.

Invariant: scoring code passes extras on by key and knows none of them. The class of an extra alone
defines how it is computed and how results show it. Every extra is therefore available for lists,
single recordings, windows, streams and fused systems.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

    from asdf.networks.interface import Outputs

EMBEDDING = "embedding"


class Extra(ABC):
    """An output of a network besides the score.

    Attributes:
        key: Name of the extra in results.
        hop: Number of samples per row of an extra that follows the time of a recording; None for
            one row per recording, averaged over the windows of a long one.
        on_request: Whether it is computed only on request.
    """

    key: str
    hop: int | None = None
    on_request: bool = False

    @abstractmethod
    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the rows of a batch, (B, numbers), or (B, F) with a hop, in float32 on the device.

        Raises:
            UsageError: the outputs lack this extra.
        """

    def fit(self, row: np.ndarray, samples: int) -> np.ndarray:
        """Return a row that follows time, (frames,), fitted to the frames of `samples` samples.

        Frames of a repetition are cut off; the last value is repeated if the end of a recording has
        no frame of its own. Other rows are returned unchanged.
        """
        if self.hop is None:
            return row
        missing = -(-samples // self.hop) - len(row)
        if missing <= 0:
            return row[: len(row) + missing]
        return np.concatenate([row, np.repeat(row[-1:], missing)])

    def describe(self, row: np.ndarray, samples: int) -> Any:
        """Return the extra in the form that results show.

        Args:
            row: Numbers of a recording, (numbers,), or (F,) with a hop, already fitted by `fit`.
            samples: Number of samples of the recording.
        """
        return row


class HeadExtra(Extra):
    """The values that a head adds to the outputs, one row per recording, unchanged."""

    def __init__(self, key: str) -> None:
        self.key = key

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the values of the head."""
        return outputs.extras[self.key].float()
