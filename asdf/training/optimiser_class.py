"""The class that `network.optimizer` names by its path, of torch or of the user, and its arguments.

It is an ordinary class derived from `torch.optim.Optimizer`: a constructor that takes parameter
groups and options with defaults, and `step()` without arguments.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from asdf.errors import UsageError
from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import UserErrors, find_class
from asdf.settings.sections import OPTIMIZERS, Sections
from asdf.training.optimiser_state import begin_momentum
from asdf.training.parameter_groups import Group

SETTING = "network.optimizer"


@dataclass(frozen=True)
class NamedOptimiser:
    """A class that `network.optimizer` names by its path, with the arguments of its constructor.

    Attributes:
        arguments: Arguments but for the parameters.
        rate, weight_decay: Learning rate and weight decay of the parameters behind the front end.
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
            fused: whether one kernel is to update all parameters, if the class offers it and the
                settings do not say.

        Raises:
            UsageError: the constructor fails.
        """
        arguments = dict(self.arguments)
        # Adagrad's one kernel is one of the CPU.
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
        folder: the recipe's, where a user's own modules lie.

    Raises:
        UsageError: no such class exists, or it is not derived from `torch.optim.Optimizer`.
        AsdfError: its module fails when it is imported.
    """
    training = settings.network
    if training.optimizer in OPTIMIZERS:
        return None
    path = class_path_of(SETTING, training.optimizer)
    # torch states no types for the class's constructor, which mypy takes for an abstract one.
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
