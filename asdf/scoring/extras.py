"""What a network gives for a recording besides its score: an embedding, scores of frames, classes.

Invariant: whoever scores carries extras by their keys and knows none of them. What an extra is made
of, and what results have of it, is in its class alone. So whatever a network gives reaches lists,
single recordings, windows, streams, the service and fused systems alike.

Shapes: B utterances of a batch, F frames.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks import frame_hop
from asdf.networks.class_heads import source_classes_of
from asdf.networks.outputs import Outputs
from asdf.scoring.frame_scores import FrameScores
from asdf.scoring.traced import name_sources
from asdf.trials.sources import SourceClasses

EMBEDDING, FRAMES, SOURCES = "embedding", "frames", "sources"
# Why a network may lack an extra that was requested.
_ADVICE = {
    FRAMES: "scores no frames: train a network with localisation.enabled = True for that. Windows, "
    "which are coarser, are scored by any network: `score --window`, `Detector.score_over_time`.",
}


class Extra(ABC):
    """What a network gives besides the score.

    Attributes:
        key: Name of the extra in results.
        hop: Samples per row, of an extra that follows the time of a recording; None: it is one row
            per recording. Over the windows of a long recording, the latter are averaged.
        on_request: Whether it is computed only where it is requested.
    """

    key: str
    hop: int | None = None
    on_request: bool = False

    @abstractmethod
    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the rows of a batch, (B, numbers), or (B, F) with a hop: float32, on the device.

        Raises:
            UsageError: the outputs lack it.
        """

    def describe(self, row: np.ndarray, samples: int) -> Any:
        """Return what results have of it.

        Args:
            row: (numbers,), or (F,) with a hop.
            samples: Samples of the recording, of which the row is.
        """
        return row


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


class Frames(Extra):
    """Scores of frames: the bona fide minus the spoof logit, by a frame-level head."""

    key = FRAMES
    on_request = True

    def __init__(self, hop: int) -> None:
        self.hop: int = hop

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the scores."""
        logits_BF2 = outputs.extras[FRAMES].float()
        return logits_BF2[:, :, 1] - logits_BF2[:, :, 0]

    def describe(self, row: np.ndarray, samples: int) -> FrameScores:
        """Return them with their times."""
        return FrameScores.of_samples(row, samples, self.hop)


class Traced(Extra):
    """Logits of classes of sources."""

    key = SOURCES

    def __init__(self, classes: SourceClasses) -> None:
        self.classes = classes

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the logits."""
        return outputs.extras[SOURCES].float()

    def describe(self, row: np.ndarray, samples: int) -> Any:
        """Return the probabilities of the classes."""
        return name_sources(self.classes.column, self.classes.names, row)


def extras_of(network: nn.Module) -> dict[str, Extra]:
    """Return what `network` gives besides its score, by key."""
    extras: dict[str, Extra] = {EMBEDDING: Embedding(type(network).__name__)}
    hop = frame_hop(network)
    if hop is not None:
        extras[FRAMES] = Frames(hop)
    classes = source_classes_of(network)
    if classes is not None:
        extras[SOURCES] = Traced(classes)
    return extras


def require_extras(
    extras: Mapping[str, Extra],
    wanted: Collection[str],
    what: str,
    advice: Mapping[str, str] = _ADVICE,
) -> None:
    """Refuse to score by what does not give all that is wanted.

    Args:
        what: Name of the network, for the message.
        advice: Rest of the message, by the key that is missing.

    Raises:
        UsageError: names the extra that is missing.
    """
    for key in wanted:
        if key not in extras:
            raise UsageError(f"{what} {advice.get(key, f'gives no {key}: request scores alone.')}")
