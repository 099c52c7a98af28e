"""Heads that tasks add to a network: each computes an extra of the network's outputs.

Invariant: a head is a submodule of the network, so it is trained, saved, averaged and computed with
the network. A network may have several heads with different keys.

Shapes: B utterances.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from importlib import import_module
from typing import Any, ClassVar

from torch import Tensor, nn

from asdf.networks.attached import Attached, attach, parts_of
from asdf.networks.extras import EMBEDDING, Embedding, Extra, HeadExtra
from asdf.networks.interface import Outputs, as_outputs, frame_hop
from asdf.settings.sections import Sections

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
