"""How the processes of a run leave when one of them fails.

Invariant: no process waits for one that has failed. A GPU that is in an exchange of NCCL whose
other side is gone stays in it, and so does the host that waits for the GPU: it sees no signal and
no closed connection. So the process that fails writes that to the store, which a thread of each
other process watches. The thread ends its process, and nothing goes on from numbers that never
came.
"""

from __future__ import annotations

import gc
import os
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from asdf.distributed.stopping import Stopped
from asdf.errors import AsdfError
from asdf.runs.log import LOG

_FAILED = "failed"
_LOOK_S = 1.0
# In this time a process that is not stuck finds out by itself, and leaves in order.
_GRACE_S = 5.0


@contextmanager
def leaving_together(store: Any, rank: int, backend: str) -> Iterator[None]:
    """Close the process group when the block ends; if it fails in one process, end all of them.

    Args:
        store: Store that all processes reach, with keys of this group alone.
    """
    over = threading.Event()
    failures: list[BaseException] = []
    if backend == "nccl":
        arguments = (store, rank, over, failures)
        threading.Thread(target=_watch, args=arguments, daemon=True).start()
    try:
        yield
    except BaseException as error:
        is_failure = not isinstance(error, Stopped | GeneratorExit)
        if isinstance(error, SystemExit):
            is_failure = bool(error.code)
        if is_failure:
            failures.append(error)
            with suppress(Exception):  # the process that has the store may be gone already
                store.set(_FAILED, str(rank))
        raise
    finally:
        _close(abort=bool(failures) and backend == "nccl")
        over.set()


def _close(abort: bool) -> None:
    """Close the process group; `abort` does not wait for exchanges that are not complete."""
    if not dist.is_initialized():
        return
    # DistributedDataParallel is part of a reference cycle and holds the group. Left to the
    # interpreter's end, the group's threads go down in the wrong order, and the process
    # aborts after all its work is done.
    gc.collect()
    # A private name: should a later torch have none, leaving takes until the watch ends it.
    abort_group = getattr(distributed_c10d, "_abort_process_group", None)
    if abort and abort_group is not None:
        abort_group()
    else:
        dist.destroy_process_group()


def _watch(store: Any, rank: int, over: threading.Event, failures: list[BaseException]) -> None:
    """End this process some seconds after a failure, unless it is `over` by then.

    Args:
        failures: Failures of this process; the first is logged here, as nothing else would do it.
    """
    while not over.wait(_LOOK_S):
        try:
            if not store.check([_FAILED]):
                continue
            failed = str(store.get(_FAILED).decode())
        except RuntimeError:  # the process with the store has gone
            failed = ""
        if over.wait(_GRACE_S):
            continue
        if failures:
            LOG.error("rank %d: error: %s", rank, _describe(failures[0]))
        elif failed != str(rank):
            LOG.error(
                "rank %d: another process of this run has ended; its own message says why", rank
            )
        # Not `sys.exit`, which would end this thread only: the main one is stuck in the exchange.
        os._exit(1)


def _describe(error: BaseException) -> str:
    if isinstance(error, AsdfError):
        return str(error)
    return "".join(traceback.format_exception(error)).rstrip()
