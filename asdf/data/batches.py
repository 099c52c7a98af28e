"""Items of a dataset and batches of them: clips of audio with further inputs, and their mixing.

Invariants: a clip that cannot be read is returned with its error, as is its batch; an error raised
in a worker would reach the user wrapped in two tracebacks. The partner and the weights of a mixed
clip depend only on the seed and the clip's key, so a worker that mixes clips and each process that
computes losses know them without communication.

Mixup: Zhang, Cisse, Dauphin and Lopez-Paz, "mixup: beyond empirical risk minimization", ICLR 2018.
Partners are drawn from the whole training list here, not from the minibatch, which would make a
clip depend on the number of processes.

Shapes: B clips of a batch, R of them mixed, T samples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import default_collate

from asdf.audio.rawboost import Draws
from asdf.audio.rawboost_batch import Unboosted, prepare
from asdf.errors import AsdfError
from asdf.runs.seeds import generator
from asdf.settings.sections import RawBoost, Sections

# Names of inputs that are read besides the clips.
LENGTHS = "lengths"
REFERENCES = "references"
# Of the beta distribution of mixup's weights; small values leave mostly one of two clips.
_MIXUP_ALPHA = 0.4


@dataclass(frozen=True)
class Mixtures:
    """The mixtures of n clips: partners (n,) int64, weights (n,) float32, 1 for unmixed clips."""

    partners: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Mixup:
    """The mixing of the clips of a training list.

    Attributes:
        seed: Seed of the recipe.
        probability: Proportion of the clips that are mixed.
        alpha: Value of both parameters of the beta distribution of the weights.
        utterances: Number of utterances of the list.
    """

    seed: int
    probability: float
    alpha: float
    utterances: int

    def draw(self, key: tuple[int, int]) -> tuple[int, float] | None:
        """Return the partner of the clip with the key (epoch, utterance), and the clip's weight.

        The partner is an index into the list, all others being equally likely, and has the
        remainder of the weight, 0 to 1 in float32. The result is None if the clip is not mixed.
        """
        epoch, index = key
        rng = generator(self.seed, "mixup", epoch, index)
        if rng.random() >= self.probability or self.utterances == 1:
            return None
        weight = np.float32(rng.beta(self.alpha, self.alpha))
        partner = int(rng.integers(self.utterances - 1))
        # Skip the utterance itself.
        return partner + (partner >= index), float(weight)

    def draw_all(self, keys: Sequence[tuple[int, int]]) -> Mixtures:
        """Return the mixtures of several keys; a clip that is not mixed is its own partner."""
        partners = np.array([index for _, index in keys], np.int64)
        weights = np.ones(len(keys), np.float32)
        for row, key in enumerate(keys):
            mixture = self.draw(key)
            if mixture is not None:
                partners[row], weights[row] = mixture
        return Mixtures(partners, weights)


def find_mixup(settings: Sections, utterances: int) -> Mixup | None:
    """Return the mixing of a list with `utterances` clips; None if the settings request none."""
    section = settings.augmentation
    if section.mixup_probability == 0:
        return None
    return Mixup(settings.recipe.seed, section.mixup_probability, _MIXUP_ALPHA, utterances)


def mix(clip: np.ndarray, partner: np.ndarray, weight: float) -> np.ndarray:
    """Return the weighted sum of two clips (T,) float32: (T,) float32."""
    of_clip = np.float32(weight)
    of_partner = np.float32(1) - of_clip
    mixed: np.ndarray = of_clip * clip + of_partner * partner
    return mixed


@dataclass(frozen=True)
class Clip:
    """The data for one key of a dataset.

    Attributes:
        samples: Waveform (T,) float32, or features; None if they cannot be read.
        rawboost: Settings of RawBoost, if it is applied to the whole batch; else None.
        draws: Random draws of RawBoost for the batch; None if the clip stays unchanged.
        error: Error if the clip cannot be read.
        partner: Clip that this one is mixed with, if that happens in the batch.
        weight: Weight of this clip in the sum of both.
        varies: Whether clips of a batch may differ in length and are padded to the longest.
        reference: Waveform of the trial's reference, as long as `samples`; None if the network
            takes none.
    """

    samples: np.ndarray | None = None
    rawboost: RawBoost | None = None
    draws: Draws | None = None
    error: AsdfError | None = None
    partner: Clip | None = None
    weight: float = 1.0
    varies: bool = False
    reference: np.ndarray | None = None


@dataclass(frozen=True)
class Batch:
    """Clips on one device, which a DataLoader can pin like tensors.

    Attributes:
        samples: Waveforms (batch, ...) float32, or features; None with `unboosted` or `error`.
            Clips of varying length are padded with zeros, and their `lengths` are in `further`.
        unboosted: Waveforms for which RawBoost is still to be computed on the device.
        mixed_R, weights_R1: Indices of the clips to mix after RawBoost, and their own weights; the
            partners are the last R waveforms of `unboosted`, and are removed.
        error: Error of the first clip that cannot be read.
        further: Further inputs of the network that were read, (batch, ...), by name.
    """

    samples: Tensor | None = None
    unboosted: Unboosted | None = None
    error: AsdfError | None = None
    mixed_R: Tensor | None = None
    weights_R1: Tensor | None = None
    further: Mapping[str, Tensor] = field(default_factory=dict)

    def boosted(self) -> Tensor:
        """Return the clips for the network, after RawBoost and mixup: (batch, ...)."""
        if self.unboosted is None:
            assert self.samples is not None  # a batch with an error is handed to nobody
            return self.samples
        clips_BT = self.unboosted.boosted()
        if self.mixed_R is None or self.weights_R1 is None:
            return clips_BT
        partner_count = len(self.mixed_R)
        unmixed_BT, partners_RT = clips_BT[:-partner_count], clips_BT[-partner_count:]
        mixed_RT = unmixed_BT.index_select(0, self.mixed_R)
        mixed_RT = self.weights_R1 * mixed_RT + (1 - self.weights_R1) * partners_RT
        return unmixed_BT.index_copy(0, self.mixed_R, mixed_RT)

    def pin_memory(self) -> Batch:
        """Return the batch in pinned memory."""
        return self._changed(lambda part: part.pin_memory())

    def to(self, device: torch.device, non_blocking: bool = False) -> Batch:
        """Return the batch on `device`."""
        return self._changed(lambda part: part.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        """Call `Tensor.record_stream` for each tensor."""
        for part in (*self._parts().values(), *self.further.values()):
            part.record_stream(stream)

    def _parts(self) -> dict[str, Any]:
        """Return the attributes that hold tensors, by name, except the further inputs."""
        others = ("error", "further")
        held = {name: value for name, value in vars(self).items() if name not in others}
        return {name: value for name, value in held.items() if value is not None}

    def _changed(self, change: Callable[[Any], Any]) -> Batch:
        """Return the batch with `change` applied to each part."""
        parts = {name: change(part) for name, part in self._parts().items()}
        further = {name: change(part) for name, part in self.further.items()}
        return replace(self, **parts, further=further)


def collate(clips: Sequence[Clip]) -> Batch:
    """Return a batch of clips, or of the first error among them."""
    partners = [clip.partner for clip in clips if clip.partner is not None]
    arrays = []
    draws = []
    for clip in (*clips, *partners):
        if clip.error is not None:
            return Batch(error=clip.error)
        assert clip.samples is not None
        arrays.append(torch.from_numpy(clip.samples))
        draws.append(clip.draws)
    # Clips of varying length are padded, and so are their references.
    references = [torch.from_numpy(each.reference) for each in clips if each.reference is not None]
    further = {REFERENCES: pad_sequence(references, batch_first=True)} if references else {}
    if clips[0].varies:
        further[LENGTHS] = torch.tensor([len(array) for array in arrays])
        return Batch(pad_sequence(arrays, batch_first=True), further=further)
    # A worker creates the tensor in shared memory, so that it need not be copied there.
    samples: Tensor = default_collate(arrays)
    rawboost = clips[0].rawboost
    if rawboost is None:
        return Batch(samples, further=further)
    unboosted = prepare(samples, draws, rawboost)
    rows = [row for row, clip in enumerate(clips) if clip.partner is not None]
    if not rows:
        return Batch(unboosted=unboosted, further=further)
    # (R, 1): a weight is for all samples of a row.
    weights_R1 = torch.tensor([[clips[row].weight] for row in rows], dtype=torch.float32)
    mixed_R = torch.tensor(rows)
    return Batch(unboosted=unboosted, mixed_R=mixed_R, weights_R1=weights_R1, further=further)
