"""Worker processes that read batches ahead, in order."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401 - see _end_workers
import signal
from collections.abc import Iterable, Iterator
from typing import Any
from weakref import WeakSet

import torch
from torch.utils.data import DataLoader, Dataset

from asdf.data.datasets import collate
from asdf.distributed.world import World, usable_cores
from asdf.errors import AsdfError


class BatchLoader:
    """Reads batches of a dataset, named by their keys; its workers live on from one list of batches to the next."""

    def __init__(self, dataset: Dataset, workers: int, world: World) -> None:
        self._keys = _Keys()
        workers = min(workers, max(1, usable_cores() // world.local_size)) if workers else 0
        self._loader = DataLoader(
            dataset,
            batch_sampler=self._keys,
            num_workers=workers,
            collate_fn=collate,
            persistent_workers=workers > 0,
            pin_memory=world.device.type == "cuda",
            # Its own generator: the loader draws a number at each pass, which must not be one of the network's.
            generator=torch.Generator(),
            worker_init_fn=_leave_signals_to_the_main_process,
        )
        self._device = world.device
        _OPEN.add(self)

    def batches(self, keys: Iterable[list[Any]]) -> Iterator[torch.Tensor]:
        """Waveforms (batch, samples) on the world's device, for each list of keys in turn.

        Raises:
            AsdfError: a recording of the batch cannot be read.
        """
        self._keys.keys = keys
        for batch in self._loader:
            if isinstance(batch, AsdfError):
                raise batch
            yield batch.to(self._device, non_blocking=True)

    def close(self) -> None:
        """End the workers. A loader that is forgotten does so by itself, unless the program ends first."""
        iterator = getattr(self._loader, "_iterator", None)
        if iterator is not None:
            iterator._shutdown_workers()
            for worker in iterator._workers:
                worker.kill()


_OPEN: WeakSet[BatchLoader] = WeakSet()


# Registered after multiprocessing's own, so it runs before: that one sends SIGTERM, which the workers do not heed, and
# waits for them. An error that ends the program keeps the loader alive until then.
@atexit.register
def _end_workers() -> None:
    for loader in list(_OPEN):
        loader.close()


class _Keys:
    """A batch sampler whose batches can be changed between two passes; they are made while they are asked for."""

    keys: Iterable[list[Any]] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.keys)


def _leave_signals_to_the_main_process(worker: int) -> None:
    """A stop signal that a scheduler sends to every process must not take the workers from a run that is saving."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
