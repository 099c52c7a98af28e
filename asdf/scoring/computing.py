"""Device, memory, threads, precision and engine that scores are computed with.

Invariant: lists (and thus validation and stage 2) and the Detector compute alike in one precision,
whatever the surrounding program has chosen. Scores are recorded with the precision that was really
used: a device that lacks the requested precision is logged, or refused. The score itself is always
a float32 number; scores of two engines differ by at most 1e-5.

The default precision, 'auto', is TF32 on GPUs that have it: fp32 takes several times as long there,
and TF32 moved no error rate of the networks that were tried (benchmarks/RESULTS.md).

All processes of a run score a list in one precision and with one engine, even if their devices
differ.

A forked process never waits for its parent's threads. A fork copies only the thread that calls it;
torch's other threads are gone, and waiting for them would never end. A detector in a forked process
therefore computes with one thread, as torch's data loaders do. While the process forks, none of its
threads computes a network, because a forked process inherits a lock that another thread held, but
not that thread. A batch that is about to begin waits until the fork is done.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol
from weakref import WeakSet

import torch
from torch import nn

from asdf.data.scoring_plan import batch_samples
from asdf.distributed.arithmetic import (
    NO_BFLOAT16,
    arithmetic,
    computes_bfloat16,
    multiplies_bfloat16,
)
from asdf.distributed.devices import usable_cores
from asdf.distributed.world import World
from asdf.errors import AsdfError, UsageError
from asdf.ports import load, provided
from asdf.runs.log import LOG
from asdf.runs.systems import call_around_forks
from asdf.settings.sections import Sections

# A fork that waited forever for a thread would be no better.
_PATIENCE_S = 60.0

# Weak, so that a lock disappears with its network.
_locks: WeakSet[Any] = WeakSet()
# Guards `_locks`. While a process forks, the forking thread holds it.
_registry = threading.RLock()
# Locks of the thread that forks, in the order in which it acquired them.
_forking = threading.local()

AUTO = "auto"
PRECISIONS = (AUTO, "fp32", "tf32", "bf16")
PACKED, PLAIN = "packed", "plain"
ENGINES = (PACKED, PLAIN)
_SMALL_NETWORK = 10_000_000
# First compute capability of NVIDIA GPUs with tensor cores for bf16 and TF32. torch also reports
# bf16 as supported on GPUs that only emulate it.
_NEEDED = (8, 0)
_EMULATED = (
    "this CPU has neither AVX512_BF16 nor AMX, so bf16 is emulated, slower than fp32 and coarser"
)
# Name of torch's host allocator, which its out-of-memory error (without a class of its own)
# contains.
_HOST = "DefaultCPUAllocator"
_choice = threading.RLock()


def new_computing_lock() -> Any:
    """Return a lock that a network holds while it computes, and that a fork waits for.

    It is reentrant, since a network may fork while it computes.
    """
    lock = threading.RLock()
    with _registry:
        _locks.add(lock)
    return lock


def _take_locks() -> None:
    # Threads that fork at the same time do so one after the other.
    _registry.acquire()
    _forking.taken = [lock for lock in _locks if lock.acquire(timeout=_PATIENCE_S)]


def _release_locks() -> None:
    for lock in _forking.taken:
        lock.release()
    _forking.taken = []
    _registry.release()


call_around_forks(_take_locks, _release_locks)


# Cached: a forked process inherits the number, and sees that it is another process.
@cache
def _first_process() -> int:
    """Return the process in which a detector was first made: this one or one of its parents."""
    return os.getpid()


def set_threads(threads: int | None) -> int:
    """Let torch compute with `threads` threads.

    None: as many threads as this process may use cores, or fewer if torch is set to fewer. A
    process that was forked after a detector was made computes with 1.

    Returns:
        The number of threads.
    """
    count = threads or min(torch.get_num_threads(), usable_cores())
    if _first_process() != os.getpid() and count > 1:
        LOG.warning(
            "this process was forked after its parent had made a detector: it computes with 1 "
            "thread instead of %d. Start it with 'spawn' or 'forkserver' to use more.",
            count,
        )
        count = 1
    torch.set_num_threads(count)
    return count


def choose_threads(requested: int | None, device: torch.device, parameters: int) -> int:
    """Choose the number of threads for a network.

    The default on a CPU is 1 for a network of fewer than 10 million parameters: its operations are
    so short that threads mostly wait for each other, and on a busy machine several threads take ten
    times as long as one. The choice does not depend on the load of the machine, because sums over
    another number of threads differ in their last digits.

    Args:
        requested: Requested number of threads, which torch already uses (`set_threads`); None: the
            default.
        parameters: Number in the network, or of all networks of a fused system.
    """
    if requested is None and device.type == "cpu" and parameters < _SMALL_NETWORK:
        return 1
    return torch.get_num_threads()


def find_device(wanted: str | torch.device) -> torch.device:
    """Return the device with that name; 'auto' is a GPU if there is one, else the CPU.

    Raises:
        UsageError: there is no such device.
    """
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(wanted)
        exists = device.type != "cuda" or (device.index or 0) < torch.cuda.device_count()
        if device.type not in ("cpu", "cuda"):
            # The value of a tensor on 'meta' cannot be read.
            exists = torch.ones(1, device=device).item() == 1
    # What torch raises differs by kind of device.
    except (RuntimeError, AssertionError, ImportError):
        exists = False
    if not exists:
        raise UsageError(
            f"torch {torch.__version__} has no device {str(wanted)!r} here: use 'auto', 'cpu', "
            f"'cuda' or 'cuda:1'; {torch.cuda.device_count()} GPUs are visible."
        )
    if device.type not in ("cpu", "cuda"):
        LOG.warning(
            "%s: ASDF is tested only on CPUs and NVIDIA GPUs. Score some recordings with device "
            "'cpu' too, and compare.",
            device,
        )
    return device


@dataclass(frozen=True)
class ScoringPrecision:
    """The precision in which a device computes scores.

    Attributes:
        name: Precision that is really used: 'fp32', 'tf32' or 'bf16', never 'auto'.
        reason: Why it is not the requested precision, or why it is slow; ''.
    """

    name: str
    device: torch.device
    reason: str = ""

    @contextmanager
    def computing(self) -> Iterator[None]:
        """Compute in this precision inside the block, without gradients."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            if self.device.type == "cuda":
                # The arithmetic of a GPU is a setting of the whole process: without the lock, two
                # threads would restore each other's setting instead of the program's.
                stack.enter_context(_choice)
                stack.enter_context(arithmetic(tf32=self.name == "tf32"))
            is_bf16 = self.name == "bf16"
            # Also without bf16, since a program's own autocast must not change scores.
            stack.enter_context(torch.autocast(self.device.type, torch.bfloat16, enabled=is_bf16))
            yield

    def describe(self) -> str:
        """Describe the precision for the log."""
        if not self.reason:
            return f"scoring in {self.name}"
        return f"scoring in {self.name}: {self.reason}"


def choose_scoring_precision(requested: str, device: torch.device) -> ScoringPrecision:
    """Choose what 'auto', 'fp32', 'tf32' or 'bf16' means on `device`.

    'auto' is TF32 on a GPU that has it, else fp32. A device without TF32 falls back to fp32, which
    is at least as accurate, and so does a CPU on which torch has no bf16. Emulated bf16 would be
    slower and coarser than fp32: it is refused on a GPU and logged on a CPU.

    Raises:
        UsageError: bf16 on a GPU that has none, or no such precision.
    """
    if requested not in PRECISIONS:
        raise UsageError(f"precision {requested!r} is not known: use {', '.join(PRECISIONS)}.")
    if requested == AUTO:
        # What torch reports as the compute capability of an AMD GPU says nothing about TF32.
        is_nvidia = device.type == "cuda" and torch.version.hip is None
        has_tf32 = is_nvidia and torch.cuda.get_device_capability(device) >= _NEEDED
        return ScoringPrecision("tf32" if has_tf32 else "fp32", device)
    if requested == "fp32":
        return ScoringPrecision(requested, device)
    if requested == "bf16" and device.type == "cpu":
        if not computes_bfloat16():
            return ScoringPrecision("fp32", device, NO_BFLOAT16)
        return ScoringPrecision("bf16", device, "" if multiplies_bfloat16() else _EMULATED)
    if device.type != "cuda":
        return ScoringPrecision("fp32", device, f"{requested} not used: it needs a GPU")
    capability = torch.cuda.get_device_capability(device)
    if capability >= _NEEDED:
        return ScoringPrecision(requested, device)
    lacks = f"{device} has compute capability {capability[0]}.{capability[1]}"
    if requested == "tf32":
        return ScoringPrecision("fp32", device, f"TF32 not used: {lacks}, it needs 8.0")
    raise UsageError(
        f"{lacks}, bf16 needs 8.0. Set computing.scoring_precision (of `score`: --precision) to "
        "'fp32'."
    )


class Engine(Protocol):
    """A network with other layers, which compute the same faster.

    It is made of the network, whether it replaces the network's own layers for good, and the
    number format of large products.
    """

    def __init__(self, network: nn.Module, replace: bool, dtype: torch.dtype) -> None: ...

    def in_use(self) -> AbstractContextManager[None]:
        """Let the network compute with these layers inside a block, in `eval()` mode."""
        ...


def choose_engine(requested: str, precision: ScoringPrecision) -> str:
    """Choose the engine for a device: the requested one where it computes, else 'plain'.

    'auto' is 'packed'.

    Raises:
        UsageError: no such engine.
    """
    requested = PACKED if requested == AUTO else requested
    if requested not in ENGINES:
        raise UsageError(
            f"engine {requested!r} is not known: use {AUTO}, {' or '.join(ENGINES)}; the detector "
            "small has 'graph' too."
        )
    path = provided("ENGINES").get(requested)
    if path is None or not load(path).takes(precision.device, precision.name):
        return PLAIN
    return requested


def open_engine(
    name: str, network: nn.Module, replace: bool, precision: ScoringPrecision
) -> Engine | None:
    """Return the engine with that name (`choose_engine`) for a network; None for 'plain'."""
    if name == PLAIN:
        return None
    dtype = torch.bfloat16 if precision.name == "bf16" else torch.float32
    engine: Engine = load(provided("ENGINES")[name])(network, replace, dtype)
    return engine


@contextmanager
def memory_errors_as(describe: Callable[[str], AsdfError]) -> Iterator[None]:
    """Raise a single error message if the block runs out of memory.

    Args:
        describe: Function that makes the error from torch's message.

    Raises:
        AsdfError: torch could not get memory.
    """
    try:
        yield
    except RuntimeError as error:
        if not isinstance(error, torch.OutOfMemoryError) and _HOST not in str(error):
            raise
        # torch continues with advice on its allocator, which does not help here.
        reason = str(error).partition("\n")[0].partition(" Of the allocated memory")[0]
        raise describe(reason.rstrip(".")) from error


def agree_on_precision(requested: str, world: World) -> ScoringPrecision:
    """Choose one precision for all processes of `world`, which call it together.

    Raises:
        UsageError: the device of a rank does not support the precision. Raised on every rank.
    """
    refusal = ""
    local = ScoringPrecision("fp32", world.device)
    try:
        local = choose_scoring_precision(requested, world.device)
    # Raised only after `gather`: a rank that left before it would keep the others waiting.
    except UsageError as error:
        refusal = str(error)
    every = world.gather((refusal, local.name, local.reason)) or []

    def decide() -> tuple[str, str]:
        for refusal, _, _ in every:
            if refusal:
                raise UsageError(refusal)
        if requested == AUTO:
            has_tf32 = all(name == "tf32" for _, name, _ in every)
            return "tf32" if has_tf32 else "fp32", ""
        # One process without the precision is enough to change it, because a list is not scored in
        # two precisions. A process that lacks it takes precedence over one that only emulates it.
        for _, name, reason in sorted(every, key=lambda choice: choice[1] == requested):
            if reason:
                return name, reason
        return local.name, ""

    name, reason = world.run_on_main(decide)
    return ScoringPrecision(name, world.device, reason)


def agree_on_engine(requested: str, precision: ScoringPrecision, world: World) -> str:
    """Choose one engine for all processes of `world`, which call it together.

    Raises:
        UsageError: as `choose_engine`.
    """
    local = choose_engine(requested, precision)
    every = world.gather(local) or []
    # One process without the engine is enough: a list is not scored with two engines.
    return world.run_on_main(lambda: PLAIN if PLAIN in every else local)


def describe_scoring(settings: Sections, world: World) -> list[str]:
    """Describe precision and batches for the log, where they differ from the defaults of a CPU.

    All processes call it together.

    Raises:
        UsageError: a device does not have the requested precision.
    """
    lines = []
    requested = settings.computing.scoring_precision
    precision = agree_on_precision(requested, world)
    if requested == AUTO and precision.name != "fp32":
        lines.append(
            f"{precision.describe()}, as computing.scoring_precision = 'auto' is on this GPU: "
            "'fp32' is more exact and takes several times as long"
        )
    elif requested not in (AUTO, "fp32"):
        lines.append(precision.describe())
    gpu = world.smallest_gpu()
    if gpu and settings.network.eval_minibatch_size_factor == "auto":
        samples = batch_samples(settings.network, gpu)
        factor = samples / settings.network.minibatch_size / settings.network.train_clip_size
        lines.append(
            f"scoring in batches of up to {samples:,} samples: network.eval_minibatch_size_factor "
            f"= 'auto' is {factor:.3g} on a GPU of {gpu / 1e9:.0f} GB"
        )
    return lines
