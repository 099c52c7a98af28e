"""A complete network from which training starts, such as a detector of the hub.

Invariant: the config determines what is trained, as always. If it describes another network than
the initial one, it is refused with the lines that it lacks. Only layers that the config adds are
missing in the initial network, and are initialised randomly.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from torch import nn

from asdf.checkpoint.fitting import load_layers
from asdf.errors import UsageError
from asdf.interchange.named_networks import read_detector
from asdf.networks.build import build_network
from asdf.runs.log import LOG
from asdf.settings.sections import OF_EXTRAS, Sections

SETTING = "network.initial_network"
_FRONT_END = (
    *("front_end_class", "architecture", "layer"),
    *("normalize_waveforms", "repeat_last_frame"),
)
# Layers that a config may add to a network; they are trained from scratch.
_ADDED = ("front_end.masking.", "frame_head.")


def build_on_network(settings: Sections, folder: Path, named: str) -> nn.Module:
    """Build the network of the settings with the weights of a complete network.

    Args:
        folder: Folder of the recipe, for modules of your own.
        named: Path of the network, in any supported layout, or a name on the hub.

    Raises:
        UsageError: the settings describe another network; the message has the lines to add.
        AsdfError: it cannot be read, or has other layers.
    """
    network, file = read_detector(named, folder)
    theirs = file.to_sections(folder=folder)
    lines = list(_lines_to_add(settings, theirs))
    if settings.front_end.weights is not None:
        lines.append("front_end.weights = None")
    if lines:
        listed = "\n".join(f"    {line}" for line in lines)
        raise UsageError(
            f"{SETTING} = {named!r}: the config describes another network than this one. Add to "
            f"the config:\n{listed}"
        )
    state = network.state_dict()

    def load(fresh: nn.Module) -> None:
        added = [
            name for name in fresh.state_dict() if name not in state and name.startswith(_ADDED)
        ]
        load_layers(fresh, state, named, absent=added)

    LOG.info("training starts from %s", named)
    return build_network(settings, folder, load)


def _lines_to_add(ours: Sections, theirs: Sections) -> Iterator[str]:
    """Yield the lines that turn the network of a config into the other one."""
    names = [("network", "network_class"), ("network", "score")]
    names += [("front_end", name) for name in _FRONT_END]
    names += [("back_end", each.name) for each in fields(theirs.back_end)]
    for section in ("audio", "spectrum", *OF_EXTRAS):
        names += [(section, each.name) for each in fields(getattr(theirs, section))]
    for section, name in names:
        wanted: Any = getattr(getattr(theirs, section), name)
        if getattr(getattr(ours, section), name) != wanted:
            yield f"{section}.{name} = {wanted!r}"
