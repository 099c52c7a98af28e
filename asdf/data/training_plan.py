"""The assignment of training utterances to processes and steps.

Invariants:
- over all ranks, every turn of an epoch is taken once, in an order that depends only on the seed
  and the epoch (`asdf.data.samplers`); by default every utterance has one turn per epoch;
- a turn's clip is drawn by the epoch and the utterance, and at its second turn in an epoch by
  numbers that no epoch has (`Share.draws`): another crop, but the same one on every process;
- an optimiser step uses one *window* of that order: `minibatch_size * ranks *
  optimizer_step_interval` utterances, fewer in the last window of an epoch, however ranks divide
  it. Two processes with minibatch 4 therefore take the steps of one process with minibatch 8, and a
  run can continue in the middle of an epoch on another number of processes. With
  `network.global_minibatch_size`, the window, and so the step, is the same on any number of them;
- if recordings are grouped by length (`asdf.data.sampler_orders`), a window has `ranks *
  optimizer_step_interval` of the minibatches into which the turns are divided.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from asdf.data.sampler_orders import Orders, Turns, earlier_turns
from asdf.errors import UsageError
from asdf.runs.seeds import generator
from asdf.settings.sections import Network

# Above the maximum of `network.max_epochs`, 10**9.
_ABOVE_ALL_EPOCHS = 2**32


def minibatch_per_process(network: Network, world_size: int) -> int:
    """Return the number of utterances per process and minibatch.

    This is `minibatch_size`, or a process's part of `global_minibatch_size`.

    Raises:
        UsageError: the global minibatch is not divisible by the number of processes.
    """
    whole = network.global_minibatch_size
    if whole is None:
        return network.minibatch_size
    if whole % world_size:
        below = whole - whole % world_size
        fitting = [str(size) for size in (below, below + world_size) if size > 0]
        raise UsageError(
            f"network.global_minibatch_size = {whole} does not divide by the {world_size} "
            f"processes of this run, as {' and '.join(fitting)} would. Set it, or start another "
            "number of processes."
        )
    return whole // world_size


@dataclass(frozen=True)
class Share:
    """A rank's part of a minibatch.

    Attributes:
        utterances: Indices into the list.
        counted: Number of utterances that count, which come first; the rest are fillers without
            weight in the loss.
        draws: Number that replaces the epoch in the random draws of each clip: the epoch, or a
            number above all epochs if the utterance has had an earlier turn in it.
        positions: Positions of its turns in the epoch's order; a filler has that of another turn.
        samples: Number of samples of each clip; None if all have one length.
    """

    utterances: np.ndarray
    counted: int
    draws: np.ndarray
    positions: np.ndarray
    samples: np.ndarray | None = None

    def clip_keys(self) -> list[tuple[int, int]]:
        """Return the keys of its clips."""
        return _pair(self.draws, self.utterances)

    def loader_keys(self) -> list[tuple[int, ...]]:
        """Return the loader's keys of its clips, with the samples if they vary."""
        keys: list[tuple[int, ...]] = [*self.clip_keys()]
        if self.samples is None:
            return keys
        return [(*key, int(count)) for key, count in zip(keys, self.samples, strict=True)]


@dataclass(frozen=True)
class Window:
    """The utterances of one optimiser step.

    Attributes:
        start: Position of the window in the epoch's order.
        utterances: Indices into the list for the utterances of all ranks.
        shares: Minibatches of this rank.
        epoch_size: Number of turns of the whole epoch.
        draws: Draws of all ranks' clips, as in `Share`.
    """

    start: int
    utterances: np.ndarray
    shares: list[Share]
    epoch_size: int
    draws: np.ndarray

    def clip_keys(self) -> list[tuple[int, int]]:
        """Return the keys of all ranks' clips."""
        return _pair(self.draws, self.utterances)

    @property
    def end(self) -> int:
        """The position in the epoch's order at which the next window starts."""
        return self.start + len(self.utterances)


@dataclass(frozen=True)
class TrainingPlan:
    """The order of the `size` turns of an epoch and its division among `world_size` ranks.

    Attributes:
        minibatch_size: Number of utterances per process and minibatch.
        step_interval: Number of minibatches per optimiser step.
        synchronised: Whether batch norm is over all ranks, so that a rank may have a single
            utterance.
        orders: Orders of a sampler; None if `size` utterances have one turn each.
    """

    size: int
    minibatch_size: int
    step_interval: int = 1
    world_size: int = 1
    rank: int = 0
    seed: int = 0
    synchronised: bool = False
    orders: Orders | None = None

    @property
    def window_size(self) -> int:
        """The number of utterances per optimiser step, of all ranks together."""
        return self.minibatch_size * self.world_size * self.step_interval

    @property
    def grouped(self) -> bool:
        """Whether minibatches hold as many recordings of similar length as fit."""
        return self.orders is not None and self.orders.grouped

    def steps_per_epoch(self, epoch: int = 1) -> int:
        """Return the number of windows of an epoch, including a shorter last one."""
        return len(self._starts(epoch))

    def steps_before(self, epoch: int, position: int) -> int:
        """Return the number of windows of an epoch that begin before a position."""
        return int(np.searchsorted(self._starts(epoch), position))

    def begin_of_last_step(self, epochs: int, position: int) -> float:
        """Return where the step that led to a position began, in epochs, such as 1.5.

        Args:
            epochs: Number of whole epochs before the position, which is not the very first.
        """
        if position == 0:
            epochs, position = epochs - 1, self.size
        starts = self._starts(epochs + 1)
        return epochs + float(starts[self.steps_before(epochs + 1, position) - 1]) / self.size

    def order(self, epoch: int) -> np.ndarray:
        """Return the utterances in the order of their turns in `epoch`, (size,)."""
        return self.turns(epoch).utterances_N

    def turns(self, epoch: int) -> Turns:
        """Return the turns of `epoch`, in their order."""
        if self.orders is not None:
            return self.orders.turns(epoch)
        order = generator(self.seed, "order", epoch).permutation(self.size)
        return Turns(order, earlier_turns(order))

    def windows(self, epoch: int, start: int = 0) -> Iterator[Window]:
        """Yield the windows of `epoch` from position `start` of its turns on."""
        turns = self.turns(epoch)
        order = turns.utterances_N
        draws = epoch + turns.earlier_N * _ABOVE_ALL_EPOCHS
        normalises_alone = self.world_size == 1 or not self.synchronised
        least = min(2, self.minibatch_size) if normalises_alone else 1
        bounds = self._bounds(epoch, start)
        last = len(bounds) - 1
        for first in range(0, last, self._minibatches_per_step):
            end = min(first + self._minibatches_per_step, last)
            shares = []
            for number in range(first, end, self.world_size):
                edges = bounds[np.minimum(number + np.arange(self.world_size + 1), last)]
                local = np.arange(edges[self.rank], edges[self.rank + 1])
                others = np.arange(edges[0], edges[-1])
                if len(others) == 1 and not self.grouped:
                    # A clip and its copy have no variance. The turn before may have any length.
                    others -= 1
                # Batch norm needs more than a single vector, and a rank cannot skip a step.
                fillers = np.resize(others, max(0, least - len(local)))
                part = np.concatenate([local, fillers])
                samples = None if turns.samples_N is None else turns.samples_N[part]
                shares.append(Share(order[part], len(local), draws[part], part, samples))
            window = slice(bounds[first], bounds[end])
            yield Window(int(bounds[first]), order[window], shares, self.size, draws[window])

    @property
    def _minibatches_per_step(self) -> int:
        return self.world_size * self.step_interval

    def _starts(self, epoch: int) -> np.ndarray:
        """Return the positions at which the windows of an epoch begin, from its start on."""
        return self._bounds(epoch, 0)[: -1 : self._minibatches_per_step]

    def _bounds(self, epoch: int, start: int) -> np.ndarray:
        """Return the bounds of the minibatches from position `start` on, for all ranks in turn."""
        if self.grouped:
            ends_M = self.turns(epoch).ends_M
            assert ends_M is not None
            bounds = np.concatenate([[0], ends_M])
            return bounds[np.searchsorted(bounds, start) :]
        whole = self.minibatch_size * self.world_size
        rest = (self.size - start) % whole
        whole_ones = np.arange(start, self.size - rest + 1, self.minibatch_size)
        if not rest:
            return whole_ones
        # The last turns are divided equally among the ranks, some of which may have none.
        parts = np.array_split(np.arange(self.size - rest, self.size), self.world_size)
        return np.concatenate([whole_ones, whole_ones[-1] + np.cumsum([*map(len, parts)])])


def _pair(draws: np.ndarray, utterances: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(draws.tolist(), utterances.tolist(), strict=True))
