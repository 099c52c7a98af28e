"""Mixup: training clips that are sums of two utterances' clips, with labels mixed in proportion.

Invariant: the partner and the weights of a clip depend only on the seed and the clip's key, so a
worker that mixes clips and each process that computes losses know them without communication.

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
    """The partner and weight of a mixed clip.

    Attributes:
        partner: Index of the other utterance in the list.
        weight: Weight of the clip itself, 0 to 1 in float32; the partner has the remainder.
    """

    partner: int
    weight: float


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

    def draw(self, key: tuple[int, int]) -> Mixture | None:
        """Return the mixture of the clip with the key (epoch, utterance); None if it is not mixed.

        All other utterances are equally likely.
        """
        epoch, index = key
        rng = generator(self.seed, "mixup", epoch, index)
        if rng.random() >= self.probability or self.utterances == 1:
            return None
        weight = np.float32(rng.beta(self.alpha, self.alpha))
        partner = int(rng.integers(self.utterances - 1))
        # Skip the utterance itself.
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
    """Return the mixing of a list with `utterances` clips; None if the settings request none."""
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
    """The mixing still to be done for a batch, with tensors on one device.

    Attributes:
        rows_R: Indices of the clips to mix.
        weights_R1: Weights of these clips themselves.
    """

    rows_R: Tensor
    weights_R1: Tensor

    def mix(self, clips_BT: Tensor) -> Tensor:
        """Return the mixed clips of a batch; partners are its further rows and are removed.

        Args:
            clips_BT: Clips followed by partners, (B + R, T).
        """
        size = len(clips_BT) - len(self.rows_R)
        unmixed_BT = clips_BT[:size]
        partners_RT = clips_BT[size:]
        mixed_RT = unmixed_BT.index_select(0, self.rows_R)
        mixed_RT = self.weights_R1 * mixed_RT + (1 - self.weights_R1) * partners_RT
        return unmixed_BT.index_copy(0, self.rows_R, mixed_RT)

    def pin_memory(self) -> Mixing:
        """Return the mixing in pinned memory."""
        return Mixing(self.rows_R.pin_memory(), self.weights_R1.pin_memory())

    def to(self, device: torch.device, non_blocking: bool = False) -> Mixing:
        """Return the mixing on `device`."""
        rows_R = self.rows_R.to(device, non_blocking=non_blocking)
        return Mixing(rows_R, self.weights_R1.to(device, non_blocking=non_blocking))

    def record_stream(self, stream: torch.Stream) -> None:
        """Call `Tensor.record_stream` for both tensors."""
        self.rows_R.record_stream(stream)
        self.weights_R1.record_stream(stream)
