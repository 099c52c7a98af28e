"""Worker processes that read batches ahead, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from typing import Any

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


class _Keys:
    """A batch sampler whose batches can be changed between two passes; they are made while they are asked for."""

    keys: Iterable[list[Any]] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.keys)


def _leave_signals_to_the_main_process(worker: int) -> None:
    """A stop signal that a scheduler sends to every process must not take the workers from a run that is saving.

    The main process's own SIGTERM is heeded: it is how torch and multiprocessing end workers at the last.
    """
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_when_the_main_process_says, daemon=True).start()


def _end_when_the_main_process_says() -> None:
    main = multiprocessing.parent_process()
    while main is None or signal.sigwaitinfo({signal.SIGTERM}).si_pid != main.pid:
        pass
    os._exit(0)
