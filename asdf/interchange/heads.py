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
from asdf.interchange.attached_parts import build_part, check_numbers
from asdf.interchange.building import OURS, check_folder
from asdf.networks.heads import Head, attach_head, heads_of, module_name
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.sections import Sections
from asdf.text import and_more, shorten

_ADVICE = "The file is damaged, or its head has changed since."
_SHOWN = 5


def describe_heads(network: nn.Module) -> dict[str, dict[str, Any]]:
    """Return the entries of a network file on the heads of `network`, by key."""
    entries = {}
    for head in heads_of(network):
        kind = type(head)
        # Ours by the room: the file of a class is nothing to rely on.
        module = OURS if kind.__module__.startswith("asdf.") else kind.__module__
        entries[head.key] = {"head": f"{module}.{kind.__qualname__}", **head.describe()}
    return entries


def without_heads(state: Mapping[str, Any], entries: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers of a file without those of its heads."""
    prefixes = tuple(_prefix(key) for key in entries)
    return {name: value for name, value in state.items() if not name.startswith(prefixes)}


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
        attach_head(network, _restore(key, entry, settings, state, source, folder))


def _restore(
    key: str,
    entry: Any,
    settings: Sections,
    state: Mapping[str, Any],
    source: str,
    folder: Path | None,
) -> Head:
    if not isinstance(entry, dict) or not isinstance(entry.get("head"), str):
        raise _not_sound(key, source)
    class_path = entry["head"]
    is_ours = class_path.rpartition(".")[0] == OURS
    if not is_ours:
        check_folder(class_path, folder, source)
    setting = f"in {source}: the head of {key!r}"
    kind = find_class(class_path, folder, setting, Head)  # type: ignore[type-abstract]
    if kind.key != key:
        raise _not_sound(key, source)
    build = partial(_build, kind, entry, settings, source)
    if is_ours:
        check_numbers(build, _prefix(key), state, class_path, source, _ADVICE)
    return build_part(build)


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


def _prefix(key: str) -> str:
    return f"{module_name(key)}."


def _not_sound(key: str, source: str) -> AsdfError:
    return AsdfError(f"the entry {key!r} of {source} does not describe a head. {_ADVICE}")


def _build(kind: type[Head], entry: Mapping[str, Any], settings: Sections, source: str) -> Head:
    try:
        return kind.restore(entry, settings)
    except AsdfError:
        raise
    except ValueError as error:
        raise _not_sound(kind.key, source) from error
    except Exception as error:
        raise AsdfError(
            f"the head of {kind.key!r} of {source}, {kind.__qualname__}, cannot be built: "
            f"{describe_error(error, __file__)}. {_ADVICE}"
        ) from error
