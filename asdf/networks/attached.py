"""Parts that training adds to a network: a scoring loss, and heads with outputs of their own.

Invariant: an attached part is a submodule, so its parameters are trained, saved, averaged and
exchanged with the network's. It completes the network's outputs in every call of the network. Code
that computes only a part of a network calls `completed` itself.
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
    parts = {}
    for name, module in network.named_children():
        if isinstance(module, Attached):
            parts[name] = module
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
