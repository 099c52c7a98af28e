"""Networks described by files, compared with the files before memory is used for them.

Invariant: only classes of ours, or in a folder that the caller names, are imported for a file. A
network of ours is built only if each of its layers is in the file with its shape, so a file cannot
request more memory than it justifies. Shapes come from torch's meta device, where tensors have no
values.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asdf.checkpoint.base_weights import resting_layers
from asdf.checkpoint.fitting import OTHER_ARCHITECTURE, check_layers
from asdf.errors import AsdfError, UsageError
from asdf.networks.autocast import without_numbers
from asdf.networks.build import build_network
from asdf.networks.rawnet2 import RawNet2
from asdf.networks.ssl_detector import (
    BACK_END_SETTING,
    FRONT_END_SETTING,
    PairedDetector,
    SSLDetector,
    find_back_end_class,
    find_front_end_class,
)
from asdf.ports import provided
from asdf.settings.catalogue import named_classes
from asdf.settings.class_path import find_class
from asdf.settings.sections import Sections
from asdf.text import from_here

OURS = "asdf.networks"
# More than any encoder has.
_MAX_LAYERS = 1000

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

    def build(self) -> nn.Module:
        """Build the network for the layers of the file, without loading them.

        Raises:
            UsageError: `folder` does not exist.
            AsdfError: the class is neither ours nor in `folder`, the file lacks layers of the
                network, or the network cannot be built.
        """
        settings = self._with_weights(None)
        if self._is_ours():
            layers = self._outline(len(self.state)).state_dict()
            self._check({name: layer.shape for name, layer in layers.items()}, self.advice)
        # Reading a file must not advance the caller's random state.
        with torch.random.fork_rng(devices=[]):
            return build_network(settings, self.folder)

    def build_on_base(self, weights: str, build: Build) -> nn.Module:
        """Build the network of a file with only trained weights, on pretrained weights.

        Args:
            weights: Pretrained weights, as `front_end.weights` names them.

        Raises:
            UsageError, AsdfError: as in `build`, or the weights cannot be read.
        """
        if self._is_ours():
            # The base has the layers that the file lacks; no encoder has as many as the limit.
            network = self._outline(max(len(self.state), _MAX_LAYERS))
            resting = set(resting_layers(network, self.settings.front_end.frozen))
            shapes = {}
            for name, tensor in network.state_dict().items():
                if name not in resting or name in self.state:
                    shapes[name] = tensor.shape
            self._check(shapes, OTHER_ARCHITECTURE)
        with torch.random.fork_rng(devices=[]):
            return build(self._with_weights(weights), self.folder)

    def _with_weights(self, weights: str | None) -> Sections:
        """Return the settings with other weights, since the original ones may be gone."""
        front_end = replace(self.settings.front_end, weights=weights)
        return replace(self.settings, front_end=front_end)

    def _check(self, shapes: Mapping[str, torch.Size], advice: str) -> None:
        name = self.settings.network.network_class.rpartition(".")[2]
        names = dict(self.own_names)
        if names:
            # Published files name the part after a front end as if it stood alone.
            names = {**{each: each.removeprefix("back_end.") for each in shapes}, **names}
        check_layers(shapes, self.state, name, self.source, advice, self.ignored, names)

    def _is_ours(self) -> bool:
        """Return whether all classes in the file are ours; others must lie in `folder`.

        Raises:
            UsageError: `folder` does not exist.
            AsdfError: a class is neither ours nor in the folder.
        """
        folder = self.folder
        if folder is not None and not folder.is_dir():
            raise UsageError(
                f"there is no folder {folder}{from_here(folder)} for the module of the network's "
                "class. Check the path."
            )
        settings = self.settings
        front_ends = named_classes(FRONT_END_SETTING, settings.front_end.front_end_class)
        back_ends = named_classes(BACK_END_SETTING, settings.back_end.back_end_class)
        classes = [settings.network.network_class, *front_ends, *back_ends]
        others = [path for path in classes if not is_ours(path, f"in {self.source}: {path}")]
        for path in others:
            check_folder(path, folder, self.source)
        return not others

    def _outline(self, layers: int) -> nn.Module:
        """Return the network without values, with at most `layers` layers.

        Raises:
            AsdfError: its description has more layers, or the settings build no network.
        """
        described = self._count_described()
        if described > layers:
            raise AsdfError(
                f"the network {self.source} is described with {described:,} layers, and the file "
                f"holds {layers:,}. It is damaged."
            )
        with without_numbers():
            return build_network(self._with_weights(None))

    def _count_described(self) -> int:
        """Return a lower bound of the network's layers, without building it."""
        settings = self.settings
        class_path = settings.network.network_class
        network_class = find_class(class_path, None, "network.network_class", nn.Module)
        counts = [0]
        if issubclass(network_class, PairedDetector | RawNet2):
            counts.append(network_class.min_layers(settings.back_end))
        if issubclass(network_class, SSLDetector):
            named = find_front_end_class(settings.front_end)
            front_end_class = named or network_class.front_end_class
            counts.append(front_end_class.min_layers(settings.front_end))
            back_end_class = find_back_end_class(settings.back_end)
            if back_end_class is not None:
                counts.append(back_end_class.min_layers(settings.back_end))
        return max(counts)


def is_ours(class_path: str, where: str) -> bool:
    """Whether `asdf.networks` or an extra defines this class; other modules are not imported.

    Raises:
        UsageError: the path points into `asdf.networks`, but not to a network.
    """
    if not class_path.startswith(f"{OURS}."):
        return False
    # By the defining module, since asdf.networks also imports names of others.
    module = find_class(class_path, None, where, nn.Module).__module__
    extra = provided("NETWORKS").get(class_path.removeprefix(f"{OURS}."))
    return module.startswith(f"{OURS}.") or module == extra


def check_folder(class_path: str, folder: Path | None, source: str) -> None:
    """Accept a class whose module lies in `folder`, since files may not name other code."""
    if folder is not None:
        module = class_path.partition(".")[0]
        as_file = folder / f"{module}.py"
        as_package = folder / module / "__init__.py"
        if as_file.is_file() or as_package.is_file():
            return
    elsewhere = f" and has no module in {folder}" if folder else ""
    raise AsdfError(
        f"the network {source} is of the class {class_path}, which is not part of "
        f"{OURS}{elsewhere}. A file may not choose what is imported: if you trust it, name the "
        "folder that contains the module of the class."
    )
