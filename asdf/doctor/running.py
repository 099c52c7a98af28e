"""Groups of steps, each in its own process, which may crash or hang."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from asdf.doctor.finding import MISSING, Finding
from asdf.runs.systems import end_process_group
from asdf.text import shorten

# The code of the new process, which must find the same modules as this one.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from asdf.doctor.probe import main; main(sys.argv[2])"
)
# As in `probe`, which is not imported, since it imports what may crash.
_MARK = "asdf-doctor "
# Maximum time for a killed process to disappear: one that waits for a dead disk never does.
_LAST_WAIT_S = 2.0


def examine(folders: Sequence[Path], limit_s: float) -> Iterator[Finding]:
    """Yield the findings as they arrive.

    Args:
        folders: Folders to check besides the working folder and those of temporary files and
            caches.
        limit_s: Maximum time without output before a group is terminated, in seconds.
    """
    cache = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    written = [Path.cwd(), *folders, Path(tempfile.gettempdir()), Path(cache).expanduser()]
    groups = ["installation", "torch", "decoders", "machine"]
    groups += dict.fromkeys(f"folder {folder.absolute()}" for folder in written)
    groups.append("slurm")
    for group in groups:
        yield from run_group(group, limit_s)


def run_group(group: str, limit_s: float) -> Iterator[Finding]:
    """Run a group in a process and yield its findings, the last being any early termination."""
    yield from run_program([sys.executable, "-c", _PROGRAM, json.dumps(sys.path), group], limit_s)


def run_program(command: Sequence[str], limit_s: float) -> Iterator[Finding]:
    """Run a program that prints like `asdf.doctor.probe`; see `run_group`."""
    try:
        process = subprocess.Popen(
            command,
            # Nobody answers a library that asks.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            # The last words of a crash are part of the finding.
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A separate session, so that child processes can be terminated with it.
            start_new_session=True,
        )
    except OSError as error:
        yield Finding(command[-1], MISSING, f"Python cannot be started: {error.strerror}")
        return
    assert process.stdout is not None
    lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    threading.Thread(target=_read_lines, args=(process.stdout, lines), daemon=True).start()
    course = _Course(command[-1])
    try:
        yield from _follow(course, lines, limit_s)
    finally:
        # Terminate the process and its children, without waiting for them forever.
        with suppress(subprocess.TimeoutExpired):
            # It has printed everything; only the interpreter's own exit is awaited.
            process.wait(_LAST_WAIT_S if process.poll() is None else 0)
        end_process_group(process.pid)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LAST_WAIT_S)
    if course.hangs:
        yield course.unanswered(limit_s)
    elif not course.is_complete:
        yield course.broken_off(process.returncode)


@dataclass
class _Course:
    """The progress of a group: the current step, and the last output that is not a finding."""

    step: str
    mend: str = ""
    failed: str = MISSING
    is_complete: bool = False
    hangs: bool = False
    words: list[str] = field(default_factory=list)

    def take(self, line: str) -> Finding | None:
        """Process a line of output; return the finding in it, if any."""
        if not line.startswith(_MARK):
            if line.strip():
                self.words.append(line.strip())
            return None
        record: dict[str, Any] = json.loads(line.removeprefix(_MARK))
        if "finding" in record:
            return Finding(**record["finding"])
        if "step" in record:
            self.step = record["step"]
            self.mend = record["mend"]
            self.failed = record["failed"]
        else:
            self.is_complete = True
        return None

    def unanswered(self, limit_s: float) -> Finding:
        return Finding(self.step, self.failed, f"no answer within {limit_s:g} s", self.mend)

    def broken_off(self, status: int | None) -> Finding:
        """Return the finding on a process that ended before its last step did."""
        how = f"exit status {status}"
        if status is not None and status < 0:
            with suppress(ValueError):
                how = f"killed by {signal.Signals(-status).name}"
        last = f": {shorten(self.words[-1])}" if self.words else ""
        return Finding(self.step, self.failed, f"ended early, {how}{last}", self.mend)


def _follow(
    course: _Course,
    lines: queue.SimpleQueue[str | None],
    limit_s: float,
) -> Iterator[Finding]:
    """Yield the findings in the lines, until they end or the time limit passes without one."""
    last_s = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=max(0.0, last_s + limit_s - time.monotonic()))
        except queue.Empty:
            course.hangs = True
            return
        if line is None:
            return
        # Only its own lines count: a library that hangs may go on printing.
        if line.startswith(_MARK):
            last_s = time.monotonic()
        finding = course.take(line)
        if finding is not None:
            yield finding


def _read_lines(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)
