"""Parts that training adds to a network, a loss that scores and heads of tasks, and their outputs.

Invariant: an attached part is a submodule, so its parameters are trained, saved, averaged and
exchanged with the network's. It completes the network's outputs in every call of the network. Code
that computes only a part of a network calls `completed` itself.

Shapes: B utterances, F frames, E numbers in an embedding, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from types import MappingProxyType
from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.networks.extras import EMBEDDING, Extra, HeadExtra
from asdf.networks.interface import Outputs, as_outputs, frame_hop
from asdf.settings.sections import Sections

TRAINED_LOSS = "trained_loss"


class Attached(nn.Module, ABC):
    """A part that completes the outputs of the network that it is attached to."""

    @abstractmethod
    def complete(self, outputs: Any) -> Any:
        """Return the outputs, a pair or `Outputs`, completed by this part."""


def attach(network: nn.Module, name: str, part: Attached, what: str) -> None:
    """Attach `part` to `network`; from then on it completes the network's outputs.

    Args:
        name: Name of the submodule.
        what: Description of the part, for messages.

    Raises:
        UsageError: the network already has another attribute of this name.
    """
    if hasattr(network, name):
        raise UsageError(
            f"{type(network).__qualname__} already has an attribute {name!r}, the name of {what}. "
            "Rename the attribute."
        )
    # One hook for all parts, which run in a fixed order, not in the order of attaching.
    if not parts_of(network):
        network.register_forward_hook(_complete)
    network.add_module(name, part)


def parts_of(network: nn.Module) -> list[Attached]:
    """Return the parts of `network` in the order of their computation, the loss first."""
    parts = {
        name: module for name, module in network.named_children() if isinstance(module, Attached)
    }
    return [parts[name] for name in sorted(parts, key=lambda name: (name != TRAINED_LOSS, name))]


def part_of(network: nn.Module, name: str) -> Attached | None:
    """Return the part with this name, or None if `network` has none."""
    part = getattr(network, name, None)
    return part if isinstance(part, Attached) else None


def completed(network: nn.Module, outputs: Any) -> Any:
    """Return the outputs of `network`, completed by its attached parts.

    Callers that compute only a part of a network, and so bypass its hooks, need this.
    """
    for part in parts_of(network):
        outputs = part.complete(outputs)
    return outputs


# Not a closure, since a copy of the network has parts of its own.
def _complete(network: nn.Module, inputs: Any, outputs: Any) -> Any:
    return completed(network, outputs)


class Embedding(Extra):
    """The embedding that a network returns first."""

    key = EMBEDDING
    on_request = True

    def __init__(self, network: str) -> None:
        """Store the name of the network's class, for messages."""
        self._network = network

    def of_outputs(self, outputs: Outputs) -> Tensor:
        """Return the embeddings.

        Raises:
            UsageError: the embeddings are not a tensor with one row per utterance.
        """
        embeddings = outputs.embeddings
        if not isinstance(embeddings, Tensor) or len(embeddings) != len(outputs.logits_B2):
            raise UsageError(f"{self._network} returns no embeddings: request scores only.")
        return embeddings.float()


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
        cls: type[AnyLoss], settings: Any, dimension: int, values: Mapping[str, Sequence[str]]
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


# The extra of a network that computes it without an attached head, by class path.
_OF_FRAMES = ("asdf.tasks.localisation.frame_scores", "Frames")


class Head(Attached):
    """Base class of the heads of tasks, the project's and your own.

    Attributes:
        key: Name of the extra in outputs, results, loss terms and network files; a Python name such
            as 'speakers'.

    Examples:
        >>> import torch
        >>> from asdf.networks import Outputs
        >>> from asdf.tasks import Head
        >>> class SpeakerHead(Head):
        ...     key = "speakers"
        ...
        ...     def __init__(self, dimension, names):
        ...         super().__init__()
        ...         self.names = names
        ...         self.output = torch.nn.Linear(dimension, len(names))
        ...
        ...     def values(self, outputs):
        ...         return self.output(outputs.embeddings)
        ...
        ...     def describe(self):
        ...         return {"dimension": self.output.in_features, "names": self.names}
        ...
        ...     @classmethod
        ...     def restore(cls, entry, settings):
        ...         return cls(entry["dimension"], entry["names"])
        >>> head = SpeakerHead(8, ["S1", "S2", "S3"])
        >>> outputs = head.complete(Outputs(torch.zeros(2, 8), torch.zeros(2, 2)))
        >>> outputs.extras["speakers"].shape
        torch.Size([2, 3])
    """

    key: ClassVar[str]

    @abstractmethod
    def values(self, outputs: Outputs) -> Tensor:
        """Return the head's values (B, ...) from the outputs of the network."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return plain values from which `restore` builds the head again."""

    @classmethod
    @abstractmethod
    def restore(cls, entry: Mapping[str, Any], settings: Sections) -> Head:
        """Return a head with random weights, as described by a network file.

        Args:
            entry: Entry of the file, from an untrusted source; in our files it is that of
                `describe`.
            settings: Settings of the file.

        Raises:
            ValueError: the entry does not have the form that `describe` returns.
        """

    def extra(self) -> Extra:
        """Return the extra that results show; by default the values unchanged."""
        return HeadExtra(self.key)

    def complete(self, outputs: Any) -> Any:
        """Return the outputs with the values of the head."""
        whole = as_outputs(outputs)
        return whole.with_extra(self.key, self.values(whole))


def module_name(key: str) -> str:
    """Return the name of a head among the submodules of its network."""
    # Files of all versions store the head for source tracing under this name.
    return "class_head" if key == "sources" else f"{key}_head"


def attach_head(network: nn.Module, head: Head) -> None:
    """Attach `head` to `network`, whose outputs from then on include its extra.

    Raises:
        UsageError: the network already has another attribute of this name.
    """
    attach(network, module_name(head.key), head, f"a head of {head.key!r}")


def heads_of(network: nn.Module) -> list[Head]:
    """Return the heads that are attached to `network`."""
    return [part for part in parts_of(network) if isinstance(part, Head)]


def describe_heads(network: nn.Module) -> dict[str, str]:
    """Return the outputs of the network's heads besides scores, by head, in words."""
    heads = {}
    if frame_hop(network) is not None:
        heads["a frame-level head (localisation.enabled = True)"] = "the scores of frames"
    for head in heads_of(network):
        heads[f"a head of {head.key!r}"] = f"the values of {head.key!r}"
    return heads


def extras_of(network: nn.Module) -> dict[str, Extra]:
    """Return the outputs of `network` besides its score, by key."""
    extras: dict[str, Extra] = {EMBEDDING: Embedding(type(network).__name__)}
    hop = frame_hop(network)
    if hop is not None:
        # By path, since tasks stand above networks.
        module, name = _OF_FRAMES
        frames: Extra = getattr(import_module(module), name)(hop)
        extras[frames.key] = frames
    for head in heads_of(network):
        extras[head.key] = head.extra()
    return extras
