"""The units of a network that are gathered one at a time when it is sharded over processes.

Invariant: a unit is computed as a whole, equally often by every process, and nothing else uses its
parameters.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torchaudio.models.wav2vec2.components import Transformer

from asdf.distributed.outlines import is_outlined
from asdf.errors import AsdfError, UsageError
from asdf.networks.build import build_network
from asdf.settings.sections import Sections


def encoder_units(network: nn.Module) -> list[nn.Module]:
    """Return the encoder layers of the network's front ends of the wav2vec 2.0 family.

    Layers of a user's own networks are included. The convolutional stem is excluded, since it
    recomputes its utterances in groups to save memory, and processes may have different numbers of
    groups; so is WavLM's first layer, whose position biases all layers use.
    """
    units: list[nn.Module] = []
    for module in network.modules():
        if not isinstance(module, Transformer):
            continue
        for layer in module.layers:
            if getattr(layer.attention, "rel_attn_embed", None) is None:
                units.append(layer)
    return units


def check_network_divisible(settings: Sections, folder: Path | None) -> None:
    """Check as in `check_divisible`, from the shapes alone, before the network is built.

    Args:
        folder: Folder of the recipe with the user's own modules.
    """
    # Pretrained weights change no shapes except through their architecture, which has layers, too.
    front_end = replace(settings.front_end, weights=None)
    try:
        with torch.random.fork_rng(devices=[]), FakeTensorMode():
            network = build_network(replace(settings, front_end=front_end), folder)
    except AsdfError:
        # A constructor that reads values of tensors: the network is checked when it is sharded.
        return
    check_divisible(network, settings.network.network_class)


def check_divisible(network: nn.Module, network_class: str) -> None:
    """Check that the network can be sharded and that this saves memory.

    Raises:
        UsageError: it has no encoder layers, or has a parameter that is a single number or a
            transposed view.
    """
    about = f"computing.shard_network = True: {network_class} "
    advice = "set computing.shard_network = False."
    if not encoder_units(network):
        raise UsageError(
            f"{about}has no front end of the wav2vec 2.0 family with encoder layers to gather one "
            f"at a time. Choose another network.network_class, or {advice}"
        )
    for name, parameter in network.named_parameters():
        if parameter.dim() == 0:
            raise UsageError(
                f"{about}has a parameter, {name}, that is a single number and cannot be divided. "
                f"Give it the shape (1,), or {advice}"
            )
        if not parameter.is_contiguous() and not is_outlined(parameter):
            raise UsageError(
                f"{about}has a parameter, {name}, that is not contiguous. Make it so with "
                f".contiguous(), or {advice}"
            )
