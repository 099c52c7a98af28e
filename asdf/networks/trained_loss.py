"""A network with the loss that it is trained by, where that loss has learnt something or scores.

Invariant: the loss is a part of the network, `trained_loss`. So its numbers are trained, saved,
averaged and exchanged as the network's, and the network's outputs are what is scored, wherever it
is called.

Shapes: B utterances, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from typing import Any, ClassVar

from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.settings.sections import Sections

NAME = "trained_loss"
PREFIX = f"{NAME}."


class ScoringLoss(nn.Module):
    """What scoring knows of a loss; the losses themselves are a part of training.

    Attributes:
        dimension: numbers in an embedding; 0 where the loss needs none.
        gives_likelihood_ratios: whether the difference of its logits is a log-likelihood ratio.
    """

    gives_likelihood_ratios: ClassVar[bool] = False

    def __init__(self, settings: Sections, dimension: int) -> None:
        super().__init__()
        self.dimension = dimension

    def logits(self, embeddings_BE: Tensor, logits_B2: Tensor) -> Tensor:
        """Return what is scored, (batch, 2), column 1 for bona fide: here the network's logits.

        A loss that overrides this replaces the logits of the network wherever it is computed: in
        training, in all scoring, and in what is exported.
        """
        return logits_B2

    @property
    def gives_logits(self) -> bool:
        """Whether the loss replaces the network's logits."""
        return type(self).logits is not ScoringLoss.logits


def attach_loss(network: nn.Module, loss: ScoringLoss) -> None:
    """Make `loss` a part of `network`, whose logits are from now on those of the loss.

    Raises:
        UsageError: the network has something else of that name.
    """
    if hasattr(network, NAME):
        raise UsageError(
            f"{type(network).__qualname__} has a {NAME!r} by itself, which is the name of a loss "
            "with parameters. Give it another name."
        )
    network.add_module(NAME, loss)
    network.register_forward_hook(_replace_logits)


def loss_of(network: nn.Module) -> ScoringLoss | None:
    """Return the loss that is a part of `network`, if there is one."""
    loss = getattr(network, NAME, None)
    return loss if isinstance(loss, ScoringLoss) else None


def with_loss(network: nn.Module, outputs: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Return the embeddings and logits of `network`, the latter as its loss gives them.

    For what computes a part of a network, and so does not call the network itself.
    """
    loss = loss_of(network)
    if loss is None or not loss.gives_logits:
        return outputs
    embeddings_BE, logits_B2 = outputs
    return embeddings_BE, loss.logits(embeddings_BE, logits_B2)


# Not a closure: a copy of the network has its own loss.
def _replace_logits(
    network: nn.Module, inputs: Any, outputs: tuple[Tensor, Tensor]
) -> tuple[Tensor, Tensor]:
    return with_loss(network, outputs)
