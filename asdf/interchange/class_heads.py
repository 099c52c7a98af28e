"""The head for source tracing in a network file: how it is described, and how it comes back.

Invariant: a network that is read has the head with the same numbers, and the names of its classes
stand in the file.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from asdf.errors import AsdfError
from asdf.interchange.attached_parts import PartKind
from asdf.networks.class_heads import PREFIX, ClassHead, attach_class_head, class_head_of
from asdf.settings.sections import MAX_LAYER_WIDTH, Sections
from asdf.trials.sources import BONA_FIDE_RULES, SourceClasses

CLASS_HEAD = PartKind(
    base=ClassHead,  # type: ignore[type-abstract]
    room="asdf.networks",
    prefix=PREFIX,
    what="head for source tracing",
    setting="source.head",
    advice="The file is damaged, or its head has changed since.",
)


def describe_sources(network: nn.Module) -> dict[str, Any] | None:
    """Return the entry of a network file on the head for source tracing, if `network` has one."""
    head = class_head_of(network)
    if head is None:
        return None
    return {
        "head": CLASS_HEAD.class_path(head),
        "dimension": head.dimension,
        "column": head.column,
        "bona_fide": head.bona_fide,
        "classes": list(head.names),
    }


def add_class_head(
    network: nn.Module,
    entry: Any,
    settings: Sections,
    state: Mapping[str, Any],
    source: str,
    folder: Path | None,
) -> None:
    """Make the head that a file describes a part of `network`; its numbers are not loaded.

    Args:
        entry: Entry of the file, as `describe_sources` made it; None: the file has no head.
        settings: Settings of the file.
        state: the layers of the file.
        source: Name of the file in messages.
        folder: where the module of a user's own head lies.

    Raises:
        AsdfError: the entry is damaged, the class is neither ours nor in `folder`, or the file
            lacks numbers of the head.
    """
    if entry is None:
        return
    if not _is_sound(entry):
        raise AsdfError(
            f"the entry 'sources' of {source} does not describe classes of sources. "
            f"{CLASS_HEAD.advice}"
        )
    names = tuple(entry["classes"])
    arguments = (settings, entry["dimension"], len(names))
    head = CLASS_HEAD.build(entry["head"], arguments, state, source, folder)
    classes = SourceClasses(entry["column"], names, entry["bona_fide"])
    attach_class_head(network, head, classes)


def _is_sound(entry: Any) -> bool:
    """Return whether an entry has all that `describe_sources` writes, in its types."""
    if not isinstance(entry, dict):
        return False
    texts = [entry.get(key) for key in ("head", "column", "bona_fide")]
    classes = entry.get("classes")
    if not isinstance(classes, list | tuple) or not 2 <= len(classes) <= MAX_LAYER_WIDTH:
        return False
    dimension = entry.get("dimension")
    # To Python True is an int.
    has_dimension = type(dimension) is int and 0 < dimension <= MAX_LAYER_WIDTH
    has_texts = all(isinstance(text, str) for text in (*texts, *classes))
    return has_dimension and has_texts and entry["bona_fide"] in BONA_FIDE_RULES
