"""ASDF network files: a detector that is built from its own file alone.

Invariant: nothing in a file is executed. A file names its network's class, and only a class of `asdf.networks`, or
one in a folder that the caller names, is built; the rest of the file is plain values and tensors. The same file
gives the same network on every machine, whatever the settings there are.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asdf.distributed.sharding import divided_like
from asdf.errors import AsdfError
from asdf.interchange.claims import build_for, differences
from asdf.interchange.hub import is_hub_folder, read_hub_folder, read_safetensors_network
from asdf.interchange.weights_file import check_names, check_tensors, load_file
from asdf.networks.build import self_contained
from asdf.runs.files import atomic_write, write_advice
from asdf.settings.catalogue import catalogue, section_types
from asdf.settings.checks import check_value
from asdf.settings.mistakes import Complaint
from asdf.settings.sections import Sections
from asdf.text import lines_and_more, shorten

FORMAT = "asdf"
VERSION = 1
BUILDS = ("front_end", "back_end")
"""The sections that say how the project's classes are built."""
# The original framework kept these two numbers among the weights.
EXTRA = ("training_loss", "consecutive_lr_updates")
_SHOWN = 4

_log = logging.getLogger(__name__)


def read_network(path: str | Path, folder: Path | None = None) -> tuple[nn.Module, dict[str, Any]]:
    """The network of a file, in eval mode on the CPU, and the file's content.

    Args:
        path: a network file; or a safetensors file or a folder, as `export` writes them.
        folder: where the module of a user's own network class lies; without it only the project's classes are built.

    Raises:
        AsdfError: the file cannot be read, is no ASDF network, or its weights do not fit the network it describes.
    """
    path = Path(path)
    content = read_network_file(path)
    if content.get("format") != FORMAT or not isinstance(content.get("settings"), Mapping):
        raise AsdfError(
            f"{path} holds weights, but does not say of which network. Turn it into a network of ASDF first: "
            f"python -m asdf import {path} OUT"
        )
    state = content["model_state_dict"]
    check_tensors(
        {name: value for name, value in state.items() if isinstance(value, torch.Tensor)}, path
    )
    settings = settings_in(content, path)
    network = build_for(
        settings, len(state), path, folder, lambda shapes: _check_fit(path, content, shapes)
    )
    fill_network(path, content, network)
    return network.eval(), content


def write_network(
    path: str | Path, network: nn.Module, settings: Sections, extra: Mapping[str, Any] | None = None
) -> None:
    """Write a file that `read_network` builds the network from; `extra` are further entries, as 'calibration'.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; what was at `path` is unchanged.
    """
    write_content(Path(path), {**network_content(network, settings), **(extra or {})})


def network_content(network: nn.Module, settings: Sections) -> dict[str, Any]:
    """What a file holds of every network, checkpoint or not."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "network_class": settings.network.network_class,
        "settings": asdict(
            replace(settings, front_end=self_contained(settings.front_end, network))
        ),
        "model_state_dict": network.state_dict(),
    }


def write_content(path: Path, content: Mapping[str, Any]) -> None:
    """Write `content` to `path` atomically.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; what was at `path` is unchanged.
    """
    try:
        with atomic_write(path, "wb") as file:
            torch.save(dict(content), file)
    except RuntimeError as error:
        # torch's zip writer hides what the file system said behind an error of its own.
        if not isinstance(error.__context__, OSError):
            raise
        raise AsdfError(write_advice(path, error.__context__)) from error


def read_network_file(path: Path, mapped: bool = False) -> dict[str, Any]:
    """The content of a network file, on the CPU: at least a 'model_state_dict'.

    `path` may also be a safetensors file, or a folder with one and its `config.json`, as `export` writes them.

    Args:
        mapped: numbers are read from the file when they are copied, and processes of a node share the memory. Copy
            them at once: `write_content` may replace the file meanwhile, but whoever writes into it ends this process.

    Raises:
        AsdfError: there is no such file, or it is no network.
    """
    if is_hub_folder(path):
        return read_hub_folder(path)
    if path.suffix == ".safetensors":
        return read_safetensors_network(path)
    content = load_file(path, "the network", mapped)
    if not isinstance(content, dict) or not isinstance(content.get("model_state_dict"), dict):
        raise AsdfError(f"{path} is no network of ASDF: it holds no 'model_state_dict'.")
    check_names(content["model_state_dict"], path)
    return content


def settings_in(
    content: Mapping[str, Any],
    path: Path,
    base: Sections | None = None,
    sections: Collection[str] | None = None,
) -> Sections:
    """The settings that a file keeps, over `base` or else the defaults; what is not known here is passed over.

    Args:
        sections: names of the sections to take from the file; None: all.

    Raises:
        AsdfError: a value does not fit its setting.
    """
    kept, known = content.get("settings", {}), catalogue()
    chosen, unknown = (
        {name: vars(getattr(base or Sections(), name)).copy() for name in section_types()},
        [],
    )
    for section, values in kept.items() if isinstance(kept, Mapping) else ():
        if sections is not None and section not in sections:
            continue
        for name, value in values.items() if isinstance(values, Mapping) else ():
            full = f"{section}.{name}"
            if full not in known:
                unknown.append(full)
                continue
            try:
                chosen[section][name] = check_value(known[full], value)
            except Complaint as complaint:
                raise AsdfError(
                    f"the network {path} was made with {full} = {shorten(repr(value))}, which this ASDF does not "
                    f"take: {shorten(complaint.text, 500)}. The file is damaged, or a newer ASDF wrote it: then bring "
                    "yours up to date."
                ) from None
    if unknown:
        _log.warning(
            "%s: a newer ASDF wrote it; settings not known here are ignored: %s",
            path,
            ", ".join(unknown),
        )
    return Sections(**{name: kind(**chosen[name]) for name, kind in section_types().items()})


def fill_network(path: Path, content: Mapping[str, Any], network: nn.Module) -> None:
    """Put the weights of a file's `content` into `network`; `path` is for the message.

    Raises:
        AsdfError: the file is of another network; `network` is then unchanged.
    """
    weights = content["model_state_dict"]
    own = network.state_dict()
    _check_fit(path, content, {name: tensor.shape for name, tensor in own.items()})
    network.load_state_dict({name: divided_like(own[name], weights[name]) for name in own})


def _check_fit(path: Path, content: Mapping[str, Any], have: Mapping[str, torch.Size]) -> None:
    found = content["model_state_dict"]
    told = differences(found, have, [name for name in EXTRA if name not in have])
    if told:
        raise AsdfError(
            f"{path} is of another network than the settings build "
            f"({content.get('network_class', 'unknown class')}):"
            + lines_and_more(told, _SHOWN)
            + "\nSet network.network_class and front_end.architecture to those it was trained with, "
            "or give this run another paths.system_folder."
        )
