"""How far a run has come: everything that going on needs beside weights, optimiser and loss scale.

Invariant: the random draws of a minibatch follow from the seed, its step and the rank alone (`seed_step`), so the
random state of a run at any moment is the few numbers that stand here.
"""

from __future__ import annotations

import random
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from asdf.runs.seeds import derived_seed


@dataclass
class Progress:
    """Counts are of the whole run, over all processes.

    `position` utterances of the epoch after the `epochs` whole ones have had their turn; `loss_sum / weight_sum` is
    the mean training loss of those.
    """

    epochs: int = 0
    position: int = 0
    step: int = 0
    loss_sum: float = 0.0
    weight_sum: float = 0.0
    training_loss: float | None = None
    consecutive_lr_updates: int = 0
    learning_rate_factor: float = 1.0
    evaluations: list[dict[str, Any]] = field(default_factory=list)
    finished: str = ""
    world_size: int = 1
    list_digest: str = ""

    def name(self) -> str:
        """The file name of the network at this point."""
        if self.position == 0:
            return f"epoch.{self.epochs}.pt"
        return f"epoch.{self.epochs + 1}.step.{self.step}.pt"

    def evaluated(self) -> bool:
        return any(evaluation["step"] == self.step for evaluation in self.evaluations)

    def state(self) -> dict[str, Any]:
        """Plain values for a checkpoint."""
        return asdict(self)


def seed_step(seed: int, step: int, minibatch: int, rank: int) -> None:
    """Seed every source of random numbers that a network may draw from in this minibatch of this step."""
    number = derived_seed(seed, "step", step, minibatch, rank)
    # What torch.manual_seed does, without the stack that it formats for each kind of GPU that is not in use.
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(number)
    np.random.seed(number % 2**32)
    random.seed(number)
