"""What scores waveforms at 16 kHz: a network, or several that are fused.

Invariant: whoever reads recordings needs to know no more than this of what scores them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from asdf.data.scoring_plan import ScoringBatch
from asdf.scoring.precision import ScoringPrecision
from asdf.trials.scored_length import ScoredLength
from asdf.trials.sources import SourceClasses


class Output(NamedTuple):
    """What a network gives for waveforms, on the host.

    Attributes:
        scores: (waveforms,) float32; of networks that are fused float64.
        embeddings: (waveforms, dimension) float32; None where they were not requested.
        frames: scores of the frames of each waveform, (frames,) float32; None where they were not
            requested. Of `WaveformScorer.score_batch` they are those of its rows as they are, of
            `score_waveforms` those of each waveform by itself.
        sources: (waveforms, classes) float32, logits of classes; None where none are traced.
    """

    scores: np.ndarray
    embeddings: np.ndarray | None = None
    frames: Sequence[np.ndarray] | None = None
    sources: np.ndarray | None = None

    def embedding(self, index: int) -> np.ndarray | None:
        """Return the embedding of a waveform, if they were requested."""
        return None if self.embeddings is None else self.embeddings[index]

    def source(self, index: int) -> np.ndarray | None:
        """Return the logits of the classes of sources of a waveform, if any."""
        return None if self.sources is None else self.sources[index]


class WaveformScorer(ABC):
    """Scores waveforms, in batches that it plans itself.

    Attributes:
        device: Device that the networks run on.
        precision: Precision that scores are computed in, and why.
        engine: Way in which networks are computed: 'packed' or 'plain'.
        length: Part of a recording that counts; shorter ones are repeated, longer ones cut.
        parameters: Number of parameters of all networks.
        source_classes: Classes that are traced; None: no sources are.
    """

    device: torch.device
    precision: ScoringPrecision
    engine: str
    length: ScoredLength
    parameters: int
    source_classes: SourceClasses | None = None

    @property
    def window_samples(self) -> int:
        """The longest window that is heard whole."""
        assert self.length.max_samples is not None  # settings always have a limit
        return self.length.max_samples

    @abstractmethod
    def use_threads(self, threads: int) -> None:
        """Compute with this number of threads on a CPU."""

    @abstractmethod
    def plan_batches(self, lengths: np.ndarray) -> list[ScoringBatch]:
        """Cut recordings of `lengths` (samples, after speech activity detection) into batches.

        `samples` of a batch is how many samples of each recording are needed at most.
        """

    @abstractmethod
    def score_batch(
        self,
        waveforms: Sequence[np.ndarray],
        samples: int,
        embedding: bool = False,
        frames: bool = False,
    ) -> Output:
        """Score the recordings of a planned batch, each cut to its `samples`.

        Raises: as `score_waveforms`.
        """

    @abstractmethod
    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], embedding: bool = False, frames: bool = False
    ) -> Output:
        """Score waveforms of any lengths, none of them empty.

        Args:
            embedding, frames: return the network's embeddings, or the scores of frames, too.

        Raises:
            AsdfError: a batch does not fit into the device's memory.
            UsageError: there are no embeddings, or no scores of frames.
        """

    @abstractmethod
    def require_frames(self) -> int:
        """Return the samples per frame of the frame-level head.

        Raises:
            UsageError: there is none.
        """

    @abstractmethod
    def scored_samples(self, samples: int) -> int:
        """Return how many samples a recording of `samples` is scored from; a batch has one such."""

    @abstractmethod
    def batch_size(self, scored_samples: int) -> int:
        """Return how many recordings that are scored from so many samples fill a batch."""
