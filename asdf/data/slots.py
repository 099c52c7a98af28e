"""Memory that batches are read into, again and again.

A batch that a worker makes in memory of its own choosing costs its pages anew: the system zeroes them, both processes
map and unmap them, and a third of the reading was spent on that where it was measured. So the main process names a slot
with each batch that it asks for; recordings are decoded where their batch has them, and are copied nowhere.

Invariant: a slot is named again only once the batch after the one in it has been handed out: nobody looks at it any
more. A DataLoader has `prefetch_factor` batches a worker under way, and one is in the hands of whoever asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch.utils.data import Dataset

from asdf.audio.cropping import put
from asdf.errors import AsdfError

PREFETCHED = 2
"""Batches under way a worker: the `prefetch_factor` of DataLoader."""


class InSlot(NamedTuple):
    """Where a batch lies, and its shape."""

    slot: int
    shape: tuple[int, ...]


class ReadsIntoRoom(Protocol):
    """A dataset that can put an item where the batch has it."""

    def plan(self, key: Any) -> Any:
        """What is to be read for `key`."""

    def read(self, plan: Any, room: np.ndarray) -> Any:
        """The item that was planned; an array may lie at the beginning of `room` (R,), float32, which is scratch."""


class Slots:
    """Memory for the batches, float32, that are under way; where there are workers, shared with them.

    Args:
        workers: how many processes write; 0: this one.
        numbers: of the largest batch; a larger one, or one of another type, goes the usual way.

    Raises:
        AsdfError: there is not so much shared memory.
    """

    def __init__(self, workers: int, numbers: int) -> None:
        with memory_errors_as_messages():
            self._memory = torch.empty(PREFETCHED * workers + 2, numbers)
            if workers:
                self._memory.share_memory_()
        self._asked = count()

    def name(self) -> int:
        """The slot for the batch that is asked for next."""
        return next(self._asked) % len(self._memory)

    def read(
        self, slot: int, dataset: ReadsIntoRoom, keys: Iterable[Any]
    ) -> tuple[InSlot | None, list[Any]]:
        """The items of `keys`, and where they lie as a batch; None when they do not belong in a slot."""
        room, items, shapes = self._memory[slot].numpy(), [], set()
        # All plans come first: between two recordings they took four times as long, in no cache any more.
        for plan in [dataset.plan(key) for key in keys]:
            item = dataset.read(plan, room)
            if isinstance(item, np.ndarray) and item.dtype == np.float32 and item.size <= room.size:
                place = room[: item.size].reshape(item.shape)
                put(item, place)
                item, room = place, room[item.size :]
                shapes.add(item.shape)
            else:
                shapes.add(None)
            items.append(item)
        shape = shapes.pop()
        return None if shapes or shape is None else InSlot(slot, (len(items), *shape)), items

    def view(self, batch: InSlot) -> torch.Tensor:
        """The batch itself, good until the next one is asked for."""
        return self._memory[batch.slot, : math.prod(batch.shape)].view(batch.shape)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asked": None}  # only the main process names slots


class Slotted(Dataset):
    """A dataset whose batches are asked for as [slot, key, key, ...], and come as `Slots.read` gives them."""

    def __init__(self, dataset: ReadsIntoRoom, slots: Slots) -> None:
        self.dataset, self.slots = dataset, slots

    def __getitems__(self, asked: list[Any]) -> tuple[InSlot | None, list[Any]]:
        slot, *keys = asked
        return self.slots.read(slot, self.dataset, keys)


def with_slots(batches: Iterable[list[Any]], slots: Slots) -> Iterator[list[Any]]:
    """Each list of keys with the name of its slot before it; named when the list is asked for."""
    for keys in batches:
        yield [slots.name(), *keys]


@contextmanager
def memory_errors_as_messages() -> Iterator[None]:
    """Raise one message for torch's failures to get shared memory.

    Raises:
        AsdfError: there is too little of it.
    """
    try:
        yield
    except RuntimeError as error:
        if "</torch_" not in str(error):  # the file of the memory, which all of these failures name
            raise
        raise AsdfError(
            "the loader's processes hand batches over in shared memory (/dev/shm), and there is too little of it. In a "
            "container, give it more (docker run --shm-size=8g, or --ipc=host); or lower "
            "computing.network_dataloader_workers."
        ) from error
