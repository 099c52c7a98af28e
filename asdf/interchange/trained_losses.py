"""The loss in a network file: how it is described, and how it comes back for scoring.

Invariant: of a loss that gives the scores, a network that is read has a part with the same numbers;
other losses are left in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from asdf.errors import AsdfError
from asdf.interchange.attached_parts import PartKind
from asdf.networks.trained_loss import PREFIX, ScoringLoss, attach_loss, loss_of
from asdf.settings.sections import MAX_LAYER_WIDTH, Sections

LOSS = PartKind(
    base=ScoringLoss,
    room="asdf.training.losses",
    prefix=PREFIX,
    what="loss",
    setting="network.loss",
    advice="The file is damaged, or its loss has changed since.",
)


def describe_loss(network: nn.Module) -> dict[str, Any] | None:
    """Return the entry of a network file on the loss that is a part of `network`, if any."""
    loss = loss_of(network)
    if loss is None:
        return None
    return {
        "class": LOSS.class_path(loss),
        "dimension": loss.dimension,
        "gives_logits": loss.gives_logits,
    }


def add_loss(
    network: nn.Module,
    entry: Any,
    settings: Sections,
    state: Mapping[str, Any],
    source: str,
    folder: Path | None,
) -> bool:
    """Make the loss that a file describes a part of `network`, if it gives the scores.

    Args:
        entry: Entry of the file, as `describe_loss` made it; None: the file has no loss.
        settings: Settings of the file.
        state: the layers of the file.
        source: Name of the file in messages.
        folder: where the module of a user's own loss lies.

    Returns:
        Whether it is now a part of the network; its numbers are not loaded.

    Raises:
        AsdfError: the entry is damaged, the class is neither ours nor in `folder`, or the file
            lacks numbers of the loss.
    """
    if entry is None:
        return False
    class_path, dimension, gives_logits = _check_entry(entry, source)
    if not gives_logits:
        return False

    def make(kind: type[ScoringLoss]) -> ScoringLoss:
        return kind(settings, dimension)

    attach_loss(network, LOSS.build(class_path, make, state, source, folder))
    return True


def _check_entry(entry: Any, source: str) -> tuple[str, int, bool]:
    """Return class path, dimension and whether the loss gives the scores, of a sound entry."""
    values = entry if isinstance(entry, dict) else {}
    class_path = values.get("class")
    dimension = values.get("dimension")
    gives_logits = values.get("gives_logits")
    has_texts = isinstance(class_path, str) and isinstance(gives_logits, bool)
    # To Python True is an int.
    if has_texts and type(dimension) is int and 0 <= dimension <= MAX_LAYER_WIDTH:
        return str(class_path), dimension, bool(gives_logits)
    raise AsdfError(f"the entry 'loss' of {source} does not describe a loss. {LOSS.advice}")
