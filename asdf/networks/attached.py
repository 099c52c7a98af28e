"""Parts that training adds to a network: the loss that scores, and heads with outputs of their own.

Invariant: an attached part is a module of the network, so its numbers are trained, saved, averaged
and exchanged as the network's; and it completes the network's outputs wherever the network is
called. What computes a part of a network calls `completed` itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import nn

from asdf.errors import UsageError

TRAINED_LOSS = "trained_loss"


class Attached(nn.Module, ABC):
    """A part that completes the outputs of the network that it is attached to."""

    @abstractmethod
    def complete(self, outputs: Any) -> Any:
        """Return the outputs, the pair or `Outputs`, with what this part makes of them."""


def attach(network: nn.Module, name: str, part: Attached, what: str) -> None:
    """Make `part` a part of `network`, whose outputs it completes from now on.

    Args:
        name: Name of the module.
        what: the part, for messages.

    Raises:
        UsageError: the network has something else of that name.
    """
    if hasattr(network, name):
        raise UsageError(
            f"{type(network).__qualname__} has a {name!r} by itself, which is the name of {what}. "
            "Give it another name."
        )
    # One hook for all parts, which are completed in their order, not in that of attaching them.
    if not parts_of(network):
        network.register_forward_hook(_complete)
    network.add_module(name, part)


def parts_of(network: nn.Module) -> list[Attached]:
    """Return the parts of `network` in the order in which they complete outputs: the loss first."""
    parts = {}
    for name, module in network.named_children():
        if isinstance(module, Attached):
            parts[name] = module
    return [parts[name] for name in sorted(parts, key=lambda name: (name != TRAINED_LOSS, name))]


def part_of(network: nn.Module, name: str) -> Attached | None:
    """Return the part of that name, if one is attached to `network`."""
    part = getattr(network, name, None)
    return part if isinstance(part, Attached) else None


def completed(network: nn.Module, outputs: Any) -> Any:
    """Return the outputs of `network` as the parts that are attached to it complete them.

    For what computes a part of a network, and so does not call the network itself.
    """
    for part in parts_of(network):
        outputs = part.complete(outputs)
    return outputs


# Not a closure: a copy of the network has its own parts.
def _complete(network: nn.Module, inputs: Any, outputs: Any) -> Any:
    return completed(network, outputs)
