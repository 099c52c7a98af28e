"""The state of an optimiser in a checkpoint: saved, and loaded into another of its class.

Invariants: moments and counters of an optimiser come from the checkpoint; its options, such as
rates and weight decay, come from the settings. A resumed run therefore takes the steps of an
uninterrupted one, and its rates can still be changed.
"""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor

from asdf.errors import AsdfError
from asdf.training.parameter_groups import Group

# The classes behind short names, which checkpoints do not name: the first two have the same
# moments, and a run may change from one to the other.
_OURS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
_CLASS = "class"
# Options of a group that the settings determine for every optimiser.
_SET = ("params", "lr", "base_lr", "weight_decay")


def optimiser_state(optimiser: torch.optim.Optimizer) -> dict[str, Any]:
    """Return an optimiser's content of a checkpoint: torch's state, and the name of its class."""
    state = optimiser.state_dict()
    name = _class_name(optimiser)
    return {**state, _CLASS: name} if name else state


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load what `optimiser_state` has returned; rates, decay and the like stay those of the
    settings.

    Raises:
        AsdfError: the state is of another optimiser, or of other groups of parameters; `optimiser`
            is unchanged.
    """
    is_of_class = state.get(_CLASS, "") == _class_name(optimiser)
    if not is_of_class or _shapes_of(optimiser.param_groups) != _shapes_of(state["param_groups"]):
        raise AsdfError(
            "the checkpoint was trained with another optimiser, or other parameters were trained "
            "or decayed. Set network.optimizer, network.weight_decay_skiplist and front_end.frozen "
            "to what they were (settings.py in the system folder), or give this run another "
            "paths.system_folder."
        )
    # torch uses the options to place the moments: the location of Adam's step count depends on
    # whether the optimiser is fused, which may differ from the checkpoint's.
    groups = []
    options = {*inspect.signature(type(optimiser)).parameters, *_SET}
    for group, saved in zip(optimiser.param_groups, state["param_groups"], strict=True):
        counted = {}
        # Values that another class has stored in a group, such as a step count. In groups of
        # torch's own classes, all entries are options.
        if type(optimiser) not in _OURS:
            counted = {key: saved[key] for key in saved if key not in options}
        groups.append({**group, **counted, "params": saved["params"]})
    content = {key: value for key, value in state.items() if key != _CLASS}
    optimiser.load_state_dict({**content, "param_groups": groups})
    for moments in optimiser.state.values():
        if not isinstance(moments, dict):
            continue
        # Copy mapped moments that the optimiser has taken over from the file.
        for name, value in moments.items():
            if isinstance(value, Tensor) and value.device.type == "cpu":
                moments[name] = value.clone()
    if isinstance(optimiser, torch.optim.SGD):
        begin_momentum(optimiser)


def begin_momentum(optimiser: torch.optim.SGD) -> None:
    """Start the momentum of fused SGD at zeros, which gives the same first step.

    Otherwise it starts with the first gradient. If fp16 overflows in that step, which is common,
    the kernel leaves uninitialised memory as momentum. Without fusing, SGD with fp16 makes the host
    wait for the GPU in each step.
    """
    for group in optimiser.param_groups:
        if not (group["fused"] and group["momentum"]):
            continue
        for parameter in group["params"]:
            state = optimiser.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(parameter)


def _class_name(optimiser: torch.optim.Optimizer) -> str:
    """Return the name of the optimiser's class; '' for the classes of short names."""
    kind = type(optimiser)
    # Without its module, which may differ between versions of torch.
    return "" if kind in _OURS else kind.__qualname__


def _shapes_of(groups: list[Group]) -> list[tuple[bool, int]]:
    """Return the properties in which groups of a checkpoint and an optimiser must agree."""
    # Adam and AdamW have the same moments, and the option `betas`, which SGD lacks.
    return [("betas" in group, len(group["params"])) for group in groups]
