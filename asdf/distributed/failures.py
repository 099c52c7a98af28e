"""How a failure among several processes is reported.

Invariant: the launcher blames the process that failed first. torchrun reports the failure with the
earliest time in whole seconds, so a process that fails only because another has gone (its
connection closed) waits for the launcher's signal before it ends.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch.distributed as dist

from asdf.distributed.stopping import has_been_terminated

# In the messages of gloo and of torch's store.
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
    """Return whether `error` only says that another process of the group has gone."""
    if isinstance(error, dist.DistNetworkError):
        return True
    # gloo raises plain RuntimeErrors, which only their texts tell apart.
    if not isinstance(error, RuntimeError):
        return False
    return any(sign in str(error) for sign in _SIGNS_OF_LOST_CONTACT)


def waited_too_long(error: BaseException) -> bool:
    """Return whether this process waited for another for longer than computing.timeout_s."""
    if not isinstance(error, RuntimeError):
        return False
    text = str(error)
    return "Timed out waiting" in text or "timeout" in text.lower()


def record_for_launcher(error: BaseException) -> None:
    """Write the traceback where torchrun looks for it, which prints it at its end."""
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(error)


def record_message_for_launcher(text: str) -> None:
    """Write a message instead of a traceback, in the layout of torchrun's `record_exception`."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is None:
        return
    # torchrun prints the call stack after words of its own; a new line lets readers find it.
    details = {"py_callstack": f"\n{text}", "timestamp": str(int(time.time()))}
    content = {"message": {"message": text, "extraInfo": details}}
    Path(path).write_text(json.dumps(content), encoding="utf-8")


def wait_for_launcher() -> None:
    """Wait for the launcher to end this process, which it does when it sees the other's failure."""
    until = time.monotonic() + _WAIT_S
    while not has_been_terminated() and time.monotonic() < until:
        time.sleep(_POLL_S)
