"""What a scorer of waveforms is, what it gives over time, and several networks as one scorer.

Invariant: code that reads recordings knows of a scorer only what `WaveformScorer` states: numpy in,
numpy out. Nothing here imports torch.

Extras over time: every sample of a recording is in exactly one frame, and each frame is computed
with its context. A recording longer than a trial is heard in overlapping windows; each frame comes
from the window whose ends are further away. The windows depend only on the recording's length, so
the values are the same in a list and alone, to the last bit, on any number of processes.

Fused networks: each hears the same waveforms by its own rules of length, and scores them as it does
by itself, in the same batches if the recordings of a portion fit into memory. The fused score
follows from these scores alone.

Shapes: F frames, T samples.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from asdf.audio.speech import needs_whole_recording
from asdf.data.scoring_plan import ScoringBatch, ScoringPlan
from asdf.errors import UsageError
from asdf.metrics.fusion import Fusion
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity
from asdf.trials.how_scored import ScoredLength

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from asdf.networks.extras import Extra


NO_FRAMES = {
    "frames": "scores no frames: train a network with localisation.enabled = True for that. "
    "Windows, which are coarser, are scored by any network: `score --window`, "
    "`Detector.score_over_time`."
}
"""What a single network without frames answers to a request for them."""


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The outputs of a network for several pieces, in their order.

    Attributes:
        scores: Scores of the pieces, (pieces,) float32; float64 for fused networks.
        extras: Rows of each piece, by key.
    """

    scores: np.ndarray
    extras: Mapping[str, Sequence[np.ndarray]] = field(default_factory=dict)


class WaveformScorer(ABC):
    """Scores waveforms, in batches that it plans itself.

    Attributes:
        device_type: Kind of the device that the networks run on: 'cpu', 'cuda'.
        precision: Precision of the scores: 'fp32', 'tf32' or 'bf16'.
        engine: Engine of the networks: 'graph', 'packed' or 'plain'.
        length: Length of a recording that counts; shorter recordings are repeated, longer ones cut.
        trial_samples: Samples of a recording that are heard as a trial.
        window_samples: Samples of the longest window that is heard whole, by every network.
        plan: Division of recordings into batches, for a single network.
        audio: Rate and channels that the networks hear; lengths count at this rate.
        channels: Number of channels that the networks take; None: they take (batch, samples).
        parameters: Number of parameters of all networks.
        extras: Further outputs besides scores, by key.
        name: Name of the scorer in messages.
        absent: End of the message about an extra that is not available, by key.
        takes_references: Whether it takes a reference beside each recording.
    """

    device_type: str
    precision: str
    engine: str
    length: ScoredLength
    trial_samples: int
    window_samples: int
    plan: ScoringPlan
    audio: Audio = USUAL_AUDIO
    channels: int | None = None
    parameters: int
    extras: Mapping[str, Extra]
    name: str
    takes_references: bool = False
    absent: ClassVar[Mapping[str, str]] = NO_FRAMES

    def with_reference(self, waveform: np.ndarray) -> WaveformScorer:
        """Return a scorer of the same networks that hears a reference (T,) beside each waveform.

        Without a reference, a network that takes one hears zeros; others ignore it.
        """
        return self

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device that the networks run on."""

    def as_heard(self, mono: np.ndarray) -> np.ndarray:
        """Return a waveform (T,) as the networks hear it, repeated for several channels."""
        return mono if self.channels is None else np.stack([mono] * self.channels, axis=1)

    @property
    @abstractmethod
    def networks(self) -> Sequence[nn.Module]:
        """The networks, in the order of their fusion."""

    @abstractmethod
    def score_with_gradients(self, waveforms_BT: Tensor) -> Tensor:
        """Score waveforms of equal length so that gradients of the scores reach the samples.

        They are processed as in `score_waveforms`, in float32 with the weights of `networks`.

        Args:
            waveforms_BT: Waveforms, (batch, samples) float32 on the device.

        Returns:
            Scores, (batch,) float32.

        Raises:
            UsageError: the engine is 'packed', or the scores are fused by rank.
            AsdfError: a batch does not fit into the device's memory, or the network detaches the
                gradients.
        """

    @abstractmethod
    def use_threads(self, threads: int) -> None:
        """Compute with this number of threads on a CPU."""

    def plan_batches(self, lengths: np.ndarray) -> list[ScoringBatch]:
        """Cut recordings of `lengths` (samples, after speech activity detection) into batches.

        `samples` of a batch is the maximum number of samples needed of each recording; a single
        network scores all of the batch from this number (`ScoringPlan`).
        """
        return self.plan.batches(lengths)

    @abstractmethod
    def score_waveforms(
        self, waveforms: Sequence[np.ndarray], wanted: Collection[str] = ()
    ) -> Outcomes:
        """Score non-empty waveforms of any lengths: (T,) each, or (T, channels) each.

        Args:
            wanted: Keys of the extras to compute on request. Extras of frames have a row for each
                frame of a waveform.

        Raises:
            AsdfError: a batch does not fit into the device's memory.
            UsageError: there is no such extra.
        """

    def require(self, key: str) -> None:
        """Raise an error unless an extra is available.

        Raises:
            UsageError: it is not.
        """
        if key not in self.extras:
            advice = self.absent.get(key, f"gives no {key}: request only scores.")
            raise UsageError(f"{self.name} {advice}")

    def scored_samples(self, samples: int) -> int:
        """Return the number of samples scored of a recording of `samples`; equal within a batch."""
        return self.plan.scored_samples(samples)

    def batch_size(self, scored_samples: int) -> int:
        """Return the number of recordings of this scored length that fill a batch."""
        return max(1, self.plan.max_batch_samples // scored_samples)


# Maximum overlap of two windows.
_OVERLAP_S = 4
# Samples of windows, or of a batch of fused networks, in memory together: 64 MiB.
_HELD_SAMPLES = 2**24


class OverTime:
    """Computation of an extra of long recordings.

    Attributes:
        extra: The extra, which has a hop.
        max_samples: Maximum number of samples that the network hears at once.
        hop: Samples per frame.
        window: Samples of a window of a longer recording, a multiple of the frame length.
        overlap: Samples that two windows share, an even multiple of the frame length.
    """

    def __init__(self, scorer: WaveformScorer, key: str, max_samples: int) -> None:
        """Compute the extra `key`.

        Raises:
            UsageError: the network has no such extra, or hears less than one of its frames.
        """
        scorer.require(key)
        self.scorer = scorer
        self.key = key
        self.extra: Extra = scorer.extras[key]
        self.max_samples = max_samples
        assert self.extra.hop is not None  # only such extras come here
        self.hop = self.extra.hop
        if max_samples < self.hop:
            raise UsageError(
                f"the network hears {max_samples} samples, less than one of its frames "
                f"({self.hop}): raise network.max_evaluation_utterance_length_in_samples."
            )
        self.window = max_samples - max_samples % self.hop
        overlap = min(self.window // 2, _OVERLAP_S * scorer.audio.sample_rate)
        # Half of the overlap is whole frames: there, one window hands over to the next.
        self.overlap = overlap - overlap % (2 * self.hop)

    def of_blocks(self, blocks: Iterable[np.ndarray]) -> tuple[np.ndarray, int]:
        """Return the frames (F,) of a recording that arrives in blocks (T,), and its samples.

        Raises:
            AsdfError: as `WaveformScorer.score_waveforms`.
        """
        parts: list[np.ndarray] = []
        half = self.overlap // 2 // self.hop
        end = 0
        windows = self._cut(blocks)
        together = max(1, _HELD_SAMPLES // self.window)
        while group := list(islice(windows, together)):
            outcomes = self.scorer.score_waveforms([part for _, part in group], [self.key])
            for (start, waveform), row in zip(group, outcomes.extras[self.key], strict=True):
                values = row
                if parts:
                    # The previous window provides the frames up to the middle of the overlap.
                    parts[-1] = parts[-1][: len(parts[-1]) - half]
                    values = row[half:]
                parts.append(values)
                end = start + len(waveform)
        return np.concatenate(parts), end

    def _cut(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first sample and waveform of each window; the last ends with the recording."""
        step = self.window - self.overlap
        held = np.zeros(0, np.float32)
        start = 0
        end = 0
        for block in blocks:
            # A recording that is whole in memory is not copied.
            held = np.concatenate([held, block]) if len(held) else block
            while len(held) >= self.window:
                yield start, held[: self.window]
                end = start + self.window
                start += step
                held = held[step:]
        # If nothing follows the last window, everything is scored already.
        if start + len(held) > end:
            yield start, held


def check_whole_time(key: str, sad: SpeechActivity) -> None:
    """Refuse to compute an extra of joined speech, whose times are not known.

    Raises:
        UsageError: speech activity detection is on.
    """
    if needs_whole_recording(sad):
        raise UsageError(
            f"{key} are scored on whole recordings, and sad.mode = {sad.mode!r} leaves parts out: "
            "train the network with sad.mode = 'off'."
        )


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

    def __init__(self, scorers: Sequence[WaveformScorer], fusion: Fusion) -> None:
        """`scorers` are in the order of the fusion, of one device, precision and audio.

        Raises:
            UsageError: a network takes references.
        """
        if any(scorer.takes_references for scorer in scorers):
            raise UsageError(
                "a network takes references, which a fused system does not support: fuse score "
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
        windows = [scorer.window_samples for scorer in scorers]
        self.window_samples, self.trial_samples = min(windows), max(windows)
        self.audio = first.audio
        self.channels = first.channels
        self.length = ScoredLength(shortest, self.trial_samples, first.audio.sample_rate)
        given = [key for scorer in scorers for key in scorer.extras]
        self._giver: dict[str, int] = {}
        self.extras: dict[str, Extra] = {}
        for index, scorer in enumerate(scorers):
            for key, extra in scorer.extras.items():
                if given.count(key) == 1:
                    self._giver[key] = index
                    self.extras[key] = extra

    @property
    def device(self) -> torch.device:
        return self._scorers[0].device

    @property
    def networks(self) -> Sequence[nn.Module]:
        return [network for scorer in self._scorers for network in scorer.networks]

    def score_with_gradients(self, waveforms_BT: Tensor) -> Tensor:
        if self._fusion.ranks:
            raise UsageError("a fusion by ranks gives no gradients: examine its networks.")
        fused_B = waveforms_BT.new_full(waveforms_BT.shape[:1], self._fusion.offset)
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
        for index, samples in enumerate(np.minimum(lengths, self.trial_samples).tolist()):
            # A batch holds one recording at least, however long.
            if index > start and held + samples > _HELD_SAMPLES:
                batches.append(ScoringBatch(np.arange(start, index), self.trial_samples))
                start = index
                held = 0
            held += samples
        if len(lengths):
            batches.append(ScoringBatch(np.arange(start, len(lengths)), self.trial_samples))
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
