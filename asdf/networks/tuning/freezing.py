"""What of a front end is trained: all or nothing of it by epoch, parts, or low-rank updates.

Invariant: whether the front end's weights are trained in an epoch depends only on the settings and
the epoch's number, so a resumed run continues exactly. The optimiser holds the weights of a frozen
front end from the start: without gradients it neither moves nor decays them.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torch import nn

from asdf.errors import UsageError
from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.trained_parts import all_parameters
from asdf.networks.interface import NetworkSections, front_end_parameters, untrained_parameters
from asdf.networks.tuning.low_rank import add_low_rank
from asdf.settings.sections import FrontEnd as FrontEndSettings

# Names of the parameters trained before a network's front end was frozen. Names stay valid when
# parameters are replaced.
_LEARNT: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()


def tune_front_ends(network: nn.Module, settings: NetworkSections) -> None:
    """Add `lora` to the network's front ends, and set what of them is trained.

    Updates are added after pretrained weights are loaded, which see the plain modules.

    Raises:
        UsageError: the network has no front end to which the settings apply, or it lacks a part
            that they name.
    """
    front_ends = [module for module in network.modules() if isinstance(module, FrontEnd)]
    # Settings that only apply to networks with a front end.
    needed = {
        "lora.rank": settings.lora.rank,
        "front_end.trained_parts": settings.front_end.trained_parts is not None,
    }
    setting = next((name for name, is_set in needed.items() if is_set), "")
    if setting and not front_ends:
        class_path = settings.network.network_class
        raise UsageError(
            f"{setting}: {class_path} has no front end of asdf.networks.FrontEnd to apply it to. "
            f"Leave {setting} out, or choose another network.network_class."
        )
    if settings.lora.rank:
        for front_end in front_ends:
            plain = frozenset(name for name, _ in all_parameters(front_end))
            add_low_rank(front_end, settings.lora)
            # The updates alone are trained, unless parts are named.
            if settings.front_end.trained_parts is None:
                front_end.resting = plain
            front_end.freeze(front_end.frozen)
    # Otherwise processes would wait for gradients of unused parameters, which never arrive.
    for parameter in untrained_parameters(network):
        parameter.requires_grad_(False)
    if settings.front_end.frozen:
        freeze_front_end(network, True)


def frozen_in_epoch(settings: FrontEndSettings, epochs: int) -> bool:
    """Return whether the front end is frozen in the epoch after `epochs` whole epochs."""
    if settings.frozen:
        return True
    if settings.unfreeze_after_epochs is None:
        return False
    return epochs < settings.unfreeze_after_epochs


def freeze_front_end(network: nn.Module, frozen: bool) -> None:
    """Freeze or unfreeze the front end's weights.

    A frozen front end runs without dropout and masks. A user's module that is not a `FrontEnd`
    takes part with the parameters in its network's `front_end_parameters`. Unfreezing restores only
    the parameters that were trained before, since the loss or the network's class may have frozen
    others.
    """
    # If the front end is frozen already, its trained parameters are recorded, or there are none.
    if frozen and any(parameter.requires_grad for parameter in _all_front_end_parameters(network)):
        learning = [name for name, value in network.named_parameters() if value.requires_grad]
        _LEARNT[network] = frozenset(learning)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            module.freeze(frozen)
            module.train(network.training)
    # Parameters that `forward` does not use, and resting ones, are never trained.
    untrained = {id(parameter) for parameter in untrained_parameters(network)}
    for parameter in front_end_parameters(network):
        parameter.requires_grad_(not frozen and id(parameter) not in untrained)
    learnt = _LEARNT.get(network)
    if frozen or learnt is None:
        return
    of_front_ends = {id(parameter) for parameter in _all_front_end_parameters(network)}
    for name, parameter in network.named_parameters():
        if id(parameter) in of_front_ends and name not in learnt:
            parameter.requires_grad_(False)


def _all_front_end_parameters(network: nn.Module) -> Iterator[nn.Parameter]:
    yield from front_end_parameters(network)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            yield from (parameter for _, parameter in all_parameters(module))
