"""What a scorer of waveforms is: numpy in, numpy out, for one network or for several.

Invariant: code that reads recordings knows of a scorer only what `WaveformScorer` states; nothing
here imports torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from asdf.data.scoring_plan import ScoringBatch
from asdf.errors import UsageError
from asdf.scoring.whole_recording import Outcomes
from asdf.settings.sections import USUAL_AUDIO, Audio
from asdf.trials.how_scored import ScoredLength

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn

    from asdf.networks.extras import Extra


class Precision(Protocol):
    """A precision of scores, by its name: 'fp32', 'tf32' or 'bf16'."""

    @property
    def name(self) -> str: ...


class WaveformScorer(ABC):
    """Scores waveforms, in batches that it plans itself.

    Attributes:
        device_type: Kind of the device that the networks run on: 'cpu', 'cuda'.
        precision: Precision of the scores.
        engine: Engine of the networks: 'graph', 'packed' or 'plain'.
        length: Length of a recording that counts; shorter recordings are repeated, longer ones cut.
        audio: Rate and channels that the networks hear; lengths count at this rate.
        channels: Number of channels that the networks take; None: they take (batch, samples).
        parameters: Number of parameters of all networks.
        extras: Further outputs besides scores, by key.
        name: Name of the scorer in messages.
        absent: End of the message about an extra that is not available, by key.
        takes_references: Whether it takes a reference beside each recording.
    """

    device_type: str
    precision: Precision
    engine: str
    length: ScoredLength
    audio: Audio = USUAL_AUDIO
    channels: int | None = None
    parameters: int
    extras: Mapping[str, Extra]
    name: str
    takes_references: bool = False
    absent: ClassVar[Mapping[str, str]] = {}

    def with_reference(self, waveform: np.ndarray) -> WaveformScorer:
        """Return a scorer of the same networks that hears a reference (T,) beside each waveform.

        Without a reference, a network that takes one hears zeros; others ignore it.
        """
        return self

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """The device that the networks run on."""

    @property
    @abstractmethod
    def window_samples(self) -> int:
        """The longest window that is heard whole."""

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

    @abstractmethod
    def plan_batches(self, lengths: np.ndarray) -> list[ScoringBatch]:
        """Cut recordings of `lengths` (samples, after speech activity detection) into batches.

        `samples` of a batch is the maximum number of samples needed of each recording.
        """

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

    @abstractmethod
    def scored_samples(self, samples: int) -> int:
        """Return the number of samples scored of a recording of `samples`; equal within a batch."""

    @abstractmethod
    def batch_size(self, scored_samples: int) -> int:
        """Return the number of recordings of this scored length that fill a batch."""
