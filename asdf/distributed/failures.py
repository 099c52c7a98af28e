"""The end of a run's processes when one of them fails, and its report to the launcher.

Invariants: no process waits for one that has failed, and the launcher reports the process that
failed first.

A GPU in an NCCL exchange whose other side has died stays in it, and so does the host that waits for
the GPU: it notices neither signals nor closed connections. The failing process therefore writes
this to the store, which a thread of each other process watches. The thread ends its process, and
nothing continues with missing values. torchrun selects the earliest time in whole seconds, so a
process that fails only because another has died (a closed connection) waits for the launcher's
signal before it ends.
"""

from __future__ import annotations

import gc
import json
import os
import threading
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from asdf.distributed.stopping import Stopped, has_been_terminated
from asdf.errors import AsdfError
from asdf.runs.log import LOG

# Parts of messages from gloo and torch's store.
_SIGNS_OF_LOST_CONTACT = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Application timeout",
    "Socket closed",
)
_WAIT_S = 10.0
_POLL_S = 0.1
_FAILED = "failed"
_LOOK_S = 1.0
# Within this time, a process that is not stuck notices the failure and ends normally.
_GRACE_S = 5.0


def lost_contact(error: BaseException) -> bool:
    """Return whether `error` only says that another process of the group has died."""
    # gloo raises plain RuntimeErrors, which can only be identified by their texts.
    is_by_text = any(sign in str(error) for sign in _SIGNS_OF_LOST_CONTACT)
    is_of_network = isinstance(error, dist.DistNetworkError)
    return is_of_network or (isinstance(error, RuntimeError) and is_by_text)


def waited_too_long(error: BaseException) -> bool:
    """Return whether this process waited for another longer than computing.timeout_s."""
    text = str(error).lower()
    return isinstance(error, RuntimeError) and ("timed out waiting" in text or "timeout" in text)


def record_for_launcher(error: BaseException) -> None:
    """Write the traceback where torchrun looks for it, to print it at its end."""
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(error)


def record_message_for_launcher(text: str) -> None:
    """Write a message instead of a traceback, in the layout of torchrun's `record_exception`."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is None:
        return
    # torchrun prints the call stack after its own text; a new line makes it easier to find.
    details = {"py_callstack": f"\n{text}", "timestamp": str(int(time.time()))}
    content = {"message": {"message": text, "extraInfo": details}}
    Path(path).write_text(json.dumps(content), encoding="utf-8")


def wait_for_launcher() -> None:
    """Wait for the launcher to end this process when it notices the other's failure."""
    until = time.monotonic() + _WAIT_S
    while not has_been_terminated() and time.monotonic() < until:
        time.sleep(_POLL_S)


@contextmanager
def failing_together(store: Any, rank: int, backend: str) -> Iterator[None]:
    """Close the process group after the block; if it fails in one process, end all of them.

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
    """Close the process group; `abort` does not wait for incomplete exchanges."""
    if not dist.is_initialized():
        return
    # DistributedDataParallel is part of a reference cycle and holds the group. If left to the
    # interpreter's exit, the group's threads end in the wrong order, and the process aborts after
    # all its work is done.
    gc.collect()
    # A private name; if a later torch lacks it, leaving takes until the watch ends the process.
    abort_group = getattr(distributed_c10d, "_abort_process_group", None)
    if abort and abort_group is not None:
        abort_group()
    else:
        dist.destroy_process_group()


def _watch(store: Any, rank: int, over: threading.Event, failures: list[BaseException]) -> None:
    """End this process some seconds after a failure, unless it is `over` by then.

    Args:
        failures: Failures of this process; the first is logged here, since nothing else would do
            it.
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
            error = failures[0]
            whole = "".join(traceback.format_exception(error)).rstrip()
            text = str(error) if isinstance(error, AsdfError) else whole
            LOG.error("rank %d: error: %s", rank, text)
        elif failed != str(rank):
            LOG.error("rank %d: another process of this run has ended and says why", rank)
        # Not `sys.exit`, which would only end this thread, while the main one is stuck.
        os._exit(1)
