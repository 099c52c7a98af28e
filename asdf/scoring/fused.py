"""Several networks as one scorer: each hears the same waveforms by its own rules of length.

Invariant: a network scores a waveform as it does by itself, in the same batches if the recordings
of a portion fit into memory. The fused score follows from these scores alone.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.scoring_plan import ScoringBatch
from asdf.errors import UsageError
from asdf.metrics.fusion import Fusion
from asdf.networks.extras import Extra
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveform_scorer import WaveformScorer
from asdf.scoring.whole_recording import Outcomes
from asdf.trials.how_scored import ScoredLength

# Maximum number of samples in a batch: 64 MiB.
_HELD_SAMPLES = 2**24


class FusedScorer(WaveformScorer):
    """Networks whose scores are fused.

    Attributes:
        length: Range from the shortest minimum to the longest maximum of the networks.
        extras: Extras of the system: those that exactly one of the networks gives.
    """

    name = "a fused system"
    absent: ClassVar[Mapping[str, str]] = {
        "embedding": "has no embedding of its own: use those of one of its networks.",
        "frames": "scores no frames unless exactly one of its networks does: use one of those "
        "networks by itself.",
    }

    def __init__(self, scorers: Sequence[Scorer], fusion: Fusion) -> None:
        """`scorers` are in the order of the fusion, of one device, precision and audio.

        Raises:
            UsageError: a network takes references.
        """
        taking = [scorer.name for scorer in scorers if scorer.takes_references]
        if taking:
            raise UsageError(
                f"{taking[0]} takes references, which a fused system does not support: fuse score "
                "files instead, with `python -m asdf fuse`."
            )
        self._scorers = list(scorers)
        self._fusion = fusion
        first = self._scorers[0]
        self.device_type = first.device_type
        self.precision = first.precision
        self.engine = first.engine
        self.parameters = sum(scorer.parameters for scorer in scorers)
        shortest = min(scorer.length.min_samples for scorer in scorers)
        self._longest = max(scorer.window_samples for scorer in scorers)
        self.audio = first.audio
        self.channels = first.channels
        self.length = ScoredLength(shortest, self._longest, first.audio.sample_rate)
        given_by: dict[str, list[int]] = {}
        for index, scorer in enumerate(scorers):
            for key in scorer.extras:
                given_by.setdefault(key, []).append(index)
        self._giver = {key: indices[0] for key, indices in given_by.items() if len(indices) == 1}
        self.extras: dict[str, Extra] = {}
        for key, index in self._giver.items():
            self.extras[key] = scorers[index].extras[key]

    @property
    def device(self) -> torch.device:
        return self._scorers[0].device

    @property
    def window_samples(self) -> int:
        """The longest window that every network hears whole."""
        return min(scorer.window_samples for scorer in self._scorers)

    @property
    def networks(self) -> Sequence[nn.Module]:
        return [network for scorer in self._scorers for network in scorer.networks]

    def score_with_gradients(self, waveforms_BT: Tensor) -> Tensor:
        if self._fusion.ranks:
            raise UsageError(
                "a fusion by ranks gives no gradients: examine its networks, or its scores alone."
            )
        fused_B = torch.full_like(waveforms_BT[:, 0], self._fusion.offset)
        for scorer, weight in zip(self._scorers, self._fusion.weights, strict=True):
            fused_B = fused_B + weight * scorer.score_with_gradients(waveforms_BT)
        return fused_B

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
            # A batch holds one recording at least, however long.
            if index > start and held + samples > _HELD_SAMPLES:
                batches.append(ScoringBatch(np.arange(start, index), self._longest))
                start = index
                held = 0
            held += samples
        if len(lengths):
            batches.append(ScoringBatch(np.arange(start, len(lengths)), self._longest))
        return batches

    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], wanted: Collection[str] = ()
    ) -> Outcomes:
        for key in wanted:
            self.require(key)
        columns = []
        extras: dict[str, Sequence[np.ndarray]] = {}
        for index, scorer in enumerate(self._scorers):
            keys = [key for key in wanted if self._giver.get(key) == index]
            outcomes = scorer.score_waveforms(waveforms, keys)
            columns.append(outcomes.scores)
            # A network also gives extras that need no request, even if another one gives them too.
            for key, rows in outcomes.extras.items():
                if self._giver.get(key) == index:
                    extras[key] = rows
        return Outcomes(self._fusion.fuse(np.stack(columns, axis=1)), extras)  # (pieces, networks)

    def scored_samples(self, samples: int) -> int:
        return max(scorer.scored_samples(samples) for scorer in self._scorers)

    def batch_size(self, scored_samples: int) -> int:
        return min(scorer.batch_size(scored_samples) for scorer in self._scorers)
