"""The optimiser of the settings: groups of parameters, class, and state in a checkpoint.

A class that `network.optimizer` names by its path is an ordinary one, derived from
`torch.optim.Optimizer`, with a constructor that takes parameter groups and options with defaults,
and a `step()` without arguments. It is tested on twelve numbers before training, since a class does
not declare whether `state_dict()` holds its whole state.

Invariants: the order of the groups and of their parameters depends only on the network and the
settings, since a checkpoint numbers the moments by it. Moments and counters come from the
checkpoint; options, such as rates and weight decay, from the settings. A resumed run therefore
takes the steps of an uninterrupted one, and its rates can still be changed.
"""

from __future__ import annotations

import inspect
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from asdf.errors import AsdfError, UsageError
from asdf.networks import FrontEnd, front_end_parameters
from asdf.runs.log import LOG
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import OPTIMIZERS, Sections

# A parameter group with its options, as torch's optimisers take them.
Group = dict[str, Any]

# The classes behind short names, which checkpoints do not name: the first two have the same
# moments, and a run may change from one to the other. They have fused kernels for the CPU, too.
_OURS = (torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD)
_CLASS = "class"
# Options of a group that the settings determine for every optimiser.
_SET = ("params", "lr", "base_lr", "weight_decay")
SETTING = "network.optimizer"
# The third step is exact only if the whole state after two steps was saved.
_STEPS = 3
_OTHERS = "Choose another, such as 'adamw' or 'torch.optim.RAdam'."


class _GroupKey(NamedTuple):
    """The common properties of a group's parameters, by which groups are sorted."""

    is_front_end: bool
    decays: bool
    layers_above: int


def group_parameters(network: nn.Module, settings: Sections) -> list[Group]:
    """Return the trained parameters, grouped by their learning rate and weight decay.

    Besides torch's options, each group holds its rate before any schedule as `base_lr`.

    Raises:
        UsageError: rates decay by layer, but no front end has known layers.
    """
    training = settings.network
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    layers_above: dict[int, int] = {}
    if settings.front_end.layer_decay < 1:
        layers_above = _layers_above(network, settings.front_end.layer_decay)
    # Modules may share a parameter, which torch's optimisers refuse in two groups; the first module
    # that owns it counts.
    names: dict[nn.Parameter, str] = {}
    for prefix, module in network.named_modules():
        owner = type(module).__name__
        for name, parameter in module.named_parameters(prefix, recurse=False):
            # No name contains a line break, so no pattern matches across it.
            names.setdefault(parameter, f"{name}\n{owner}".lower())
    members: dict[_GroupKey, list[nn.Parameter]] = {}
    for parameter, searched in names.items():
        if not parameter.requires_grad:
            continue
        decays = not any(part.lower() in searched for part in training.weight_decay_skiplist)
        is_front_end = id(parameter) in front_end
        above = layers_above.get(id(parameter), 0) if is_front_end else 0
        key = _GroupKey(is_front_end, decays, above)
        members.setdefault(key, []).append(parameter)
    groups = []
    # The order is part of a checkpoint, whose moments are numbered by it.
    for key, parameters in sorted(members.items()):
        rate = training.initial_learning_rate
        if key.is_front_end and settings.front_end.learning_rate is not None:
            rate = settings.front_end.learning_rate
        rate *= settings.front_end.layer_decay**key.layers_above
        decay = training.weight_decay if key.decays else 0.0
        groups.append(make_group(parameters, rate, decay))
    return groups


def make_group(parameters: list[nn.Parameter], rate: float, decay: float) -> Group:
    """Return a group of parameters with one learning rate and one weight decay."""
    return {"params": parameters, "lr": rate, "base_lr": rate, "weight_decay": decay}


def _layers_above(network: nn.Module, layer_decay: float) -> dict[int, int]:
    """Return how many layers of its front end lie above each parameter, by the parameter's id.

    Modules before the first layer lie below all layers, as the embedding does in BEiT (Bao et al.,
    ICLR 2022), and a norm that ends the encoder belongs to the last layer.
    """
    above: dict[int, int] = {}
    for front_end in network.modules():
        if not isinstance(front_end, FrontEnd):
            continue
        # `front_end.layer` may leave out the upper ones.
        layers = list(front_end.layer_modules())[: front_end.layers]
        if not layers:
            continue
        for parameter in front_end.parameters():
            above[id(parameter)] = len(layers)
        for number, layer in enumerate(layers, 1):
            for parameter in layer.parameters():
                above[id(parameter)] = len(layers) - number
        for parameter in front_end.final_norm_parameters():
            above[id(parameter)] = 0
    if not above:
        raise UsageError(
            f"front_end.layer_decay = {layer_decay:g}: the network has no front end with known "
            "encoder layers. Set it to 1.0, or give your front end a method layer_modules."
        )
    return above


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
        # Values that another class has stored in a group, such as a step count. In groups of
        # torch's own classes, all entries are options.
        known = saved if type(optimiser) in _OURS else options
        counted = {key: saved[key] for key in saved if key not in known}
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


def find_optimiser(settings: Sections, folder: Path | None) -> NamedOptimiser | None:
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
            f"{about}: its step computes the loss again (it needs a closure). {_OTHERS} A class "
            "that network.training_step names may compute it several times (docs/your_own.md)."
        )
    if callable(getattr(named.kind, "eval", None)):
        raise UsageError(
            f"{about}: it has other weights for scoring than for training (a method eval). "
            f"{_OTHERS} network.ema_decay averages the weights."
        )
    failed = f"{about} failed on a parameter of 4 x 3 numbers, with its gradient"
    # Its random draws, if any, must not change those of the network.
    with torch.random.fork_rng(devices=[]), UserErrors(failed, _OTHERS, UsageError):
        whole = _train(named)
        interrupted = _train(named, stops=True)
    # Compare bits, since at a high rate both may be NaN.
    if not torch.equal(whole.view(torch.int32), interrupted.view(torch.int32)):
        raise UsageError(
            f"{about}: restored from its saved state, it does not continue as without a stop. All "
            "that its steps depend on must be in self.state[parameter] or a parameter group. "
            f"{_OTHERS}"
        )


def _train(named: NamedOptimiser, stops: bool = False) -> Tensor:
    """Return a parameter after `_STEPS` steps of the optimiser.

    Args:
        stops: Whether the last step is taken by another optimiser, which loads the first one's
            state.
    """
    parameter = nn.Parameter(torch.linspace(-1, 1, 12).reshape(4, 3))
    optimiser = named.build([make_group([parameter], named.rate, named.weight_decay)])
    for number in range(_STEPS):
        if stops and number == _STEPS - 1:
            state = _saved_and_read(named, optimiser_state(optimiser))
            parameter = nn.Parameter(parameter.detach().clone())
            optimiser = named.build([make_group([parameter], named.rate, named.weight_decay)])
            load_optimiser_state(optimiser, state)
        # Gradients that differ in size and sign.
        angles = torch.arange(parameter.numel()) + 5.0 * number
        parameter.grad = 0.1 * torch.sin(angles).reshape(4, 3)
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
            f"tensors, numbers, strings, lists and dictionaries ({reason}). {_OTHERS}"
        ) from error
    return content


def check_named_optimiser(settings: Sections, folder: Path | None) -> None:
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
    network: nn.Module, settings: Sections, folder: Path | None = None
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
        raise UsageError("no parameter of the network is trained: is front_end.frozen on?")
    trained = [parameter for group in groups for parameter in group["params"]]
    named = find_optimiser(settings, folder)
    if named is None:
        # A short name, whose options are settings of the section `network`.
        training = settings.network
        rate = training.initial_learning_rate
        fused = _choose_fused(trained, on_cpu=True)
        if training.optimizer == "sgd":
            sgd = torch.optim.SGD(groups, lr=rate, momentum=training.momentum, fused=fused)
            begin_momentum(sgd)
            return sgd
        kind = torch.optim.AdamW if training.optimizer == "adamw" else torch.optim.Adam
        return kind(groups, lr=rate, betas=training.adam_betas, fused=fused)
    fused = _choose_fused(trained, on_cpu=named.kind in _OURS)
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
