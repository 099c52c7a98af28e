"""How much memory training takes, for a dry run; the network is built with its weights on the way, as a run would."""

from __future__ import annotations

from typing import TYPE_CHECKING

from asdf.data.training_plan import minibatch_per_process
from asdf.errors import AsdfError
from asdf.recipe.checks import build_with_weights, is_bundle
from asdf.recipe.folders import Folders
from asdf.settings.sections import Network, Sections

if TYPE_CHECKING:
    from asdf.networks.outline import Outline

_FLOAT = 4  # bytes


def training_memory(settings: Sections, folders: Folders, world_size: int) -> list[str]:
    """The memory that a process needs for weights, gradients, optimiser and a minibatch, a line each.

    Raises:
        AsdfError: the network cannot be built, or its weights cannot be read or do not fit.
    """
    from asdf.networks.outline import outline

    architecture = _architecture(settings, folders)
    try:
        outlined = outline(settings, architecture, folders.recipe)
    except AsdfError:
        raise
    except Exception as error:  # a network may look at its numbers, which an outline does not have
        reason = str(error).partition("\n")[0]
        return [f"not known: {settings.network.network_class} cannot be outlined ({reason})"]
    minibatch = minibatch_per_process(settings.network, world_size)
    return _lines(settings.network, outlined, minibatch)


def _architecture(settings: Sections, folders: Folders) -> str:
    """The front end's architecture, as the weights have it, which are opened and fitted for it."""
    from asdf.networks.build import self_contained
    from asdf.networks.download import bundle_architecture

    weights = settings.front_end.weights
    if weights is not None and is_bundle(weights):  # a dry run fetches nothing
        return bundle_architecture(weights.partition(":")[2]).to_text()
    network = build_with_weights(settings, folders, folders.recipe)
    return self_contained(settings.front_end, network).architecture


def _lines(network: Network, outlined: Outline, minibatch: int) -> list[str]:
    moments = {"sgd": 1 if network.momentum else 0, "adam": 2, "adamw": 2}[network.optimizer]
    weights = _FLOAT * outlined.parameters
    learning = _FLOAT * outlined.trainable * (1 + moments)
    examples = minibatch * outlined.example_bytes
    return [
        f"{outlined.parameters:,} parameters, {outlined.trainable:,} of them trained",
        f"{_size(weights)} weights + {_size(learning)} gradients and {moments} moments of {network.optimizer} "
        f"+ {_size(examples)} of a minibatch = {_size(weights + learning + examples)}",
        f"a minibatch: {minibatch} x {_size(outlined.example_bytes)}, what the backward pass of an "
        f"example of {network.train_clip_size:,} samples keeps in float32",
        "(about half of that under bf16 or fp16); what the device's libraries need comes on top",
    ]


def _size(count: int) -> str:
    return f"{count / 1e9:.2f} GB" if count >= 1e7 else f"{count / 1e6:.2f} MB"
