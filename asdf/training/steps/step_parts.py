"""The parts of a step's passes that do not depend on its utterances."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import nn

from asdf.distributed.world import World
from asdf.training.captured_passes import GraphedPasses
from asdf.training.gradients import LastStep
from asdf.training.instruments.clock import StepClock
from asdf.training.minibatch_passes import Passes
from asdf.training.objective import TargetSource
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class StepParts:
    """The parts of a step's passes that are the same in each step.

    Attributes:
        passes: Passes of the network.
        eager: Passes without CUDA graphs.
        network: Network that is trained, called on minibatches.
        parameters: Parameters that are trained.
        compiled: Value of `computing.compile`.
    """

    passes: Passes | GraphedPasses
    eager: Passes
    network: nn.Module
    parameters: Sequence[nn.Parameter]
    utterances: TrialList
    targets: TargetSource
    last: LastStep
    clock: StepClock
    world: World
    seed: int
    compiled: bool | str
