"""What becomes of a failure among several processes.

Invariant: the process that failed first is the one that the launcher blames. torchrun reports the failure with the
earliest time in whole seconds, so a process that fails only because another has gone (its connection closed) waits
for the launcher's signal before it ends.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch.distributed as dist

from asdf.distributed.stopping import has_been_terminated

_SIGNS = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Application timeout",
    "Socket closed",
)
_WAIT_S, _LOOK_S = 10.0, 0.1


def lost_contact(error: BaseException) -> bool:
    """Whether `error` only says that another process of the group has gone."""
    return isinstance(error, dist.DistNetworkError) or (
        isinstance(error, RuntimeError) and any(sign in str(error) for sign in _SIGNS)
    )


def waited_too_long(error: BaseException) -> bool:
    """Whether `error` says that another process kept this one waiting for longer than computing.timeout_s."""
    text = str(error)
    return isinstance(error, RuntimeError) and (
        "Timed out waiting" in text or "timeout" in text.lower()
    )


def record_for_launcher(error: BaseException) -> None:
    """Leave the traceback where torchrun looks for it, so that it stands at the end of what torchrun prints."""
    if "TORCHELASTIC_ERROR_FILE" in os.environ:
        from torch.distributed.elastic.multiprocessing.errors import get_error_handler

        get_error_handler().record_exception(error)


def record_message_for_launcher(text: str) -> None:
    """Leave a message instead of a traceback where torchrun looks for one, in the layout of its `record_exception`."""
    path = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if path is None:
        return
    # torchrun prints the call stack behind words of its own: on a line of its own it is found by those who look for it.
    details = {"py_callstack": f"\n{text}", "timestamp": str(int(time.time()))}
    content = {"message": {"message": text, "extraInfo": details}}
    Path(path).write_text(json.dumps(content), encoding="utf-8")


def wait_for_launcher() -> None:
    """Wait for the launcher to end this process; it does so as soon as it has seen the failure of the other."""
    until = time.monotonic() + _WAIT_S
    while not has_been_terminated() and time.monotonic() < until:
        time.sleep(_LOOK_S)
