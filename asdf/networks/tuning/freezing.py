"""Freezing and training the front end by epoch.

Invariant: whether the front end's weights are trained in an epoch depends only on the settings and
the epoch's number, so a resumed run continues exactly. The optimiser holds the weights of a frozen
front end from the start: without gradients it neither moves nor decays them.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torch import nn

from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.trained_parts import all_parameters
from asdf.networks.interface import front_end_parameters, untrained_parameters
from asdf.settings.sections import FrontEnd as FrontEndSettings

# Names of the parameters trained before a network's front end was frozen. Names stay valid when
# sharding replaces the parameters.
_LEARNT: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()


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
