"""What a network returns: embeddings and logits, and what heads of it may add.

Invariant: whatever a network adds, its outputs are still the pair (embeddings, logits) to whoever
takes them for it: they iterate, index and count as that pair.

Shapes: B utterances, F frames, 2 classes (spoof, bona fide), K classes of sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch.utils import _pytree


@dataclass(frozen=True, eq=False)
class Outputs:
    """The outputs of a network for some utterances; a network may also return the pair alone.

    Attributes:
        embeddings: (B, anything), or whatever the network returns first.
        logits_B2: Logits of the utterances, column 1 for bona fide.
        frame_logits_BF2: Logits of their frames, column 1 for bona fide; None: of no frames.
        class_logits_BK: natural-log odds of the classes that `network_file` names, up to a number
            per utterance; None: the network traces no sources.
    """

    embeddings: Any
    logits_B2: Tensor
    frame_logits_BF2: Tensor | None = None
    class_logits_BK: Tensor | None = None

    def __iter__(self) -> Iterator[Any]:
        yield self.embeddings
        yield self.logits_B2

    def __getitem__(self, index: int) -> Any:
        return (self.embeddings, self.logits_B2)[index]

    def __len__(self) -> int:
        return 2

    def first(self, utterances: int) -> Outputs:
        """Return the outputs of the first utterances; the embeddings must be a tensor."""
        frames = self.frame_logits_BF2
        classes = self.class_logits_BK
        return Outputs(
            self.embeddings[:utterances],
            self.logits_B2[:utterances],
            None if frames is None else frames[:utterances],
            None if classes is None else classes[:utterances],
        )


def as_outputs(value: Any) -> Outputs:
    """Return what a network returned, the pair or `Outputs`, as `Outputs`."""
    if isinstance(value, Outputs):
        return value
    embeddings, logits_B2 = value
    return Outputs(embeddings, logits_B2)


def _flatten(outputs: Outputs) -> tuple[list[Any], None]:
    parts = [outputs.embeddings, outputs.logits_B2]
    return [*parts, outputs.frame_logits_BF2, outputs.class_logits_BK], None


def _unflatten(parts: Any, context: None) -> Outputs:
    return Outputs(*parts)


# FSDP looks for tensors in it, to see when their gradients come.
_pytree.register_pytree_node(Outputs, _flatten, _unflatten)
