"""What a network gives for a recording besides its score: an embedding, scores of frames, classes.

Invariant: whoever scores carries extras by their keys and knows none of them. What an extra is made
of, and what results have of it, is in its class alone. So whatever a network gives reaches lists,
single recordings, windows, streams, the service and fused systems alike.

Shapes: B utterances of a batch, F frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.interface import Outputs

EMBEDDING = "embedding"


class Extra(ABC):
    """What a network gives besides the score.

    Attributes:
        key: Name of the extra in results.
        hop: Samples per row, of an extra that follows the time of a recording; None: it is one row
            per recording. Over the windows of a long recording, the latter are averaged.
        on_request: Whether it is computed only where it is requested.
        of_lowest: Whether windows of a long recording have the row of the one with the lowest
            score, instead of the mean of their rows.
    """

    key: str
    hop: int | None = None
    on_request: bool = False
    of_lowest: bool = False

    def requested(self, network: nn.Module) -> AbstractContextManager[None]:
        """Return the block in which `network` computes what the extra on request is made of."""
        return nullcontext()

    @abstractmethod
    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the rows of a batch, (B, numbers), or (B, F) with a hop: float32, on the device.

        Raises:
            UsageError: the outputs lack it.
        """

    def fit(self, row: np.ndarray, samples: int) -> np.ndarray:
        """Return a row that follows time, (frames,), for the frames of `samples` samples.

        The frames of a repetition are left out; the last value is repeated for the end of a
        recording that gives no frame of its own. Other rows come back as they are.
        """
        if self.hop is None:
            return row
        missing = -(-samples // self.hop) - len(row)
        if missing <= 0:
            return row[: len(row) + missing]
        return np.concatenate([row, np.repeat(row[-1:], missing)])

    def describe(self, row: np.ndarray, samples: int) -> Any:
        """Return what results have of it.

        Args:
            row: Numbers of a recording, (numbers,), or (F,) with a hop, which `fit` has fitted.
            samples: Samples of the recording.
        """
        return row


class HeadExtra(Extra):
    """What a head has put into the outputs, one row per recording, as it is."""

    def __init__(self, key: str) -> None:
        self.key = key

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the values of the head."""
        return outputs.extras[self.key].float()


class Embedding(Extra):
    """The embedding that a network returns first."""

    key = EMBEDDING
    on_request = True

    def __init__(self, network: str) -> None:
        """Name the class of the network in messages."""
        self._network = network

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the embeddings.

        Raises:
            UsageError: they are no tensor with a row per utterance.
        """
        embeddings = outputs.embeddings
        if not isinstance(embeddings, Tensor) or len(embeddings) != len(outputs.logits_B2):
            raise UsageError(f"{self._network} returns no embeddings: request scores alone.")
        return embeddings.float()
