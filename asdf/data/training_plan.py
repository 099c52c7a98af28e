"""Who trains on what, and when.

Invariants:
- every utterance has one turn an epoch over all ranks, in an order that follows from the seed and the epoch alone;
- an optimiser step uses one *window* of that order, `minibatch_size * ranks * optimizer_step_interval` utterances long
  (the last one may be shorter), whoever computes which part of it. So two processes with minibatch 4 take the steps of
  one process with minibatch 8, and a run can go on in the middle of an epoch on another number of processes. With
  `network.global_minibatch_size` the window, and so the step, is the same on any number of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asdf.errors import UsageError
from asdf.runs.seeds import generator
from asdf.settings.sections import Network


def minibatch_per_process(network: Network, world_size: int) -> int:
    """Utterances per process and minibatch: `minibatch_size`, or a process's part of `global_minibatch_size`.

    Raises:
        UsageError: the global minibatch does not divide by the number of processes.
    """
    whole = network.global_minibatch_size
    if whole is None:
        return network.minibatch_size
    if whole % world_size:
        below = whole - whole % world_size
        fitting = [size for size in (below, below + world_size) if size > 0]
        raise UsageError(
            f"network.global_minibatch_size = {whole} does not divide by the {world_size} processes of this run. "
            f"The nearest that {'do' if len(fitting) > 1 else 'does'}: {' and '.join(map(str, fitting))}. Or start "
            "another number of processes."
        )
    return whole // world_size


@dataclass(frozen=True)
class Share:
    """A rank's part of a minibatch: utterances, and how many of them count; the rest are fillers of weight zero."""

    utterances: np.ndarray
    counted: int


@dataclass(frozen=True)
class Window:
    """What one optimiser step uses: its place in the epoch's order, all its utterances, this rank's minibatches."""

    start: int
    utterances: np.ndarray
    shares: list[Share]

    @property
    def end(self) -> int:
        return self.start + len(self.utterances)


@dataclass(frozen=True)
class TrainingPlan:
    """The order of `size` utterances and its division among `world_size` ranks.

    Attributes:
        synchronised: whether batch norm is over all ranks, so that a rank may have a single utterance.
    """

    size: int
    minibatch_size: int
    step_interval: int = 1
    world_size: int = 1
    rank: int = 0
    seed: int = 0
    synchronised: bool = False

    @property
    def window_size(self) -> int:
        return self.minibatch_size * self.world_size * self.step_interval

    def steps_per_epoch(self) -> int:
        return -(-self.size // self.window_size)

    def order(self, epoch: int) -> np.ndarray:
        return generator(self.seed, "order", epoch).permutation(self.size)

    def windows(self, epoch: int, start: int = 0) -> Iterator[Window]:
        """The windows of `epoch` from place `start` of its order on."""
        order = self.order(epoch)
        for place in range(start, self.size, self.window_size):
            utterances = order[place : place + self.window_size]
            yield Window(place, utterances, list(self._shares(utterances)))

    def _shares(self, window: np.ndarray) -> Iterator[Share]:
        minibatch = self.minibatch_size * self.world_size
        # Batch norm cannot take a single vector and a rank cannot sit out a step of the others, so a share that
        # falls short at the end of an epoch is filled up; the fillers weigh nothing in the loss.
        alone = self.world_size == 1 or not self.synchronised
        least = min(2, self.minibatch_size) if alone else 1
        for place in range(0, len(window), minibatch):
            part = window[place : place + minibatch]
            own = np.array_split(part, self.world_size)[self.rank]
            fillers = np.resize(part, max(0, least - len(own)))
            yield Share(np.concatenate([own, fillers]), len(own))
