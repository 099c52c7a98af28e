"""Parts that training adds to a network, the loss and the heads of tasks, in network files.

Invariant: a restored network has its heads, and a loss that gives the scores, with the same
weights; other losses stay in the file. A file names a part's class: only ours, or one in a folder
that the caller names, is imported. A part of ours is built only if the file holds its weights, so a
small file that claims a huge part takes no memory, and the caller's random state does not advance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import nn

from asdf.checkpoint.described_network import OURS, DescribedNetwork, check_folder
from asdf.checkpoint.fitting import check_layers
from asdf.errors import AsdfError
from asdf.networks.attached import (
    PREFIX,
    Head,
    ScoringLoss,
    attach_head,
    attach_loss,
    heads_of,
    loss_of,
    module_name,
)
from asdf.networks.autocast import without_numbers
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.sections import MAX_LAYER_WIDTH
from asdf.text import and_more, shorten

_ADVICE = "The file is damaged, or its head has changed since."
_SHOWN = 5

Part = TypeVar("Part", bound=nn.Module)


@dataclass(frozen=True)
class PartKind(Generic[Part]):
    """A kind of attached part.

    Attributes:
        base: Class that all of its classes derive from.
        room: Package that file entries use for classes of ours.
        prefix: Prefix of the names of its layers in a file.
        what: Name of the part for messages.
        setting: Setting that names its class.
        advice: Advice for a user whose file does not fit.
    """

    base: type[Part]
    room: str
    prefix: str
    what: str
    setting: str
    advice: str

    def class_path(self, part: Part) -> str:
        """Return the class path by which a file names the class of a part."""
        kind = type(part)
        # Identified by room, since the module of a class may change.
        is_ours = kind.__module__.startswith("asdf.")
        return f"{self.room if is_ours else kind.__module__}.{kind.__qualname__}"

    def without(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the layers of a file without those of the part."""
        return {name: each for name, each in state.items() if not name.startswith(self.prefix)}

    def build(
        self, class_path: str, make: Callable[[type[Part]], Part], described: DescribedNetwork
    ) -> Part:
        """Return the part of a file; its numbers are not loaded.

        Args:
            make: Function that creates a part of its class.

        Raises:
            AsdfError: the class is neither ours nor in `folder`, a layer is missing or has another
                shape, or the class cannot be built.
        """
        source = described.source
        is_ours = class_path.rpartition(".")[0] == self.room
        if not is_ours:
            check_folder(class_path, described.folder, source)
        kind = find_class(class_path, described.folder, f"in {source}: {self.setting}", self.base)
        try:
            if is_ours:
                with without_numbers():
                    layers = make(kind).state_dict()
                shapes = {f"{self.prefix}{name}": layer.shape for name, layer in layers.items()}
                held = {}
                for name, layer in described.state.items():
                    if name.startswith(self.prefix):
                        held[name] = layer
                check_layers(shapes, held, class_path, source, self.advice)
            with torch.random.fork_rng(devices=[]):
                return make(kind)
        except AsdfError:
            raise
        except Exception as error:
            raise AsdfError(
                f"the {self.what} of {source}, {kind.__qualname__}, cannot be built: "
                f"{describe_error(error, __file__)}. {self.advice}"
            ) from error


LOSS = PartKind(
    base=ScoringLoss,
    room="asdf.training.losses",
    prefix=PREFIX,
    what="loss",
    setting="network.loss",
    advice="The file is damaged, or its loss has changed since.",
)


def _kind_of_head(key: str) -> PartKind[Head]:
    return PartKind(
        base=Head,  # type: ignore[type-abstract]
        room=OURS,
        prefix=f"{module_name(key)}.",
        what=f"head of {key!r}",
        setting=f"the head of {key!r}",
        advice=_ADVICE,
    )


def describe_loss(network: nn.Module) -> dict[str, Any] | None:
    """Return the entry of a network file for the loss attached to `network`, if any."""
    loss = loss_of(network)
    if loss is None:
        return None
    entry = {
        "class": LOSS.class_path(loss),
        "dimension": loss.dimension,
        "gives_logits": loss.gives_logits,
    }
    return {**entry, "values": dict(loss.values)} if loss.values else entry


def describe_heads(network: nn.Module) -> dict[str, dict[str, Any]]:
    """Return the entries of a network file for the heads of `network`, by key."""
    entries = {}
    for head in heads_of(network):
        class_path = _kind_of_head(head.key).class_path(head)
        entries[head.key] = {"head": class_path, **head.describe()}
    return entries


def without_parts(state: Mapping[str, Any], heads: Mapping[str, Any]) -> dict[str, Any]:
    """Return the layers of a file without those of its loss and of its `heads`."""
    rest = LOSS.without(state)
    for key in heads:
        rest = _kind_of_head(key).without(rest)
    return rest


def add_loss(network: nn.Module, entry: Any, described: DescribedNetwork) -> bool:
    """Attach the loss that a file describes to `network`, if it gives the scores.

    Args:
        entry: Entry of the file, as made by `describe_loss`; None if the file has no loss.

    Returns:
        Whether it is now part of the network; its weights are not loaded yet.

    Raises:
        AsdfError: the entry is damaged, the class is neither ours nor in the folder, or the file
            lacks weights of the loss.
    """
    if entry is None:
        return False
    values = entry if isinstance(entry, dict) else {}
    class_path = values.get("class")
    dimension = values.get("dimension")
    gives_logits = values.get("gives_logits")
    columns = values.get("values", {})
    has_texts = isinstance(class_path, str) and isinstance(gives_logits, bool)
    has_texts = has_texts and isinstance(columns, dict) and all(map(_is_texts, columns.values()))
    # bool is a subclass of int.
    if not has_texts or type(dimension) is not int or not 0 <= dimension <= MAX_LAYER_WIDTH:
        raise AsdfError(
            f"the entry 'loss' of {described.source} does not describe a loss. {LOSS.advice}"
        )
    if not gives_logits:
        return False

    def make(kind: type[ScoringLoss]) -> ScoringLoss:
        return kind.of_values(described.settings, dimension, columns)

    attach_loss(network, LOSS.build(str(class_path), make, described))
    return True


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) for text in value)


def add_heads(network: nn.Module, entries: Mapping[str, Any], described: DescribedNetwork) -> None:
    """Attach the heads that a file describes to `network`; their weights are not loaded yet.

    Args:
        entries: Entries of the file, as made by `describe_heads`.

    Raises:
        AsdfError: an entry is damaged, its class is neither ours nor in the folder, or the file
            lacks weights of the head.
    """
    for key, entry in entries.items():
        damaged = AsdfError(
            f"the entry {key!r} of {described.source} does not describe a head. {_ADVICE}"
        )
        if not isinstance(entry, dict) or not isinstance(entry.get("head"), str):
            raise damaged

        def restore(kind: type[Head], entry: Mapping[str, Any] = entry) -> Head:
            return kind.restore(entry, described.settings)

        head = _kind_of_head(key).build(entry["head"], restore, described)
        if head.key != key:
            raise damaged
        if any(type(part) is type(head) and part.key == key for part in heads_of(network)):
            # The network's class creates one, which that of the file replaces.
            network.add_module(module_name(key), head)
        else:
            attach_head(network, head)


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
