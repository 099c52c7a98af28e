"""Several networks as one scorer: each hears the same waveforms by its own rules of length.

Invariant: a network gives a waveform the score that it gives by itself, in the same batches where
the recordings of a portion fit into memory; the fused score follows from these alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from asdf.data.scoring_plan import ScoringBatch
from asdf.errors import UsageError
from asdf.metrics.fusion import Fusion
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveform_scorer import Output, WaveformScorer
from asdf.trials.scored_length import ScoredLength

# Of the waveforms of a batch: 64 MiB.
_HELD_SAMPLES = 2**24


class FusedScorer(WaveformScorer):
    """Networks whose scores are fused.

    Attributes:
        length: from the shortest minimum to the longest maximum of the networks.
    """

    def __init__(self, scorers: Sequence[Scorer], fusion: Fusion) -> None:
        """`scorers` are in the order of the fusion, on one device and in one precision."""
        self._scorers = list(scorers)
        self._fusion = fusion
        first = self._scorers[0]
        self.device = first.device
        self.precision = first.precision
        self.engine = first.engine
        self.parameters = sum(scorer.parameters for scorer in scorers)
        shortest = min(scorer.length.min_samples for scorer in scorers)
        self._longest = max(scorer.window_samples for scorer in scorers)
        self.length = ScoredLength(shortest, self._longest)

    @property
    def window_samples(self) -> int:
        """The longest window that every network hears whole."""
        return min(scorer.window_samples for scorer in self._scorers)

    def use_threads(self, threads: int) -> None:
        for scorer in self._scorers:
            scorer.use_threads(threads)

    def plan_batches(self, lengths: np.ndarray) -> list[ScoringBatch]:
        """Cut recordings into batches that fit into memory, in their order.

        Each network cuts a batch into its own ones.
        """
        batches = []
        start = 0
        held = 0
        for index, samples in enumerate(np.minimum(lengths, self._longest).tolist()):
            if index > start and held + samples > _HELD_SAMPLES:
                batches.append(ScoringBatch(np.arange(start, index), self._longest))
                start = index
                held = 0
            held += samples
        if len(lengths):
            batches.append(ScoringBatch(np.arange(start, len(lengths)), self._longest))
        return batches

    def score_batch(
        self,
        waveforms: Sequence[np.ndarray],
        samples: int,
        embedding: bool = False,
        frames: bool = False,
    ) -> Output:
        return self.score_waveforms(waveforms, embedding, frames)

    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], embedding: bool = False, frames: bool = False
    ) -> Output:
        if frames:
            self.require_frames()
        if embedding:
            raise UsageError(
                "a fused system has no embedding of its own: take those of one of its networks."
            )
        columns = [scorer.score_waveforms(waveforms).scores for scorer in self._scorers]
        return Output(self._fusion.fuse(np.stack(columns, axis=1)))

    def require_frames(self) -> int:
        raise UsageError(
            "a fused system scores no frames: score them with one of its networks that does."
        )

    def scored_samples(self, samples: int) -> int:
        return max(scorer.scored_samples(samples) for scorer in self._scorers)

    def batch_size(self, scored_samples: int) -> int:
        return min(scorer.batch_size(scored_samples) for scorer in self._scorers)
