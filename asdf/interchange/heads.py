"""The heads of tasks in a network file: how they are described, and how they come back.

Invariant: a network that is read has its heads with the same numbers. A file names a head's class:
only ours, or one in a folder that the caller names, is imported, and ours is built only if the file
brings its numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from torch import nn

from asdf.errors import AsdfError
from asdf.interchange.attached_parts import PartKind
from asdf.interchange.building import OURS
from asdf.networks.heads import Head, attach_head, heads_of, module_name
from asdf.settings.sections import Sections
from asdf.text import and_more, shorten

_ADVICE = "The file is damaged, or its head has changed since."
_SHOWN = 5


def describe_heads(network: nn.Module) -> dict[str, dict[str, Any]]:
    """Return the entries of a network file on the heads of `network`, by key."""
    entries = {}
    for head in heads_of(network):
        entries[head.key] = {"head": _kind_of(head.key).class_path(head), **head.describe()}
    return entries


def without_heads(state: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers of a file without those of its heads."""
    rest = dict(state)
    for key in entries:
        rest = _kind_of(key).without(rest)
    return rest


def add_heads(
    network: nn.Module,
    entries: Mapping[str, Any],
    settings: Sections,
    state: Mapping[str, Any],
    source: str,
    folder: Path | None,
) -> None:
    """Make the heads that a file describes parts of `network`; their numbers are not loaded.

    Args:
        entries: Entries of the file, as `describe_heads` made them.
        settings: Settings of the file.
        state: Layers of the file.
        source: Name of the file in messages.
        folder: Folder of the module of a user's own head.

    Raises:
        AsdfError: an entry is damaged, its class is neither ours nor in `folder`, or the file
            lacks numbers of the head.
    """
    for key, entry in entries.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("head"), str):
            raise _not_sound(key, source)
        restore = partial(_restore, entry, settings)
        head = _kind_of(key).build(entry["head"], restore, state, source, folder)
        if head.key != key:
            raise _not_sound(key, source)
        attach_head(network, head)


def _restore(entry: Mapping[str, Any], settings: Sections, kind: type[Head]) -> Head:
    return kind.restore(entry, settings)


def _kind_of(key: str) -> PartKind[Head]:
    return PartKind(
        base=Head,  # type: ignore[type-abstract]
        room=OURS,
        prefix=f"{module_name(key)}.",
        what=f"head of {key!r}",
        setting=f"the head of {key!r}",
        advice=_ADVICE,
    )


def name_heads(entries: Mapping[str, Any]) -> str:
    """Return the heads of a file in words, for messages."""
    if not entries:
        return "no head of a task"
    heads = []
    for key, entry in entries.items():
        facts = []
        for name, value in entry.items() if isinstance(entry, dict) else ():
            values = and_more(list(map(str, value)), _SHOWN) if isinstance(value, list) else value
            facts.append(f"{name} {shorten(str(values))}")
        heads.append(f"a head of {key} ({'; '.join(facts)})")
    return " and ".join(heads)


def _not_sound(key: str, source: str) -> AsdfError:
    return AsdfError(f"the entry {key!r} of {source} does not describe a head. {_ADVICE}")
