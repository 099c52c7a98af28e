"""When the front end learns.

Invariant: what the front end's weights do in an epoch follows from the settings and the epoch's
number alone, so that a resumed run goes on exactly. The optimiser holds the weights of a front end
that is still frozen from the start: without gradients it neither moves nor decays them.
"""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from torch import nn

from asdf.networks.front_ends.front_end import FrontEnd
from asdf.networks.front_ends.trained_parts import all_parameters
from asdf.networks.interface import front_end_parameters, untrained_parameters
from asdf.settings.sections import FrontEnd as FrontEndSettings

# The names of what learnt before a network's front end was frozen. Names outlast the parameters,
# which dividing the network over processes replaces.
_LEARNT: WeakKeyDictionary[nn.Module, frozenset[str]] = WeakKeyDictionary()


def frozen_in_epoch(settings: FrontEndSettings, epochs: int) -> bool:
    """Return whether the front end is frozen in the epoch that follows `epochs` whole ones."""
    if settings.frozen:
        return True
    if settings.unfreeze_after_epochs is None:
        return False
    return epochs < settings.unfreeze_after_epochs


def freeze_front_end(network: nn.Module, frozen: bool) -> None:
    """Let the front end's weights stay as they are, or learn.

    While they stay it runs without dropout and masks. A module of a user's that is no `FrontEnd`
    takes part with what its network names in `front_end_parameters`. After a time of rest only that
    learns again which learnt before: the loss, or the network's class, may have frozen the others.
    """
    # Where the front end rests already, what learnt before is known, or nothing of it ever did.
    if frozen and any(parameter.requires_grad for parameter in _all_front_end_parameters(network)):
        learning = [name for name, value in network.named_parameters() if value.requires_grad]
        _LEARNT[network] = frozenset(learning)
    for module in network.modules():
        if isinstance(module, FrontEnd):
            module.freeze(frozen)
            module.train(network.training)
    # What `forward` does not use learns in no epoch, and neither does what rests.
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
