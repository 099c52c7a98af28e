"""The optimiser and the learning rate of each step.

Invariant: the learning rate is a function of the settings and of the run's progress, so nothing of a schedule needs
to be kept beside them; `base_lr` of a parameter group is its rate before any schedule.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from asdf.distributed.sharding import divided_like, is_part
from asdf.errors import AsdfError, UsageError
from asdf.networks import front_end_parameters
from asdf.settings.sections import Sections
from asdf.training.progress import Progress


def build_optimiser(network: nn.Module, settings: Sections) -> torch.optim.Optimizer:
    """The optimiser of `settings.network` over the parameters that are trained.

    The front end may have a learning rate of its own; `weight_decay_skiplist` takes parameters out of the decay by a
    part of their name or of their module's class name; upper and lower case are the same.
    """
    net = settings.network
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    groups: dict[tuple[bool, bool], list[nn.Parameter]] = {}
    for name, parameter, kind in _parameters(network):
        if parameter.requires_grad:
            texts = (name.lower(), kind.lower())
            decays = not any(
                part.lower() in text for part in net.weight_decay_skiplist for text in texts
            )
            groups.setdefault((id(parameter) in front_end, decays), []).append(parameter)
    if not groups:
        raise UsageError(
            "no parameter of the network is trained: is front_end.frozen on with nothing behind the front end?"
        )
    options: list[dict[str, Any]] = []
    for (is_front_end, decays), parameters in sorted(groups.items()):
        rate = net.initial_learning_rate
        if is_front_end and settings.front_end.learning_rate is not None:
            rate = settings.front_end.learning_rate
        decay = net.weight_decay if decays else 0.0
        options.append({"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay})
    # One kernel for all parameters; None leaves the choice to torch, which on the CPU takes them one by one.
    trained = [parameter for group in options for parameter in group["params"]]
    fused = (
        all(parameter.is_cuda and parameter.is_floating_point() for parameter in trained) or None
    )
    if net.optimizer == "sgd":
        optimiser = torch.optim.SGD(
            options, lr=net.initial_learning_rate, momentum=net.momentum, fused=fused
        )
        _begin_momentum(optimiser)
        return optimiser
    kind_of_adam = torch.optim.Adam if net.optimizer == "adam" else torch.optim.AdamW
    return kind_of_adam(options, lr=net.initial_learning_rate, betas=net.adam_betas, fused=fused)


def load_optimiser_state(optimiser: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Go on with the moments of a checkpoint; rates, decay and the like are those of the settings.

    Raises:
        AsdfError: the state is of another optimiser, or of other groups of parameters; `optimiser` is unchanged.
    """
    own, found = optimiser.param_groups, state["param_groups"]
    # Adam's groups have betas and SGD's have none; Adam and AdamW keep the same moments.
    if [("betas" in one, len(one["params"])) for one in own] != [
        ("betas" in one, len(one["params"])) for one in found
    ]:
        raise AsdfError(
            "the checkpoint was trained with another optimiser, or other parameters were trained or decayed. Set "
            "network.optimizer, network.weight_decay_skiplist and front_end.frozen to what they were "
            "(settings.py in the system folder), or give this run another paths.system_folder."
        )
    # The own options go in with the moments: where Adam's count of steps lives follows from whether it is fused.
    groups = [{**group, "params": one["params"]} for group, one in zip(own, found, strict=True)]
    moments = _moments_of_parts(optimiser, state)
    optimiser.load_state_dict({**state, "state": moments, "param_groups": groups})
    _copy_from_file(optimiser)
    if isinstance(optimiser, torch.optim.SGD):
        _begin_momentum(optimiser)


def _moments_of_parts(
    optimiser: torch.optim.Optimizer, state: dict[str, Any]
) -> dict[int, dict[str, Any]]:
    """The moments in `state`; those of a divided parameter as it is divided."""
    own = [parameter for group in optimiser.param_groups for parameter in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    parameters = dict(zip(numbers, own, strict=True))
    moments: dict[int, dict[str, Any]] = {}
    for number, found in state["state"].items():
        moments[number] = {
            name: divided_like(parameters[number], value) for name, value in found.items()
        }
    return moments


def _copy_from_file(optimiser: torch.optim.Optimizer) -> None:
    """Give the optimiser memory of its own where it took tensors as they are: they may be mapped from a file."""
    for moments in optimiser.state.values():
        for name, value in moments.items():
            # Parts of divided tensors are copies already.
            if isinstance(value, Tensor) and value.device.type == "cpu" and not is_part(value):
                moments[name] = value.clone()


def _begin_momentum(optimiser: torch.optim.SGD) -> None:
    """Let the momentum of fused SGD begin at zeros, which gives the same first step.

    By itself it begins with the first gradient; where fp16 overflows in that step, as it often does, the kernel leaves
    memory that nobody wrote as the momentum. Not fused, SGD makes the host wait for the GPU in each step with fp16.
    """
    for group in optimiser.param_groups:
        if not (group["fused"] and group["momentum"]):
            continue
        for parameter in group["params"]:
            state = optimiser.state[parameter]
            if state.get("momentum_buffer") is None:
                state["momentum_buffer"] = torch.zeros_like(parameter)


def set_learning_rate(
    optimiser: torch.optim.Optimizer, settings: Sections, progress: Progress, size: int
) -> float:
    """Set the rate of the coming step in every group and return the highest.

    Args:
        size: number of training utterances; an epoch gives each of them one turn.
    """
    factor = learning_rate_factor(settings, progress, size)
    least = settings.network.min_learning_rate if settings.network.schedule == "cosine" else 0.0
    for group in optimiser.param_groups:
        # The cosine ends at min_learning_rate for the main rate, and as far below its own for every other.
        ratio = least / settings.network.initial_learning_rate
        group["lr"] = group["base_lr"] * _warm(settings, progress) * (ratio + (1 - ratio) * factor)
    return max(float(group["lr"]) for group in optimiser.param_groups)


def learning_rate_factor(settings: Sections, progress: Progress, size: int) -> float:
    """Where the schedule stands, 1 to 0, without the warm-up.

    The cosine follows the turns of utterances, not steps, so it is the same on any number of processes.
    """
    net = settings.network
    if net.schedule == "constant":
        return 1.0
    if net.schedule == "plateau":
        return progress.learning_rate_factor
    done = (progress.epochs * size + progress.position) / (net.max_epochs * size)
    if net.max_steps is not None:
        done = max(done, progress.step / net.max_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))


def update_plateau(settings: Sections, progress: Progress, loss: float) -> str:
    """The plateau test at the end of an epoch: lowers the rate when the loss has improved too little.

    Returns a line for the log. `progress.finished` is set after `max_consecutive_lr_updates` in a row.
    """
    net = settings.network
    previous, progress.training_loss = progress.training_loss, loss
    if net.schedule != "plateau" or previous is None:
        return ""
    change = (previous - loss) / max(net.min_room_for_improvement, previous - net.target_loss)
    if change >= net.min_loss_change_ratio:
        progress.consecutive_lr_updates = 0
        return ""
    progress.learning_rate_factor *= net.lr_update_ratio
    progress.consecutive_lr_updates += 1
    progress.finished = plateau_end(settings, progress)
    return (
        f"the loss improved by {100 * change:.2f} %, less than {100 * net.min_loss_change_ratio:g} %: "
        f"learning rate times {net.lr_update_ratio:g}, update {progress.consecutive_lr_updates} in a row"
    )


def plateau_end(settings: Sections, progress: Progress) -> str:
    """Why the plateau schedule ends the training; '' while it does not."""
    updates, net = progress.consecutive_lr_updates, settings.network
    ended = net.schedule == "plateau" and updates >= net.max_consecutive_lr_updates
    return f"{updates} learning rate updates in a row" if ended else ""


def _warm(settings: Sections, progress: Progress) -> float:
    warmup = settings.network.warmup_steps
    return min(1.0, (progress.step + 1) / warmup) if warmup else 1.0


def _parameters(network: nn.Module) -> list[tuple[str, nn.Parameter, str]]:
    """Name, parameter and class name of the module that owns it; one that several modules share comes once."""
    owned: dict[int, tuple[str, nn.Parameter, str]] = {}
    for prefix, module in network.named_modules():
        for name, parameter in module.named_parameters(recurse=False):
            full = f"{prefix}.{name}" if prefix else name
            owned.setdefault(id(parameter), (full, parameter, type(module).__name__))
    return list(owned.values())
