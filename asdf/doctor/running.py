"""Groups of steps, each in a process of its own that may crash or hang."""

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

# Of the program that is started: it must find the modules that this one finds.
_PROGRAM = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from asdf.doctor.probe import main; main(sys.argv[2])"
)
_MARK = "asdf-doctor "
# How long a killed process may take to be gone: one that waits for a dead disk never is.
_LAST_WAIT_S = 2.0


def examine(folders: Sequence[Path], limit_s: float) -> Iterator[Finding]:
    """Yield the findings as they come.

    Args:
        folders: looked at as well as the working folder and those of temporary files and caches.
        limit_s: a group that says nothing for longer is ended.
    """
    cache = os.environ.get("HF_HOME") or "~/.cache/huggingface"
    written = [Path.cwd(), *folders, Path(tempfile.gettempdir()), Path(cache).expanduser()]
    groups = ["installation", "torch", "decoders", "machine"]
    groups += dict.fromkeys(f"folder {folder.absolute()}" for folder in written)
    groups.append("slurm")
    for group in groups:
        yield from run_group(group, limit_s)


def run_group(group: str, limit_s: float) -> Iterator[Finding]:
    """Run one group in a process and yield its findings; what ends it too early is the last one."""
    yield from run_program([sys.executable, "-c", _PROGRAM, json.dumps(sys.path), group], limit_s)


def run_program(command: Sequence[str], limit_s: float) -> Iterator[Finding]:
    """Run a program that prints as `asdf.doctor.probe` does; see `run_group`."""
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # Of its own: what it has started ends with it.
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
        # The process and what it has started end, without waiting for it for ever.
        with suppress(subprocess.TimeoutExpired):
            # It has printed all; only the interpreter's own end is awaited.
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
    """How far a group has come: the step under way, and the last words that are not a finding."""

    step: str
    mend: str = ""
    failed: str = MISSING
    is_complete: bool = False
    hangs: bool = False
    words: list[str] = field(default_factory=list)

    def take(self, line: str) -> Finding | None:
        """Take a line of output; return the finding in it, if any."""
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
        """Return the finding of a process that ended before its last step did."""
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
    """Yield the findings in the lines, until they end or none comes for too long."""
    last_s = time.monotonic()
    while True:
        try:
            line = lines.get(timeout=max(0.0, last_s + limit_s - time.monotonic()))
        except queue.Empty:
            course.hangs = True
            return
        if line is None:
            return
        if line.startswith(_MARK):
            last_s = time.monotonic()
        finding = course.take(line)
        if finding is not None:
            yield finding


def _read_lines(stream: IO[str], lines: queue.SimpleQueue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)
