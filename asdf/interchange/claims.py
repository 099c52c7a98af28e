"""What a network file's settings would build, held against what the file holds, before memory is taken for it.

Invariant: nothing is imported that a file names, but classes of ours and those in a folder that the caller names. A
network of ours is built only if each of its layers is in the file, in its shape; so a file cannot ask
for more memory than it brings. Shapes are had from torch's meta device, where tensors have no numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks.architectures import Architecture
from asdf.networks.build import build_network
from asdf.settings.class_path import find_class
from asdf.settings.sections import Sections

OURS = "asdf.networks"


def build_for(
    settings: Sections,
    layers: int,
    path: Path,
    folder: Path | None,
    check: Callable[[dict[str, torch.Size]], None],
) -> nn.Module:
    """The network that `settings` describe, for the weights of a file: without pretrained ones, not yet loaded.

    Args:
        layers: how many layers the file holds.
        check: is given the shapes of the layers before memory is taken for them, if the class is one of ours.

    Raises:
        UsageError: there is no such `folder`.
        AsdfError: the class is neither ours nor in `folder`, or the network cannot be built.
    """
    if folder is not None and not folder.is_dir():
        raise UsageError(
            f"there is no folder {folder} for the module of the network's class. Check the path; it is relative to "
            f"{Path.cwd()}."
        )
    settings = replace(settings, front_end=replace(settings.front_end, weights=None))
    if is_ours(settings.network.network_class, f"in {path}: network.network_class"):
        check(shapes_of(settings, layers, path))
    else:
        _check_folder(settings.network.network_class, folder, path)
    with torch.random.fork_rng(
        devices=[]
    ):  # the caller's random numbers are no matter of a file that is read
        return build_network(settings, folder)


def is_ours(class_path: str, where: str) -> bool:
    """Whether this is a class that `asdf.networks` itself defines; another module is not even imported.

    Raises:
        UsageError: the path leads into `asdf.networks`, but to no network.
    """
    if not class_path.startswith(f"{OURS}."):
        return False
    return find_class(class_path, None, where, nn.Module).__module__.startswith(f"{OURS}.")


def shapes_of(settings: Sections, layers: int, path: Path) -> dict[str, torch.Size]:
    """Names and shapes of the layers of the network of ours that `settings` build.

    Args:
        layers: how many the file holds; a network of more modules than that is not even outlined.

    Raises:
        AsdfError: the settings ask for more layers than there are, or build no network.
    """
    architecture = Architecture.from_text(settings.front_end.architecture)
    asked = max(architecture.layers, len(architecture.conv_layers))
    name = settings.network.network_class.rpartition(".")[2]
    if name == "SSL_Nes2NetX":
        asked = max(asked, math.prod(settings.back_end.nes2net_splits))
    if name.startswith("SSL_") and asked > layers:
        raise AsdfError(
            f"the network {path} is described with {asked:,} layers, and the file holds {layers:,}. It is damaged."
        )
    with torch.device("meta"):
        network = build_network(settings)
    return {name: tensor.shape for name, tensor in network.state_dict().items()}


def differences(
    found: Mapping[str, Any], have: Mapping[str, torch.Size], extra: Collection[str] = ()
) -> list[str]:
    """How a file's layers, `extra` ones aside, differ from those of a network: a line each."""
    shapes: dict[str, Any] = {
        name: tuple(value.shape) if isinstance(value, Tensor) else f"a {type(value).__name__}"
        for name, value in found.items()
    }
    own = {name: tuple(shape) for name, shape in have.items()}
    return [
        f"{name}: {shapes.get(name, 'not in the file')}, the network has {own.get(name, 'no such layer')}"
        for name in sorted(own.keys() | (shapes.keys() - set(extra)))
        if own.get(name) != shapes.get(name)
    ]


def _check_folder(class_path: str, folder: Path | None, path: Path) -> None:
    """Let through a class whose module lies in `folder`; a file may not name anything else that is imported."""
    top = class_path.partition(".")[0]
    if folder is not None and (
        (folder / f"{top}.py").is_file() or (folder / top / "__init__.py").is_file()
    ):
        return
    raise AsdfError(
        f"the network {path} is of the class {class_path}, which is not of {OURS}"
        + (f" and has no module in {folder}" if folder else "")
        + ". A file may not name what is imported: "
        "name the folder in which the module of your own class lies, if you trust it."
    )
