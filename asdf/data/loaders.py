"""Worker processes that read batches ahead, in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import wait
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from asdf.audio import fallbacks
from asdf.audio.rawboost_batch import Unboosted
from asdf.data.datasets import collate
from asdf.data.slots import (
    PREFETCHED,
    InSlot,
    Slots,
    Slotted,
    memory_errors_as_messages,
    with_slots,
)
from asdf.data.threads import threads
from asdf.distributed.allocator import keep_freed_memory
from asdf.distributed.cores import usable_cores
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError

_Batch = torch.Tensor | Unboosted | AsdfError

# What keeps a GPU busy: the main thread, and autograd's.
_CORES_OF_THE_HOST = 2

# A batch is waited for so many seconds at a time; and so many seconds at least after a request to stop.
_POLL_S = 0.5
_PATIENCE_S = 8.0


class BatchLoader:
    """Reads batches of a dataset, named by their keys; its workers live on from one list of batches to the next.

    Attributes:
        workers: how many there are.
        cores: how many cores the workers can have; there are no more workers.
        decoded_by_ffmpeg: paths of this pass that libsndfile could not decode (see `asdf.audio.fallbacks`).
    """

    def __init__(
        self,
        dataset: Dataset,
        workers: int,
        world: World,
        reused: int = 0,
        stop: StopRequest | None = None,
    ) -> None:
        """A loader of the items of `dataset`.

        Args:
            workers: how many are asked for; 0: this process reads by itself, when a batch is asked for.
            reused: how many numbers the largest batch has, if batches may be read into the same memory again: a batch
                is then good only until the next one is asked for, and `dataset` has to be one that `ReadsIntoRoom`.
                0: they may not. On a GPU it changes nothing, since a batch is copied there from pinned memory.
            stop: where it is given, a worker that does not come back from a read does not hold the run that is asked
                to stop. (Without workers this process is in the read itself.)
        """
        self._keys = _Keys()
        self.cores = max(1, usable_cores() // world.local_size)
        if world.device.type == "cuda":
            self.cores = max(1, self.cores - _CORES_OF_THE_HOST)
        self.workers = workers = min(workers, self.cores)
        self._slots = Slots(workers, reused) if reused and world.device.type != "cuda" else None
        self._loader = DataLoader(
            Slotted(dataset, self._slots) if self._slots else dataset,  # type: ignore[arg-type]
            batch_sampler=self._keys,
            num_workers=workers,
            collate_fn=_collate_in_slot if self._slots else _collate,
            prefetch_factor=PREFETCHED if workers else None,
            persistent_workers=workers > 0,
            pin_memory=world.device.type == "cuda",
            # Its own generator: the loader draws a number at each pass, which must not be one of the network's.
            generator=torch.Generator(),
            worker_init_fn=_start_worker,
        )
        self._stop = stop
        self._processes: set[multiprocessing.process.BaseProcess] = set()
        self._to_device = ToDevice(world.device)
        self.decoded_by_ffmpeg: set[str] = set()

    def batches(self, keys: Iterable[list[Any]]) -> Iterator[torch.Tensor]:
        """Waveforms (batch, samples) on the world's device, for each list of keys in turn.

        Raises: as `unboosted_batches`.
        """
        for batch in self.unboosted_batches(keys):
            yield batch.boosted() if isinstance(batch, Unboosted) else batch

    def unboosted_batches(self, keys: Iterable[list[Any]]) -> Iterator[torch.Tensor | Unboosted]:
        """The same, before RawBoost, where that is computed on the device.

        Raises:
            AsdfError: a recording of the batch cannot be read.
            Stopped: a stop was asked for, and the workers did not come back from their reads.
        """
        self._keys.keys = with_slots(keys, self._slots) if self._slots else keys
        fallbacks.take()
        self.decoded_by_ffmpeg = set()
        for batch, decoded in self._delivered():
            self.decoded_by_ffmpeg |= decoded
            if isinstance(batch, AsdfError):
                raise batch
            if isinstance(batch, InSlot):
                assert self._slots is not None
                batch = self._slots.view(batch)
            yield self._to_device(batch)

    def _delivered(self) -> Iterator[tuple[_Batch | InSlot, set[str]]]:
        """What the workers deliver, for as long as they do."""
        before = set(multiprocessing.active_children())
        delivered: Iterator[Any] = iter(self._loader)
        self._processes |= set(multiprocessing.active_children()) - before
        if self._stop is None or not self.workers:
            yield from delivered
            return
        with threads(1) as waiting:
            while True:
                batch = waiting.submit(next, delivered, None)
                asked_to_stop = 0.0
                while not wait([batch], timeout=_POLL_S).done:
                    asked_to_stop += _POLL_S if self._stop else 0.0
                    if asked_to_stop >= _PATIENCE_S:
                        self._give_up()
                if (result := batch.result()) is None:
                    return
                yield result

    def _give_up(self) -> None:
        assert self._stop is not None
        for process in self._processes:
            process.terminate()
        raise Stopped(
            self._stop.reason,
            "while a recording could not be read (its disk or file server does not answer), and nothing since the last "
            "checkpoint is saved",
        )


class ToDevice:
    """Copies batches to the device beside its work, on a stream of their own.

    The host runs ahead of a GPU: it asks for a batch while the GPU is at work on the one before, and the copy happens
    then. What the GPU does with the batch waits for the copy; the host waits for nothing.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, batch: torch.Tensor | Unboosted) -> torch.Tensor | Unboosted:
        """`batch`, of pinned memory where there is a GPU, on the device."""
        if self._stream is None:
            return batch.to(self._device)
        with torch.cuda.stream(self._stream):
            sent = batch.to(self._device, non_blocking=True)
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        # The memory is the copying stream's: it must not be given to a later copy before this batch has been used.
        sent.record_stream(current)
        return sent


class _Keys:
    """A batch sampler whose batches can be changed between two passes; they are made while they are asked for."""

    keys: Iterable[list[Any]] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.keys)


def _collate_in_slot(read: Any) -> tuple[_Batch | InSlot, set[str]]:
    """What `Slots.read` gives: the batch where it lies, or made of its items, and what FFmpeg decoded for it."""
    batch, items = read
    return (batch, fallbacks.take()) if batch else _collate(items)


def _collate(items: list[Any]) -> tuple[_Batch, set[str]]:
    """The batch, and what FFmpeg decoded for it: a worker has no other way to tell the main process."""
    batch: _Batch
    try:
        with memory_errors_as_messages():
            batch = collate(items)
    except AsdfError as error:
        batch = error
    return batch, fallbacks.take()


def _start_worker(worker: int) -> None:
    fallbacks.take()  # a forked process has what its parent had noted
    keep_freed_memory()  # a spawned process does not inherit it
    _leave_signals_to_the_main_process(worker)


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
