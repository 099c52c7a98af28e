"""Which parts of a network are gathered one at a time where it is divided over several processes.

Invariant: a unit is computed as a whole, by every process equally often, and nothing else uses its
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
from asdf.networks.language_models.pretrained_language_model import PretrainedLanguageModel
from asdf.settings.sections import Sections


def encoder_units(network: nn.Module) -> list[nn.Module]:
    """Return the encoder layers of the network's front ends of the wav2vec 2.0 family, and those of
    language models with their audio towers.

    Those of a user's own networks as well. Not the convolutional stem, which recomputes its
    utterances in groups where memory is to be saved, and processes may have different numbers of
    groups; nor WavLM's first layer, whose position biases all layers use.
    """
    units: list[nn.Module] = []
    for module in network.modules():
        if isinstance(module, PretrainedLanguageModel):
            units += [*module.tower.layers, *module.layer_modules()]
        if not isinstance(module, Transformer):
            continue
        for layer in module.layers:
            if getattr(layer.attention, "rel_attn_embed", None) is None:
                units.append(layer)
    return units


def check_network_divisible(settings: Sections, folder: Path | None) -> None:
    """Do `check_divisible` before the network of the settings is built, from its shapes alone.

    Args:
        folder: the recipe's folder, where a user's own modules lie.
    """
    # They change no shape but those of their architecture, which has encoder layers as well.
    front_end = replace(settings.front_end, weights=None)
    try:
        with torch.random.fork_rng(devices=[]), FakeTensorMode():
            network = build_network(replace(settings, front_end=front_end), folder)
    except AsdfError:
        # A constructor that looks at numbers: the network is checked when it is divided.
        return
    check_divisible(network, settings.network.network_class)


def check_divisible(network: nn.Module, network_class: str) -> None:
    """Make sure that the network can be divided, and that this saves memory.

    Raises:
        UsageError: it has no encoder layers, or a parameter that is a single number or a transposed
            view.
    """
    about = f"computing.shard_network = True: {network_class} "
    advice = "set computing.shard_network = False."
    if not encoder_units(network):
        raise UsageError(
            f"{about}has no front end of the wav2vec 2.0 family, whose encoder layers could be "
            f"gathered one at a time. Choose another network.network_class, or {advice}"
        )
    for name, parameter in network.named_parameters():
        if parameter.dim() == 0:
            raise UsageError(
                f"{about}has a parameter, {name}, that is a single number and cannot be divided. "
                f"Give it the shape (1,), or {advice}"
            )
        if not parameter.is_contiguous() and not is_outlined(parameter):
            raise UsageError(
                f"{about}has a parameter, {name}, that is a view whose numbers do not lie in a "
                f"row. Make it with .contiguous(), or {advice}"
            )
