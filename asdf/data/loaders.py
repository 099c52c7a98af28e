"""Worker processes that read batches ahead, in order."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data._utils import signal_handling

from asdf.audio.recording_files import last_opened
from asdf.data.batches import Batch, Clip, collate
from asdf.data.threads import threads
from asdf.distributed.devices import keep_freed_memory, usable_cores
from asdf.distributed.stopping import SIGNALS, Stopped, StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError, killed_worker
from asdf.runs.log import LOG

# torch's handler raises in the main thread when a worker is killed, whatever that thread is doing.
# Waiting for the worker's next batch notices it as well.
signal_handling._SIGCHLD_handler_set = True

# Threads that keep a GPU busy: the main thread, and autograd's.
_CORES_OF_THE_HOST = 2

# Interval of checks for a stop request while waiting for a batch, and patience after one.
_POLL_S = 0.5
_PATIENCE_S = 8.0
# Time of a read after which the log reports it.
_REMARK_S = 60.0
# Maximum share of `computing.timeout_s` for a read: other processes wait for this one as long, and
# their messages, which name no recording, must not come first.
_READS_SHARE = 0.9


class BatchLoader:
    """Reads batches of a dataset by their keys.

    Its workers stay alive between lists of batches. They pass batches in shared memory, which torch
    allocates for each batch: reusing it made reading a third faster, but training on a CPU, the
    only case that could use it, by less than 2 %.

    Attributes:
        workers: Number of workers.
        cores: Number of cores for the workers, the maximum number of workers.
    """

    def __init__(
        self, dataset: Dataset[Clip], workers: int, world: World, stop: StopRequest | None = None
    ) -> None:
        """Prepare to read items of `dataset`.

        Args:
            workers: Requested number of workers; 0 to read in this process on demand.
            stop: Request to stop; a read that does not return does not block a run that should
                stop.
        """
        self._keys = _Keys()
        self.cores = max(1, usable_cores() // world.local_size)
        if world.device.type == "cuda":
            self.cores = max(1, self.cores - _CORES_OF_THE_HOST)
        self.workers = min(workers, self.cores)
        self._loader = DataLoader(
            dataset,
            batch_sampler=self._keys,
            num_workers=self.workers,
            collate_fn=_collate,
            persistent_workers=self.workers > 0,
            pin_memory=world.device.type == "cuda",
            # A separate generator, since the loader draws a number in each pass, which must not
            # affect the network's draws.
            generator=torch.Generator(),
            worker_init_fn=_start_worker,
        )
        self._stop = stop
        self._limit_s = _READS_SHARE * world.timeout_s
        self._device = world.device
        self._processes: list[Any] = []
        self._stream = torch.cuda.Stream(world.device) if world.device.type == "cuda" else None

    def batches(self, keys: Iterable[list[Any]]) -> Iterator[Tensor]:
        """Yield waveforms (batch, samples) on the world's device, for each list of keys in turn.

        Raises: as in `unboosted_batches`.
        """
        for batch in self.unboosted_batches(keys):
            yield batch.boosted()

    def unboosted_batches(self, keys: Iterable[list[Any]]) -> Iterator[Batch]:
        """Yield the same before RawBoost, if it is computed on the device.

        Raises:
            AsdfError: a recording of the batch cannot be read, or not within the world's timeout.
            Stopped: a stop was requested, and the workers did not return from their reads.
        """
        self._keys.keys = keys
        with _signals_blocked() if hasattr(signal, "pthread_sigmask") else nullcontext():
            delivered: Iterator[Batch] = iter(self._loader)
        self._processes = getattr(delivered, "_workers", [])
        for process in self._processes:
            # torch and multiprocessing end workers by SIGTERM, which these ignore, and then wait.
            process._popen.terminate = process._popen.kill
        with threads(1) as waiting:
            if self._device.type == "cuda":
                # Without workers, batches are pinned in the thread, for the device of this process.
                waiting.submit(torch.cuda.set_device, self._device)
            while True:
                # A thread waits or reads, so that this one can check the stop request.
                future = waiting.submit(next, delivered, None)
                self._wait_for(future)
                try:
                    batch = future.result()
                except (ConnectionError, EOFError) as error:
                    # A worker that dies while it sends its batch is not explained by torch.
                    raise (killed_worker() if self._processes else error) from error
                if batch is None:
                    return
                if batch.error is not None:
                    raise batch.error
                yield self._sent(batch)

    def _sent(self, batch: Batch) -> Batch:
        """Return a batch, which is in pinned memory if there is a GPU, on the device.

        The host runs ahead of a GPU: it copies the next batch, on a separate stream, while the GPU
        works on the previous one. The GPU's work on a batch waits for its copy; the host does not.
        """
        if self._stream is None:
            return batch.to(self._device)
        with torch.cuda.stream(self._stream):
            sent = batch.to(self._device, non_blocking=True)
        current = torch.cuda.current_stream(self._device)
        current.wait_stream(self._stream)
        # The memory belongs to the copying stream and must not be reused for a later copy before
        # this batch has been used.
        sent.record_stream(current)
        return sent

    def _wait_for(self, batch: Future[Batch | None]) -> None:
        """Wait until a batch is read, which may never happen with a dead file server."""
        waited_s = stopping_s = 0.0
        while not wait([batch], timeout=_POLL_S).done:
            waited_s += _POLL_S
            if waited_s == _REMARK_S:
                LOG.warning(
                    "%s has been read for %g s: is its disk or file server responding?",
                    self._name_of_read(),
                    _REMARK_S,
                )
            if self._stop:
                stopping_s += _POLL_S
            if self._stop and stopping_s >= _PATIENCE_S:
                self._end_workers()
                raise Stopped(
                    self._stop.reason,
                    f"while {self._name_of_read()} could not be read (its disk or file server does "
                    "not respond), and nothing since the last checkpoint is saved",
                )
            if waited_s >= self._limit_s:
                self._end_workers()
                raise AsdfError(
                    f"{self._name_of_read()} could not be read within {waited_s:g} s: its disk or "
                    "file server does not respond. Once it does, the same command continues from "
                    "what is saved; if it is only slow, raise computing.timeout_s, of which a read "
                    "may take nine tenths."
                )

    def _name_of_read(self) -> str:
        """Return the recording being read in this process, or a description for a worker's."""
        opened = None if self.workers else last_opened()
        return "a recording" if opened is None else str(opened)

    def _end_workers(self) -> None:
        for process in self._processes:
            process.terminate()


class _Keys:
    """A batch sampler whose batches can be replaced between two passes.

    The batches are created on demand.
    """

    keys: Iterable[list[Any]] = ()

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.keys)


def _collate(clips: list[Clip]) -> Batch:
    try:
        return collate(clips)
    except RuntimeError as error:
        # All failures of torch to allocate shared memory name its file.
        if "</torch_" not in str(error):
            raise
        full = AsdfError(
            "the loader's processes hand batches over in shared memory (/dev/shm), which is too "
            "small. In a container, enlarge it (docker run --shm-size=8g, or --ipc=host); or lower "
            "computing.network_dataloader_workers."
        )
        return Batch(error=full)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block the stop signals while processes start, which inherit this with all their threads."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _start_worker(worker: int) -> None:
    # A spawned process does not inherit this setting.
    keep_freed_memory()
    # A scheduler's stop signals to all processes must not kill the workers of a run that is saving.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
