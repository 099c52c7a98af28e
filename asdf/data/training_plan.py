"""Who trains on what, and when.

Invariants:
- every utterance has one turn per epoch over all ranks, in an order that follows from the seed and
  the epoch alone;
- an optimiser step uses one *window* of that order: `minibatch_size * ranks *
  optimizer_step_interval` utterances, fewer in the last window of an epoch, whichever rank computes
  which part of it. So two processes with minibatch 4 take the steps of one process with minibatch
  8, and a run can go on in the middle of an epoch on another number of processes. With
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
    """Return the utterances per process and minibatch.

    That is `minibatch_size`, or a process's part of `global_minibatch_size`.

    Raises:
        UsageError: the global minibatch does not divide by the number of processes.
    """
    whole = network.global_minibatch_size
    if whole is None:
        return network.minibatch_size
    if whole % world_size:
        below = whole - whole % world_size
        fitting = [str(size) for size in (below, below + world_size) if size > 0]
        verb = "do" if len(fitting) > 1 else "does"
        raise UsageError(
            f"network.global_minibatch_size = {whole} does not divide by the {world_size} "
            f"processes of this run. The nearest that {verb}: {' and '.join(fitting)}. Or start "
            "another number of processes."
        )
    return whole // world_size


@dataclass(frozen=True)
class Share:
    """A rank's part of a minibatch.

    Attributes:
        utterances: indices into the list.
        counted: how many of them count, from the first on; the others are fillers, which weigh
            nothing in the loss.
    """

    utterances: np.ndarray
    counted: int


@dataclass(frozen=True)
class Window:
    """What one optimiser step uses.

    Attributes:
        start: its position in the epoch's order.
        utterances: those of all ranks, as indices into the list.
        shares: this rank's minibatches.
    """

    start: int
    utterances: np.ndarray
    shares: list[Share]

    @property
    def end(self) -> int:
        """The position in the epoch's order at which the next window starts."""
        return self.start + len(self.utterances)


@dataclass(frozen=True)
class TrainingPlan:
    """The order of `size` utterances and its division among `world_size` ranks.

    Attributes:
        minibatch_size: utterances per process and minibatch.
        step_interval: minibatches per optimiser step.
        synchronised: whether batch norm is over all ranks, so that a rank may have a single
            utterance.
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
        """Utterances per optimiser step, of all ranks together."""
        return self.minibatch_size * self.world_size * self.step_interval

    def steps_per_epoch(self) -> int:
        """Return the number of windows, the last and maybe shorter one included."""
        return -(-self.size // self.window_size)

    def order(self, epoch: int) -> np.ndarray:
        """Return the utterances in the order of their turns in `epoch`, (size,)."""
        return generator(self.seed, "order", epoch).permutation(self.size)

    def windows(self, epoch: int, start: int = 0) -> Iterator[Window]:
        """Yield the windows of `epoch` from position `start` of its order on."""
        order = self.order(epoch)
        for position in range(start, self.size, self.window_size):
            utterances = order[position : position + self.window_size]
            yield Window(position, utterances, list(self._shares(utterances)))

    def _shares(self, window: np.ndarray) -> Iterator[Share]:
        minibatch = self.minibatch_size * self.world_size
        # Batch norm cannot take a single vector and a rank cannot sit out a step of the others, so
        # a share that falls short at the end of an epoch is filled up.
        normalises_alone = self.world_size == 1 or not self.synchronised
        min_share = min(2, self.minibatch_size) if normalises_alone else 1
        for start in range(0, len(window), minibatch):
            part = window[start : start + minibatch]
            local = np.array_split(part, self.world_size)[self.rank]
            fillers = np.resize(part, max(0, min_share - len(local)))
            yield Share(np.concatenate([local, fillers]), len(local))
