"""Parts that training adds to a network, the loss and the heads of tasks, in network files.

Invariant: a restored network has its heads, and a loss that gives the scores, with the same
weights; other losses stay in the file. A file names a part's class: only ours, or one in a folder
that the caller names, is imported. A part of ours is built only if the file holds its weights, so a
small file that claims a huge part takes no memory, and the caller's random state does not advance.

Networks described by files, compared with the files before memory is used for them.

Invariant: only classes of ours, or in a folder that the caller names, are imported for a file. A
network of ours is built only if each of its layers is in the file with its shape, so a file cannot
request more memory than it justifies. Shapes come from torch's meta device, where tensors have no
values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from threading import get_ident
from typing import Any, Generic, TypeVar

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from asdf.checkpoint.base_weights import OTHER_ARCHITECTURE, check_layers, resting_layers
from asdf.errors import AsdfError, UsageError
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
from asdf.networks.build import build_network
from asdf.networks.casting import without_numbers
from asdf.networks.ssl_detector import BACK_END_SETTING, FRONT_END_SETTING
from asdf.settings.catalogue import named_classes
from asdf.settings.class_files import network_modules
from asdf.settings.class_path import describe_error, find_class
from asdf.settings.sections import MAX_LAYER_WIDTH, Sections
from asdf.text import and_more, from_here, shorten

OURS = "asdf.networks"
# Of encoders that a file leaves out, and of layers that are replaced while a network is built.
_MORE_PARAMETERS = 3_000

Build = Callable[[Sections, Path | None], nn.Module]
"""A function that builds the network of settings, with their pretrained weights."""


@dataclass(frozen=True)
class DescribedNetwork:
    """A network described by a file, with the layers of the file.

    Attributes:
        settings: Settings that build the network.
        state: Layers of the file, with which those of a class of ours are compared.
        source: Name of the file for messages.
        folder: Folder that holds the module of a user's own network class.
        advice, ignored, own_names: Arguments for `check_layers`.
    """

    settings: Sections
    state: Mapping[str, Any]
    source: str
    folder: Path | None
    advice: str = OTHER_ARCHITECTURE
    ignored: Collection[str] = ()
    own_names: Mapping[str, str] = field(default_factory=dict)

    def build(self, weights: str | None = None, build: Build = build_network) -> nn.Module:
        """Build the network for the layers of the file, without loading them.

        Args:
            weights: Pretrained weights, as `front_end.weights` names them, on which a network of a
                file with only trained weights is built.
            build: Function that builds a network with such weights.

        Raises:
            UsageError: `folder` does not exist.
            AsdfError: the class is neither ours nor in `folder`, the file lacks layers of the
                network, the network cannot be built, or the weights cannot be read.
        """
        settings, folder = self.settings, self.folder
        if folder is not None and not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder}{from_here(folder)} for the module of the network's "
                "class. Check the path."
            )
        front_ends = named_classes(FRONT_END_SETTING, settings.front_end.front_end_class)
        back_ends = named_classes(BACK_END_SETTING, settings.back_end.back_end_class)
        classes = [settings.network.network_class, *front_ends, *back_ends]
        others = [path for path in classes if not is_ours(path, f"in {self.source}: {path}")]
        for path in others:
            check_folder(path, folder, self.source)
        if not others:
            self._compare(weights is not None)
        # Reading a file must not advance the caller's random state.
        with torch.random.fork_rng(devices=[]):
            return build(self._with_weights(weights), folder)

    def _with_weights(self, weights: str | None) -> Sections:
        """Return the settings with other weights, since the original ones may be gone."""
        front_end = replace(self.settings.front_end, weights=weights)
        return replace(self.settings, front_end=front_end)

    def _compare(self, on_base: bool) -> None:
        """Compare the layers of the file with the network, which is built without values.

        Args:
            on_base: Whether pretrained weights have layers that the file lacks.

        Raises:
            AsdfError: its description has more layers than the file justifies, or other ones.
        """
        allowed, made, thread = len(self.state) + _MORE_PARAMETERS, count(1), get_ident()

        # Called for each parameter that a module gets, in any thread.
        def stop(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
            if get_ident() == thread and next(made) > allowed:
                raise AsdfError(
                    f"the network {self.source} is described with far more layers than the file's "
                    f"{len(self.state):,}. It is damaged."
                )

        with without_numbers(), register_module_parameter_registration_hook(stop):
            network = build_network(self._with_weights(None))
        absent = resting_layers(network, self.settings.front_end.frozen) if on_base else ()
        resting = {name for name in absent if name not in self.state}
        layers = network.state_dict().items()
        shapes = {name: tensor.shape for name, tensor in layers if name not in resting}
        name = self.settings.network.network_class.rpartition(".")[2]
        names = dict(self.own_names)
        if names:
            # Published files name the part after a front end as if it stood alone.
            names = {**{each: each.removeprefix("back_end.") for each in shapes}, **names}
        advice = OTHER_ARCHITECTURE if on_base else self.advice
        check_layers(shapes, self.state, name, self.source, advice, self.ignored, names)


def is_ours(class_path: str, where: str) -> bool:
    """Whether `asdf.networks` or an extra defines this class; other modules are not imported.

    Raises:
        UsageError: the path points into `asdf.networks`, but not to a network.
    """
    if not class_path.startswith(f"{OURS}."):
        return False
    # By the defining module, since asdf.networks also imports names of others.
    module = find_class(class_path, None, where, nn.Module).__module__
    extra = network_modules().get(class_path.removeprefix(f"{OURS}."))
    return module.startswith(f"{OURS}.") or module == extra


def check_folder(class_path: str, folder: Path | None, source: str) -> None:
    """Accept a class whose module lies in `folder`, since files may not name other code."""
    module = class_path.partition(".")[0]
    files = (f"{module}.py", f"{module}/__init__.py")
    if folder and any((folder / name).is_file() for name in files):
        return
    elsewhere = f" and has no module in {folder}" if folder else ""
    raise AsdfError(
        f"the network {source} is of the class {class_path}, which is not part of "
        f"{OURS}{elsewhere}. A file may not choose what is imported: if you trust it, name the "
        "folder that contains the module of the class."
    )


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
                rest = self.without(described.state)
                held = {name: one for name, one in described.state.items() if name not in rest}
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
    values: dict[str, Any] = entry if isinstance(entry, dict) else {}
    class_path, gives_logits = values.get("class"), values.get("gives_logits")
    dimension: Any = values.get("dimension")
    columns: Any = values.get("values", {})
    lists: list[Any] = list(columns.values()) if isinstance(columns, dict) else [None]
    is_described = (
        isinstance(class_path, str)
        and isinstance(gives_logits, bool)
        # bool is a subclass of int.
        and type(dimension) is int
        and 0 <= dimension <= MAX_LAYER_WIDTH
        and all(isinstance(texts, list) for texts in lists)
        and all(isinstance(text, str) for texts in lists for text in texts)
    )
    if not is_described:
        raise AsdfError(
            f"the entry 'loss' of {described.source} does not describe a loss. {LOSS.advice}"
        )
    if gives_logits:
        loss = LOSS.build(
            str(class_path),
            lambda kind: kind.of_values(described.settings, dimension, columns),
            described,
        )
        attach_loss(network, loss)
    return bool(gives_logits)


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
