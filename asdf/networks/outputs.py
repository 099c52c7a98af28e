"""What a network returns: embeddings and logits, and what heads of it may add.

Invariant: whatever a network adds, its outputs are still the pair (embeddings, logits) to whoever
takes them for it: they iterate, index and count as that pair.

Shapes: B utterances, F frames, 2 classes (spoof, bona fide).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from torch import Tensor
from torch.utils import _pytree


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a network for some utterances; a network may also return the pair alone.

    Attributes:
        embeddings: (B, anything), or whatever the network returns first.
        logits_B2: Logits of the utterances, column 1 for bona fide.
        extras: Tensors of heads of the network, (B, ...), by the names of what they are for:
            'frames', logits of the utterances' frames (B, F, 2), column 1 for bona fide; 'sources',
            natural-log odds of classes, up to a number per utterance.

    Examples:
        >>> import torch
        >>> from asdf.networks import Outputs
        >>> extras = {"frames": torch.zeros(4, 50, 2)}
        >>> outputs = Outputs(torch.zeros(4, 8), torch.zeros(4, 2), extras)
        >>> embeddings_BE, logits_B2 = outputs  # as the pair that a network may return alone
        >>> outputs.first(3).extras["frames"].shape
        torch.Size([3, 50, 2])
    """

    embeddings: Any
    logits_B2: Tensor
    extras: Mapping[str, Tensor] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Any]:
        yield self.embeddings
        yield self.logits_B2

    def __getitem__(self, index: int) -> Any:
        return (self.embeddings, self.logits_B2)[index]

    def __len__(self) -> int:
        return 2

    def first(self, utterances: int) -> Outputs:
        """Return the outputs of the first utterances; the embeddings must be a tensor."""
        extras = {name: values[:utterances] for name, values in self.extras.items()}
        return Outputs(self.embeddings[:utterances], self.logits_B2[:utterances], extras)

    def with_extra(self, name: str, values: Tensor) -> Outputs:
        """Return the outputs with one more extra."""
        return replace(self, extras={**self.extras, name: values})


def as_outputs(value: Any) -> Outputs:
    """Return what a network returned, the pair or `Outputs`, as `Outputs`."""
    if isinstance(value, Outputs):
        # Networks of earlier versions returned the logits of frames as the third value.
        if isinstance(value.extras, Tensor):
            return replace(value, extras={"frames": value.extras})
        return value
    embeddings, logits_B2 = value
    return Outputs(embeddings, logits_B2)


def _flatten(outputs: Outputs) -> tuple[list[Any], tuple[str, ...]]:
    whole = as_outputs(outputs)
    parts = [whole.embeddings, whole.logits_B2, *whole.extras.values()]
    return parts, tuple(whole.extras)


def _unflatten(parts: Any, names: tuple[str, ...]) -> Outputs:
    embeddings, logits_B2, *extras = parts
    return Outputs(embeddings, logits_B2, dict(zip(names, extras, strict=True)))


# FSDP looks for tensors in it, to see when their gradients come.
_pytree.register_pytree_node(Outputs, _flatten, _unflatten)
