"""Reporting of failures among several processes.

Invariant: the launcher reports the process that failed first. torchrun selects the earliest time in
whole seconds, so a process that fails only because another has died (a closed connection) waits for
the launcher's signal before it ends.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch.distributed as dist

from asdf.distributed.stopping import has_been_terminated

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


def lost_contact(error: BaseException) -> bool:
    """Return whether `error` only says that another process of the group has died."""
    if isinstance(error, dist.DistNetworkError):
        return True
    # gloo raises plain RuntimeErrors, which can only be identified by their texts.
    if not isinstance(error, RuntimeError):
        return False
    return any(sign in str(error) for sign in _SIGNS_OF_LOST_CONTACT)


def waited_too_long(error: BaseException) -> bool:
    """Return whether this process waited for another longer than computing.timeout_s."""
    if not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return "Timed out waiting" in text or "timeout" in text.lower()


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
