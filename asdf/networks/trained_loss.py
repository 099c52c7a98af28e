"""A network with its training loss, if that loss has trained parameters or computes the score.

Invariant: the loss is the submodule `trained_loss` of the network, so its parameters are trained,
saved, averaged and exchanged with the network's. The network's outputs are the scored ones wherever
it is called.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from asdf.networks.attached import TRAINED_LOSS, Attached, attach, part_of
from asdf.networks.interface import Outputs

PREFIX = f"{TRAINED_LOSS}."
AnyLoss = TypeVar("AnyLoss", bound="ScoringLoss")


class ScoringLoss(Attached):
    """The part of a loss that scoring needs; the losses themselves belong to training.

    Attributes:
        dimension: Number of values in an embedding; 0 if the loss does not use it.
        gives_likelihood_ratios: Whether the difference of its logits is a log-likelihood ratio.
        values: Sorted values of the training list's columns that it was built for, by name.
    """

    gives_likelihood_ratios: ClassVar[bool] = False
    values: Mapping[str, Sequence[str]] = MappingProxyType({})

    def __init__(self, settings: object, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return the scored logits (batch, 2), column 1 for bona fide; by default the network's.

        An override replaces the logits of the network wherever it is computed: in training, in all
        scoring, and in exports.
        """
        return logits_B2

    def complete(self, outputs: Any) -> Any:
        """Return the outputs with the scored logits."""
        if not self.gives_logits:
            return outputs
        embeddings_BE, logits_B2 = outputs
        scored_B2 = self.logits(embeddings_BE, logits_B2)
        if isinstance(outputs, Outputs):
            return replace(outputs, logits_B2=scored_B2)
        return embeddings_BE, scored_B2

    @classmethod
    def of_values(
        cls: type[AnyLoss],
        settings: Any,
        dimension: int,
        values: Mapping[str, Sequence[str]],
    ) -> AnyLoss:
        """Return a loss for these values of columns, passed to constructors that accept them.

        Args:
            settings, dimension: Settings and dimension as in the constructor.
            values: Sorted values of the training list's columns, by name.
        """
        if "values" not in inspect.signature(cls).parameters:
            return cls(settings, dimension)
        # Only users' constructors take the third argument.
        build: Any = cls
        loss: AnyLoss = build(settings, dimension, values)
        loss.values = {name: list(known) for name, known in values.items()}
        return loss

    @property
    def gives_logits(self) -> bool:
        """Whether the loss replaces the network's logits."""
        return type(self).logits is not ScoringLoss.logits


def attach_loss(network: nn.Module, loss: ScoringLoss) -> None:
    """Attach `loss` to `network`, whose logits from then on are those of the loss.

    Raises:
        UsageError: the network already has another attribute of this name.
    """
    attach(network, TRAINED_LOSS, loss, "a loss with parameters")


def loss_of(network: nn.Module) -> ScoringLoss | None:
    """Return the loss attached to `network`, or None."""
    loss = part_of(network, TRAINED_LOSS)
    return loss if isinstance(loss, ScoringLoss) else None
