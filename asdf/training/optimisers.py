"""The optimiser of the settings: one with a short name, or any class of torch or of the user.

A class that `network.optimizer` names by its path is an ordinary one, derived from
`torch.optim.Optimizer`, with a constructor that takes parameter groups and options with defaults,
and a `step()` without arguments. It is tested before training.

Invariant: a class that passes the check takes steps from gradients alone, and a run that resumes
from its saved state takes exactly the same steps as an uninterrupted one. It is tested on twelve
numbers, since a class does not declare whether `state_dict()` holds its whole state.
"""

from __future__ import annotations

import inspect
import io
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from asdf.errors import UsageError
from asdf.runs.log import LOG
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import OPTIMIZERS, Network
from asdf.training.optimiser_state import begin_momentum, load_optimiser_state, optimiser_state
from asdf.training.parameter_groups import Group, group_parameters, make_group
from asdf.training.training_sections import TrainingSections

SETTING = "network.optimizer"
_FUSED_ON_CPU = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
_SHAPE = (4, 3)
# The third step is exact only if the whole state after two steps was saved.
_STEPS = 3
_OTHERS = "Choose another, such as 'adamw' or 'torch.optim.RAdam'."


@dataclass(frozen=True)
class NamedOptimiser:
    """A class that `network.optimizer` names by its path, with its constructor's arguments.

    Attributes:
        arguments: Arguments except for the parameters.
        rate, weight_decay: Learning rate and weight decay of the parameters after the front end.
    """

    path: str
    kind: type[torch.optim.Optimizer]
    arguments: dict[str, Any]
    rate: float
    weight_decay: float

    def takes(self, name: str) -> bool:
        """Return whether the constructor has an argument of this name."""
        return name in inspect.signature(self.kind).parameters

    def build(self, groups: list[Group], fused: bool | None = None) -> torch.optim.Optimizer:
        """Return an optimiser of the class.

        Args:
            fused: Whether one kernel updates all parameters, if the class offers this and the
                settings do not decide it.

        Raises:
            UsageError: the constructor fails.
        """
        arguments = dict(self.arguments)
        # Adagrad's fused kernel is for the CPU only.
        offers_fused = self.takes("fused") and self.kind is not torch.optim.Adagrad
        if offers_fused and arguments.get("fused") is None:
            arguments["fused"] = fused
        failed = f"{SETTING}: {self.path} cannot be made for this network"
        advice = "Its arguments are those of the section optimizer; see --explain optimizer."
        with UserErrors(failed, advice, UsageError):
            optimiser = self.kind(groups, **arguments)
        if isinstance(optimiser, torch.optim.SGD):
            begin_momentum(optimiser)
        return optimiser


def find_optimiser(settings: TrainingSections, folder: Path | None) -> NamedOptimiser | None:
    """Return the class that `network.optimizer` names; None for a short name.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist, or does not derive from `torch.optim.Optimizer`.
        AsdfError: importing its module fails.
    """
    training = settings.network
    if training.optimizer in OPTIMIZERS:
        return None
    path = class_path_of(SETTING, training.optimizer)
    # torch declares no types for the constructor, so mypy takes the class for abstract.
    kind: type[torch.optim.Optimizer] = find_class(path, folder, SETTING, torch.optim.Optimizer)
    options = inspect.signature(kind).parameters
    section = getattr(settings, "optimizer", None)
    arguments = {} if section is None else dict(vars(section))
    if "lr" in options:
        arguments["lr"] = training.initial_learning_rate
    if "weight_decay" in options:
        arguments["weight_decay"] = training.weight_decay
    rate = training.initial_learning_rate
    return NamedOptimiser(path, kind, arguments, rate, training.weight_decay)


def check_optimiser(named: NamedOptimiser) -> None:
    """Take a few steps with an optimiser of the class, and again with a checkpoint in between.

    Raises:
        UsageError: it needs a closure or sparse gradients, or fails; or its state cannot be saved,
            or does not determine its steps.
    """
    about = f"{SETTING} = {named.path!r}"
    closure = inspect.signature(named.kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise UsageError(
            f"{about}: its step computes the loss again (it needs a closure), and training here "
            f"computes it once per step. {_OTHERS} A class that network.training_step names may "
            "compute it several times (docs/training_steps.md)."
        )
    if callable(getattr(named.kind, "eval", None)):
        raise UsageError(
            f"{about}: it has other weights for scoring than for training (a method eval), which "
            f"is not supported here. {_OTHERS} network.ema_decay averages the weights."
        )
    # Its random draws, if any, must not change those of the network.
    failed = (
        f"{about} failed on a parameter of {_SHAPE[0]} x {_SHAPE[1]} numbers, with its gradient"
    )
    with torch.random.fork_rng(devices=[]), UserErrors(failed, _OTHERS, UsageError):
        whole = _train(named)
        interrupted = _train(named, stops=True)
    # Compare bits, since at a high rate both may be NaN.
    if not torch.equal(whole.view(torch.int32), interrupted.view(torch.int32)):
        raise UsageError(
            f"{about}: restored from its saved state, it does not continue as without a stop. "
            "Everything its steps depend on must be in self.state[parameter] or in a parameter "
            f"group, not in other attributes of the object. {_OTHERS}"
        )


def _train(named: NamedOptimiser, stops: bool = False) -> Tensor:
    """Return a parameter after `_STEPS` steps of the optimiser.

    Args:
        stops: Whether the last step is taken by another optimiser, which loads the first one's
            state.
    """
    parameter = nn.Parameter(torch.linspace(-1, 1, math.prod(_SHAPE)).reshape(_SHAPE))
    optimiser = named.build([make_group([parameter], named.rate, named.weight_decay)])
    for number in range(_STEPS):
        if stops and number == _STEPS - 1:
            state = _saved_and_read(named, optimiser_state(optimiser))
            parameter = nn.Parameter(parameter.detach().clone())
            optimiser = named.build([make_group([parameter], named.rate, named.weight_decay)])
            load_optimiser_state(optimiser, state)
        # Gradients that differ in size and sign.
        angles = torch.arange(parameter.numel()) + 5.0 * number
        parameter.grad = 0.1 * torch.sin(angles).reshape(_SHAPE)
        # An optimiser that draws has to draw the same in both runs.
        torch.manual_seed(number)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    return parameter.detach()


def _saved_and_read(named: NamedOptimiser, state: dict[str, Any]) -> dict[str, Any]:
    """Return `state` after saving it to a checkpoint and reading it.

    Raises:
        UsageError: a checkpoint cannot hold it.
    """
    file = io.BytesIO()
    try:
        torch.save(state, file)
        file.seek(0)
        # As checkpoints are read: nothing in them is executed.
        content: dict[str, Any] = torch.load(file, weights_only=True)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        raise UsageError(
            f"{SETTING} = {named.path!r}: a checkpoint cannot hold its state, which must be "
            f"tensors, numbers, strings, lists and dictionaries ({type(error).__name__}: "
            f"{reason}). {_OTHERS}"
        ) from error
    return content


def _build_short_named(
    training: Network, groups: list[Group], fused: bool | None
) -> torch.optim.Optimizer:
    """Return the optimiser of a short name, whose options are settings of the section `network`."""
    rate = training.initial_learning_rate
    if training.optimizer == "sgd":
        optimiser = torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=fused)
        begin_momentum(optimiser)
        return optimiser
    kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
    return kind(groups, lr=rate, betas=training.adam_betas, fused=fused)


def check_named_optimiser(settings: TrainingSections, folder: Path | None) -> None:
    """Find the class that `network.optimizer` names, if it is not a short name, and test it.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: the class does not exist, or cannot be used for training here.
        AsdfError: importing its module fails.
    """
    named = find_optimiser(settings, folder)
    if named is not None:
        check_optimiser(named)


def build_optimiser(
    network: nn.Module, settings: TrainingSections, folder: Path | None = None
) -> torch.optim.Optimizer:
    """Return the optimiser of `settings.network` for the trained parameters.

    The front end may have its own learning rate. `weight_decay_skiplist` excludes parameters from
    weight decay by a part of their name or of their module's class name.

    Args:
        folder: Folder of the recipe with the user's own modules.

    Raises:
        UsageError: no parameter is trained, or the optimiser's class is not suitable.
        AsdfError: importing the module of the class fails.
    """
    groups = group_parameters(network, settings)
    if not groups:
        raise UsageError(
            "no parameter of the network is trained: is front_end.frozen on with nothing behind "
            "the front end?"
        )
    trained = [parameter for group in groups for parameter in group["params"]]
    named = find_optimiser(settings, folder)
    if named is None:
        fused = _choose_fused(trained, on_cpu=True)
        return _build_short_named(settings.network, groups, fused)
    fused = _choose_fused(trained, on_cpu=named.kind in _FUSED_ON_CPU)
    check_optimiser(named)
    if settings.network.weight_decay and not named.takes("weight_decay"):
        LOG.warning("%s takes no weight decay: network.weight_decay has no effect", named.path)
    return named.build(groups, fused)


def _choose_fused(trained: list[nn.Parameter], on_cpu: bool) -> bool | None:
    """Return whether one kernel updates all parameters; None leaves this to torch.

    By default, torch runs a dozen operations per parameter on a CPU.

    Args:
        on_cpu: Whether the optimiser has such a kernel for the CPU.
    """
    if all(parameter.is_cuda and parameter.is_floating_point() for parameter in trained):
        return True
    for parameter in trained:
        if parameter.device.type != "cpu" or parameter.dtype is not torch.float32:
            return None
    return True if on_cpu else None
