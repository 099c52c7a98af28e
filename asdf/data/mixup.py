"""Mixup: training clips that are sums of two utterances' clips, with labels mixed in proportion.

Invariant: with whom a clip is mixed, and how, follows from the seed and the clip's key. So a worker
that mixes clips and each process that computes losses know it, without a word between them.

Hongyi Zhang, Moustapha Cisse, Yann N. Dauphin, David Lopez-Paz: mixup: beyond empirical risk
minimization. ICLR 2018. Partners are drawn from the whole training list here, not from the
minibatch, which would make a clip depend on the number of processes.

Shapes: B clips of a batch, R of them mixed, T samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asdf.data.data_sections import DataSections
from asdf.runs.seeds import generator


@dataclass(frozen=True)
class Mixture:
    """What a clip is mixed with.

    Attributes:
        partner: the other utterance, as an index into the list.
        weight: Weight of the clip itself, 0 to 1, a number of float32; the other's is the rest.
    """

    partner: int
    weight: float


@dataclass(frozen=True)
class Mixtures:
    """Those of n clips: partners (n,) int64 and weights (n,) float32; 1 for clips not mixed."""

    partners: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Mixup:
    """How the clips of a training list are mixed.

    Attributes:
        seed: Seed of the recipe.
        probability: the proportion of the clips that are mixed.
        alpha: weights are drawn from a beta distribution with this for both parameters.
        utterances: Utterances of the list.
    """

    seed: int
    probability: float
    alpha: float
    utterances: int

    def draw(self, key: tuple[int, int]) -> Mixture | None:
        """Return what the clip of a key (epoch, utterance) is mixed with; None for nothing.

        Every other utterance is as likely.
        """
        epoch, index = key
        rng = generator(self.seed, "mixup", epoch, index)
        if rng.random() >= self.probability or self.utterances == 1:
            return None
        weight = np.float32(rng.beta(self.alpha, self.alpha))
        partner = int(rng.integers(self.utterances - 1))
        # Without the utterance itself.
        if partner >= index:
            partner += 1
        return Mixture(partner, float(weight))

    def draw_all(self, keys: Sequence[tuple[int, int]]) -> Mixtures:
        """Return the mixtures of several keys; a clip that is not mixed is its own partner."""
        partners = np.array([index for _, index in keys], np.int64)
        weights = np.ones(len(keys), np.float32)
        for row, key in enumerate(keys):
            mixture = self.draw(key)
            if mixture is not None:
                partners[row] = mixture.partner
                weights[row] = mixture.weight
        return Mixtures(partners, weights)


def find_mixup(settings: DataSections, utterances: int) -> Mixup | None:
    """Return how the settings mix the clips of a list of `utterances`; None where they do not."""
    section = settings.augmentation
    if section.mixup_probability == 0:
        return None
    return Mixup(settings.recipe.seed, section.mixup_probability, section.mixup_alpha, utterances)


def mix(clip: np.ndarray, partner: np.ndarray, weight: float) -> np.ndarray:
    """Return the weighted sum of two clips (T,) float32: (T,) float32."""
    of_clip = np.float32(weight)
    of_partner = np.float32(1) - of_clip
    mixed: np.ndarray = of_clip * clip + of_partner * partner
    return mixed


@dataclass(frozen=True)
class Mixing:
    """What is still to be mixed of a batch: tensors of one device.

    Attributes:
        rows_R: Indices of the clips that are mixed.
        weights_R1: Weights of these clips themselves.
    """

    rows_R: Tensor
    weights_R1: Tensor

    def mix(self, clips_BT: Tensor) -> Tensor:
        """Return the clips of a batch, whose partners follow them as further rows, without these.

        Args:
            clips_BT: (B + R, T).
        """
        size = len(clips_BT) - len(self.rows_R)
        unmixed_BT = clips_BT[:size]
        partners_RT = clips_BT[size:]
        mixed_RT = unmixed_BT.index_select(0, self.rows_R)
        mixed_RT = self.weights_R1 * mixed_RT + (1 - self.weights_R1) * partners_RT
        return unmixed_BT.index_copy(0, self.rows_R, mixed_RT)

    def pin_memory(self) -> Mixing:
        """Return the same in pinned memory."""
        return Mixing(self.rows_R.pin_memory(), self.weights_R1.pin_memory())

    def to(self, device: torch.device, non_blocking: bool = False) -> Mixing:
        """Return the same on `device`."""
        rows_R = self.rows_R.to(device, non_blocking=non_blocking)
        return Mixing(rows_R, self.weights_R1.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        """Do `Tensor.record_stream` for both tensors."""
        self.rows_R.record_stream(stream)
        self.weights_R1.record_stream(stream)
