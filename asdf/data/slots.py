"""Memory that worker processes write their batches into, again and again.

A batch that a worker makes in memory of its own choosing costs its pages anew: the system zeroes them, both processes
map and unmap them, and a third of the reading was spent on that where it was measured. So the main process names a slot
with each batch that it asks for.

Invariant: a slot is named again only once the batch after the one in it has been handed out: nobody looks at it any
more. A DataLoader has `prefetch_factor` batches a worker under way, and one is in the hands of whoever asked for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from asdf.errors import AsdfError

PREFETCHED = 2
"""Batches under way a worker: the `prefetch_factor` of DataLoader."""


class InSlot(NamedTuple):
    """Where a batch lies, and its shape."""

    slot: int
    shape: tuple[int, ...]


class Slots:
    """Shared memory for the batches, float32, that are under way.

    Args:
        workers: how many processes write.
        numbers: of the largest batch; a larger one, or one of another type, goes the usual way.

    Raises:
        AsdfError: there is not so much shared memory.
    """

    def __init__(self, workers: int, numbers: int) -> None:
        with told_if_memory_is_short():
            self._memory = torch.empty(PREFETCHED * workers + 2, numbers).share_memory_()
        self._asked = count()

    def name(self) -> int:
        """The slot for the batch that is asked for next."""
        return next(self._asked) % len(self._memory)

    def put(self, slot: int, arrays: Sequence[Any]) -> InSlot | None:
        """Write a batch of arrays of equal shape; None, and nothing is written, when it does not belong in a slot."""
        first = arrays[0]
        if not isinstance(first, np.ndarray) or first.dtype != np.float32 or len(arrays) * first.size > self._size:
            return None
        batch = InSlot(slot, (len(arrays), *first.shape))
        np.stack(arrays, out=self.view(batch).numpy())
        return batch

    def view(self, batch: InSlot) -> torch.Tensor:
        """The batch itself, good until the next one is asked for."""
        return self._memory[batch.slot, : int(np.prod(batch.shape))].view(batch.shape)

    @property
    def _size(self) -> int:
        return int(self._memory.shape[1])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_asked": None}  # only the main process names slots


class Slotted(Dataset):
    """A dataset whose batches are asked for as [slot, key, key, ...], and come as (slot, items)."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __getitems__(self, asked: list[Any]) -> tuple[int, list[Any]]:
        slot, *keys = asked
        return slot, [self.dataset[key] for key in keys]


def with_slots(batches: Iterable[list[Any]], slots: Slots) -> Iterator[list[Any]]:
    """Each list of keys with the name of its slot before it; named when the list is asked for."""
    for keys in batches:
        yield [slots.name(), *keys]


@contextmanager
def told_if_memory_is_short() -> Iterator[None]:
    """Torch's failures to get shared memory as one message.

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
