"""A group's process: `python -m benchmarks.gpu.worker MODULE SECONDS SETUP CHECK...` (SETUP: JSON).

Standard output is for messages, one line of JSON each: {"check": name} before a check, {"line":
...} for a result, {"done": name} after it. Output of libraries goes to standard error, which is the
log. After a CUDA error the process ends at once, because all later computations would fail too.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from importlib import import_module
from typing import Any

from asdf.distributed.arithmetic import set_arithmetic
from benchmarks.gpu.groups import Check, Setup
from benchmarks.gpu.verdict import Line, failed, not_run
from benchmarks.harness import error_line

CUDA_BROKEN = 3


class Messages:
    """The channel to the process that reads the results."""

    def __init__(self) -> None:
        self._file = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)  # from here on, whatever prints does not print in between

    def send(self, **message: Any) -> None:
        self._file.write(json.dumps(message) + "\n")
        self._file.flush()


def main(module: str, budget: float, setup: Setup, wanted: list[str]) -> int:
    """Run the checks of a module within a budget in seconds."""
    messages = Messages()
    checks: dict[str, Check] = import_module(module).CHECKS
    # As in runs: checks without a world of processes compute in the same arithmetic.
    set_arithmetic(tf32=False)
    budget *= setup.patience
    deadline = time.monotonic() + budget
    for check, function in checks.items():
        if check not in wanted:
            continue
        messages.send(check=check)
        if time.monotonic() > deadline:
            reason = f"the {budget:g} s of the group were spent"
            messages.send(line=not_run(check, reason).as_json())
        elif not _run(check, function, setup, messages):
            return CUDA_BROKEN
        messages.send(done=check)
    return 0


def _run(check: str, function: Check, setup: Setup, messages: Messages) -> bool:
    """Send the lines of a check; return whether the process can continue."""
    try:
        for line in function(setup):
            messages.send(line=line.as_json())
    except Exception as error:
        traceback.print_exc()
        messages.send(line=_failure(check, error).as_json())
        if "CUDA error" in str(error):
            messages.send(done=check)
            return False
    return True


def _failure(check: str, error: Exception) -> Line:
    return failed(check, f"{type(error).__name__}: {error_line(str(error))}")


if __name__ == "__main__":
    status = main(sys.argv[1], float(sys.argv[2]), Setup(**json.loads(sys.argv[3])), sys.argv[4:])
    sys.stderr.flush()
    # A broken device may block the interpreter's exit forever.
    os._exit(status)
