"""The processes of a run as one object.

Invariant: the main rank makes every decision that depends on a clock, a file or a metric, and
shares it (`agree`, `run_on_main`), so that all ranks take the same branch. Control messages have
their own group on gloo, which neither waits for the GPU nor needs it. A world of one opens no
process group.
"""

from __future__ import annotations

import math
import os
import pickle
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore

from asdf.distributed.arithmetic import keep_arithmetic, set_arithmetic
from asdf.distributed.determinism import deterministic
from asdf.distributed.devices import keep_freed_memory, usable_cores
from asdf.distributed.failures import failing_together
from asdf.distributed.gpus import gpu_memory, take_device
from asdf.distributed.launchers import read_launch
from asdf.distributed.rendezvous import agree_on_devices, agree_on_local_ranks, open_store
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.settings.sections import Computing

T = TypeVar("T")
_store: Any = None
_worlds_opened = 0


@dataclass(frozen=True)
class World:
    """The information of a process about itself and the others.

    Attributes:
        backend: Backend of the process group; '' in a world of one.
        timeout_s: Time to wait for another process, or for a read, before the run ends, in seconds.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    backend: str = ""
    _control: Any = None
    timeout_s: float = math.inf
    _store: Any = None

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def agree(self, value: T) -> T:
        """Return the main rank's `value` on every rank."""
        objects = [value]
        if self.size > 1:
            dist.broadcast_object_list(objects, src=0, group=self._control)
        return objects[0]

    def run_on_main(self, function: Callable[[], T]) -> T:
        """Run `function` on the main rank while the others wait.

        Returns:
            Result of the function, on every rank.

        Raises:
            Exception: an error of `function`; on other ranks one of its class with its text, or of
            the nearest built-in class if the class is a library's.
        """
        result: Any = None
        error: Exception | None = None
        if self.is_main:
            try:
                result = function()
            except Exception as raised:
                error = raised
        # Also after a failure, since the others would wait until the timeout.
        result, failure = self.agree((result, None if error is None else _as_sent(error)))
        if error is not None:
            raise error
        if failure is not None:
            # The main rank reports it; here it only ends the process.
            failure.reported_by_main = True  # type: ignore[attr-defined]
            raise failure
        shared: T = result
        return shared

    def gather(self, value: T) -> list[T] | None:
        """Return the values of all ranks, in order, on the main rank; None elsewhere."""
        if self.size == 1:
            return [value]
        values: list[Any] | None = [None] * self.size if self.is_main else None
        dist.gather_object(value, values, dst=0, group=self._control)
        return values

    def sum(self, numbers: Sequence[float]) -> list[float]:
        """Return each of `numbers` summed over the ranks, in float64, on every rank."""
        total = torch.tensor(list(numbers), dtype=torch.float64)
        if self.size > 1:
            dist.all_reduce(total, group=self._control)
        return total.tolist()

    def sum_tensor(self, tensor: Tensor) -> None:
        """Sum `tensor` over the ranks, in place, on its device; the host does not wait."""
        if self.size > 1:
            dist.all_reduce(tensor)

    def barrier(self) -> None:
        """Wait for all ranks."""
        self.sum([0.0])

    def common_error(self, error: AsdfError) -> AsdfError:
        """Return an error that every rank raises, and the main rank alone reports."""
        error.reported_by_main = not self.is_main
        return error

    def listening(self, stop: StopRequest) -> AbstractContextManager[StopRequest]:
        """Let `stop` receive signals in the block, and requests of other ranks soon after."""
        return stop.listening(self._store)

    def stop_together(self, stop: StopRequest, when: str) -> None:
        """Raise `Stopped` on every rank if any of them received a request to stop.

        Args:
            when: Time in words for the message, such as 'after step 3'.
        """
        if self.sum([float(bool(stop))])[0]:
            raise Stopped(self.agree(stop.reason), when)

    def broadcast_buffers(self, network: nn.Module) -> None:
        """Give every rank the main rank's buffers, such as batch norm's running statistics."""
        if self.size > 1:
            for buffer in network.buffers():
                dist.broadcast(buffer, src=0)

    def smallest_gpu(self) -> int:
        """Return the memory of the smallest GPU of all ranks in bytes, on every rank; 0 on CPUs.

        Batch sizes that follow from it do not depend on the rank.
        """
        memories = self.gather(gpu_memory(self.device))
        return self.agree(min(memories or [0]))

    def describe(self) -> str:
        """Return a line about this process for the log."""
        device = str(self.device)
        if self.device.type == "cuda":
            device += f" ({torch.cuda.get_device_name(self.device)})"
        return (
            f"rank {self.rank} of {self.size}: host {socket.gethostname()}, "
            f"local rank {self.local_rank}, device {device}"
        )


def _as_sent(raised: Exception) -> Exception:
    """Return an error that each rank can raise and that the same handlers catch everywhere."""
    if isinstance(raised, AsdfError):
        return type(raised)(str(raised))
    own = (kind for kind in type(raised).__mro__ if kind.__module__ == "builtins")
    kind = next(own)
    try:
        sent = raised if type(raised) is kind else kind(str(raised))
        return cast(Exception, pickle.loads(pickle.dumps(sent)))
    except Exception:  # it holds what cannot be sent, or is made of more than a text
        return RuntimeError(str(raised))


@contextmanager
def open_world(computing: Computing) -> Iterator[World]:
    """Open the world that this process belongs to, from its launcher; alone, a world of one.

    The device is set before the process group opens, and the group is always closed. Changes to the
    process's arithmetic in the block are reverted after it.

    Raises:
        UsageError: the launcher is not understood (`read_launch`), the GPUs do not fit the settings
            (`take_device`) or the processes (`agree_on_devices`), or the environment does not fit
            `computing.deterministic`.
        AsdfError: the processes do not all arrive.
    """
    threads = torch.get_num_threads()
    try:
        with keep_arithmetic(), deterministic(computing.deterministic):
            yield from _join_world(computing)
    finally:
        torch.set_num_threads(threads)


def _join_world(computing: Computing) -> Iterator[World]:
    global _store, _worlds_opened
    launch = read_launch()
    keep_freed_memory()
    if launch.size == 1:
        device = _prepare_device(computing, take_device(computing, 0, 1)[0], 1)
        yield World(device=device, timeout_s=computing.timeout_s)
        return
    timeout = timedelta(seconds=computing.timeout_s)
    if _store is None:
        _store = open_store(launch, timeout)
    _worlds_opened += 1
    # A part of the store with separate keys, so that each run can open a group.
    store = PrefixStore(f"run-{_worlds_opened}", _store)
    launch = agree_on_local_ranks(store, launch)
    local_rank = launch.local_rank or 0
    local_size = launch.local_size or 1
    names = (
        f"computing.gpu_ids = {computing.gpu_ids}, processes started by {launch.launcher}, "
        f"CUDA_VISIBLE_DEVICES of rank {launch.rank} "
        f"{os.environ.get('CUDA_VISIBLE_DEVICES', 'not set')}"
    )
    choose = partial(take_device, computing, local_rank, local_size)
    chosen = agree_on_devices(store, launch, choose, names)
    device = _prepare_device(computing, chosen, local_size)
    backend = _choose_backend(computing, device)
    with failing_together(store, launch.rank, backend):
        dist.init_process_group(
            backend,
            store=store,
            rank=launch.rank,
            world_size=launch.size,
            timeout=timeout,
            device_id=device if backend == "nccl" else None,
        )
        is_gloo = backend == "gloo"
        control = None if is_gloo else dist.new_group(backend="gloo", timeout=timeout)
        ranks = (launch.rank, launch.size, local_rank, local_size)
        world = World(*ranks, device, backend, control, computing.timeout_s, store)
        yield world
        # Closing connections while another process still uses them could end that one.
        world.barrier()


def _prepare_device(computing: Computing, name: str, local_size: int) -> torch.device:
    """Return the device, and set its arithmetic and the host's threads from the settings."""
    device = torch.device(name)
    if device.type == "cuda":
        set_arithmetic(computing.tf32)
        # The host computes little in this case, and the loader's workers need the cores.
        threads = 1
    else:
        # torch would give each process all cores, and they would slow each other down.
        threads = max(1, usable_cores() // local_size)
    torch.set_num_threads(computing.threads or threads)
    return device


def _choose_backend(computing: Computing, device: torch.device) -> str:
    backend = computing.backend
    if backend == "auto":
        return "nccl" if device.type == "cuda" else "gloo"
    if backend == "nccl" and device.type != "cuda":
        raise UsageError("computing.backend = 'nccl' needs GPUs: use 'auto' or 'gloo'.")
    if backend == "mpi" and not dist.is_mpi_available():
        raise UsageError("computing.backend = 'mpi' needs a torch with MPI: use 'auto'.")
    return backend
