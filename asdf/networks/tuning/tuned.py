"""The trained parts of pretrained front ends, and the modules added for training them.

Invariant: updates and adapters initially have no effect, so a network starts as it would without
them; prompts do have one. All are added after pretrained weights are loaded, which therefore see
the original modules and names.
"""

from __future__ import annotations

from torch import nn

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.trained_parts import all_parameters
from asdf.networks.interface import untrained_parameters
from asdf.networks.tuning.adapters import add_adapters, add_feature_adapter
from asdf.networks.tuning.freezing import freeze_front_end
from asdf.networks.tuning.low_rank_maps import add_low_rank
from asdf.networks.tuning.prompts import add_prompts
from asdf.networks.views import NetworkSections


def tune_front_ends(network: nn.Module, settings: NetworkSections) -> None:
    """Add `lora`, `adapter` and `prompt` to the network's front ends, and set what is trained.

    Raises:
        UsageError: the network has no front end to which the settings apply, or it lacks a part
            that they name.
    """
    front_ends = [module for module in network.modules() if isinstance(module, FrontEnd)]
    # Settings that only apply to networks with a front end.
    needed = {
        "lora.rank": settings.lora.rank,
        "adapter.width": settings.adapter.width,
        "prompt.tokens": settings.prompt.tokens,
        "prompt.wavelet_tokens": settings.prompt.wavelet_tokens,
        "front_end.trained_parts": settings.front_end.trained_parts is not None,
    }
    setting = next((name for name, is_set in needed.items() if is_set), "")
    if setting and not front_ends:
        class_path = settings.network.network_class
        raise UsageError(
            f"{setting}: {class_path} has no front end of asdf.networks.FrontEnd to apply it to. "
            f"Leave {setting} out, or choose another network.network_class."
        )
    for front_end in front_ends:
        _tune_front_end(front_end, settings)
    if settings.adapter.width and "after" in settings.adapter.positions:
        add_feature_adapter(network, settings.adapter)
    # Otherwise processes would wait for gradients of unused parameters, which never arrive.
    for parameter in untrained_parameters(network):
        parameter.requires_grad_(False)
    if settings.front_end.frozen:
        freeze_front_end(network, True)


def adds_to_front_end(settings: NetworkSections) -> bool:
    """Return whether modules are added to the front end, whose own weights are then frozen."""
    return bool(settings.lora.rank) or _adapts_layers(settings) or _prompts(settings)


def _adapts_layers(settings: NetworkSections) -> bool:
    adapter = settings.adapter
    return bool(adapter.width) and bool({"before", "layers"} & set(adapter.positions))


def _prompts(settings: NetworkSections) -> bool:
    return bool(settings.prompt.tokens or settings.prompt.wavelet_tokens)


def _tune_front_end(front_end: FrontEnd, settings: NetworkSections) -> None:
    if not adds_to_front_end(settings):
        return
    # The names before additions, which alone are trained by default.
    base = frozenset(name for name, _ in all_parameters(front_end))
    if settings.lora.rank:
        add_low_rank(front_end, settings.lora)
    if _adapts_layers(settings):
        add_adapters(front_end, settings.adapter)
    if _prompts(settings):
        add_prompts(front_end, settings.prompt)
    if settings.front_end.trained_parts is None:
        front_end.resting = base
    front_end.freeze(front_end.frozen)
