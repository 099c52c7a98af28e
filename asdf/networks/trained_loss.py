"""A network with the loss that it is trained by, where that loss has learnt something or scores.

Invariant: the loss is a part of the network, `trained_loss`. So its numbers are trained, saved,
averaged and exchanged as the network's, and the network's outputs are what is scored, wherever it
is called.

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
    """What scoring knows of a loss; the losses themselves are a part of training.

    Attributes:
        dimension: numbers in an embedding; 0 where the loss needs none.
        gives_likelihood_ratios: whether the difference of its logits is a log-likelihood ratio.
        values: Values of the columns of the training list that it was built for, sorted, by name.
    """

    gives_likelihood_ratios: ClassVar[bool] = False
    values: Mapping[str, Sequence[str]] = MappingProxyType({})

    def __init__(self, settings: object, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return what is scored, (batch, 2), column 1 for bona fide: here the network's logits.

        A loss that overrides this replaces the logits of the network wherever it is computed: in
        training, in all scoring, and in what is exported.
        """
        return logits_B2

    def complete(self, outputs: Any) -> Any:
        """Return the outputs with the logits that are scored."""
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
        """Return a loss for these values of columns, which a constructor gets that asks for them.

        Args:
            settings, dimension: as of the constructor.
            values: Values of the columns of the training list, sorted, by name.
        """
        if "values" not in inspect.signature(cls).parameters:
            return cls(settings, dimension)
        # Only users' constructors have the third argument.
        build: Any = cls
        loss: AnyLoss = build(settings, dimension, values)
        loss.values = {name: list(known) for name, known in values.items()}
        return loss

    @property
    def gives_logits(self) -> bool:
        """Whether the loss replaces the network's logits."""
        return type(self).logits is not ScoringLoss.logits


def attach_loss(network: nn.Module, loss: ScoringLoss) -> None:
    """Make `loss` a part of `network`, whose logits are from now on those of the loss.

    Raises:
        UsageError: the network has something else of that name.
    """
    attach(network, TRAINED_LOSS, loss, "a loss with parameters")


def loss_of(network: nn.Module) -> ScoringLoss | None:
    """Return the loss that is a part of `network`, if there is one."""
    loss = part_of(network, TRAINED_LOSS)
    return loss if isinstance(loss, ScoringLoss) else None
