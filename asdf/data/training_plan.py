"""Who trains on what, and when.

Invariants:
- every turn of an epoch is taken once over all ranks, in an order that follows from the seed and
  the epoch alone (`asdf.data.samplers`); by default every utterance has one turn per epoch;
- a turn's clip is drawn by the epoch and the utterance, and at its second turn in an epoch by
  numbers that no epoch has (`Share.draws`): another crop, the same one on whichever process;
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

from asdf.data.sampler_orders import Orders
from asdf.errors import UsageError
from asdf.runs.seeds import generator
from asdf.settings.sections import Network

# Above `network.max_epochs` at its highest, 10**9.
_ABOVE_ALL_EPOCHS = 2**32


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
        counted: Number of those that count, from the first on; the others are fillers, which weigh
            nothing in the loss.
        draws: Number that stands for the epoch in the random draws of each clip: the epoch, or a
            number above all epochs where the utterance has had a turn in it before.
        positions: Positions of its turns in the epoch's order; a filler has that of another turn.
    """

    utterances: np.ndarray
    counted: int
    draws: np.ndarray
    positions: np.ndarray

    def clip_keys(self) -> list[tuple[int, int]]:
        """Return the keys of its clips."""
        return _pair(self.draws, self.utterances)


@dataclass(frozen=True)
class Window:
    """What one optimiser step uses.

    Attributes:
        start: Position of the window in the epoch's order.
        utterances: those of all ranks, as indices into the list.
        shares: this rank's minibatches.
        epoch_size: turns of the whole epoch.
        draws: those of all ranks' clips, as in `Share`.
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
        minibatch_size: utterances per process and minibatch.
        step_interval: minibatches per optimiser step.
        synchronised: True if batch norm is over all ranks, so that a rank may have a single
            utterance.
        orders: Orders of a sampler; None: `size` utterances have a turn each.
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
        """Utterances per optimiser step, of all ranks together."""
        return self.minibatch_size * self.world_size * self.step_interval

    def steps_per_epoch(self) -> int:
        """Return the number of windows, the last and maybe shorter one included."""
        return -(-self.size // self.window_size)

    def begin_of_last_step(self, epochs: int, position: int) -> float:
        """Return where the step began that led to a position, in epochs, as 1.5 in the second.

        Args:
            epochs: whole ones before the position, which is not the very first.
        """
        if position == 0:
            epochs, position = epochs - 1, self.size
        start = (position - 1) // self.window_size * self.window_size
        return epochs + start / self.size

    def order(self, epoch: int) -> np.ndarray:
        """Return the utterances in the order of their turns in `epoch`, (size,)."""
        if self.orders is not None:
            return self.orders.of(epoch)
        return generator(self.seed, "order", epoch).permutation(self.size)

    def windows(self, epoch: int, start: int = 0) -> Iterator[Window]:
        """Yield the windows of `epoch` from position `start` of its order on."""
        order = self.order(epoch)
        draws = epoch + earlier_turns(order) * _ABOVE_ALL_EPOCHS
        for position in range(start, self.size, self.window_size):
            positions = np.arange(position, min(position + self.window_size, self.size))
            shares = []
            for part, counted in self._shares(positions):
                shares.append(Share(order[part], counted, draws[part], part))
            yield Window(position, order[positions], shares, self.size, draws[positions])

    def _shares(self, window: np.ndarray) -> Iterator[tuple[np.ndarray, int]]:
        """Yield the positions of this rank's minibatches of a window, and how many count."""
        minibatch = self.minibatch_size * self.world_size
        # Batch norm cannot take a single vector and a rank cannot sit out a step of the others, so
        # a share that falls short at the end of an epoch is filled up.
        normalises_alone = self.world_size == 1 or not self.synchronised
        min_share = min(2, self.minibatch_size) if normalises_alone else 1
        for start in range(0, len(window), minibatch):
            part = window[start : start + minibatch]
            local = np.array_split(part, self.world_size)[self.rank]
            fillers = np.resize(part, max(0, min_share - len(local)))
            yield np.concatenate([local, fillers]), len(local)


def _pair(draws: np.ndarray, utterances: np.ndarray) -> list[tuple[int, int]]:
    return list(zip(draws.tolist(), utterances.tolist(), strict=True))


def earlier_turns(order: np.ndarray) -> np.ndarray:
    """Return for each turn of an epoch how many the same utterance has had before, (turns,)."""
    by_utterance = np.argsort(order, kind="stable")
    ordered = order[by_utterance]
    # The position at which the utterance's turns begin among all, ordered by utterance.
    is_first = np.concatenate([[True], ordered[1:] != ordered[:-1]])
    positions = np.arange(len(order))
    begins = np.maximum.accumulate(np.where(is_first, positions, 0))
    earlier = np.empty(len(order), np.int64)
    earlier[by_utterance] = positions - begins
    return earlier
