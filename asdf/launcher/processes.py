"""The processes of a run that a launch has started, and their observation from outside.

Invariants: a run has its own session, so that only the launcher receives Ctrl-C. It is requested to
stop when the launcher dies for any reason. Its log is locked while any of its processes lives, so
that no launcher, not even one that was killed and restarted, starts a second run in the same system
folder.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from shlex import join

from asdf.distributed.devices import visibility_variable
from asdf.distributed.stopping import STOPPED
from asdf.launcher.states import Job, read_results
from asdf.runs.evaluations import first_value
from asdf.runs.systems import lock
from asdf.trials.how_scored import in_precision

# The last line of a Python traceback, errors of recipes, and torchrun's message on a killed
# process.
_ERROR = re.compile(
    r"(\[rank ?\d+\]:? )?(error: |[\w.]+(Error|Exception|Interrupt)(: \S|$))"
    r"|.*Signal \d+ \(SIG\w+\)"
)
_KILLED = re.compile(r"Signal (\d+) \(SIG\w+\)")
_WORD = re.compile(r"\w")
_TAIL_BYTES = 1 << 16

_PR_SET_PDEATHSIG = 1
# Only Linux has it; elsewhere a run outlives a killed launcher.
_prctl: Callable[..., int] | None = (
    getattr(ctypes.CDLL(None), "prctl", None) if sys.platform.startswith("linux") else None
)


class Progress:
    """Reads the newest epoch, and the newest results on the first validation set, from a
    metrics.jsonl.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = ""
        self._eer = ""
        self._inode = 0
        self._position = 0

    def read(self) -> str:
        """Read new lines; return the progress of the run, such as 'epoch 3.4, EER 2.113 %'."""
        for line in self._read_new_lines():
            # A malformed line changes nothing further.
            with contextlib.suppress(
                ValueError, KeyError, TypeError, AttributeError, StopIteration
            ):
                record = json.loads(line)
                self._epoch = f"epoch {float(record['epoch']):.1f}"
                if record["kind"] == "evaluation":
                    # The results on the first validation set: 'EER 2.113 %, min_dcf 0.1234'.
                    text = f"EER {100 * float(first_value(record['eer'])):.3f} %"
                    metric = record.get("validation_metric")
                    if metric is not None:
                        text += f", {metric} {float(first_value(record[metric])):.4f}"
                    self._eer = text + in_precision(record.get("scoring_precision"))
        return ", ".join(filter(None, [self._epoch, self._eer]))

    def _read_new_lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as file:
                status = self._path.stat()
                # A resumed run replaces the file by a shorter one.
                if status.st_ino != self._inode or status.st_size < self._position:
                    self._inode = status.st_ino
                    self._position = 0
                file.seek(self._position)
                new = file.read()
        except OSError:
            return []
        # The last line may be incomplete: it is read again when it is complete.
        end = new.rfind(b"\n") + 1
        self._position += end
        return new[:end].splitlines()


def log_lines(path: Path, start: int) -> list[str]:
    """Return the last non-empty lines of a log, starting at byte `start` at the earliest."""
    try:
        with path.open("rb") as file:
            # A log may have gigabytes; the reason of a failure is near its end.
            file.seek(max(start, path.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return []
    lines = map(str.strip, re.split(r"[\r\n]+", text))
    return list(filter(None, lines))


def explain_failure(status: int, lines: Sequence[str]) -> str:
    """Return why a run failed, the reason first, because a table shows only one line.

    Args:
        status: Exit status as in `subprocess`; -9 if SIGKILL ended the run.
        lines: Lines of the log; the last one that states an error is the reason. If there is none,
            the last line is shown as the progress of the run.
    """
    reason = _last_match(_ERROR.match, lines)
    killed = _KILLED.search(reason)
    if killed:
        return f"a process was {_describe_kill(int(killed[1]))}"
    if status < 0:
        after = f", after {reason}" if reason else ""
        return f"{_describe_kill(-status)}{after}"
    if reason:
        return f"{reason} (exit status {status})"
    last = _last_match(_WORD.search, lines)
    where = f"the last line is: {last}" if last else "it is empty"
    return f"exit status {status}, no reason in its log; {where}"


def was_stopped(lines: Sequence[str]) -> bool:
    """Whether a run reports that it stopped on request.

    Its exit status is the same as that of a run with nothing left to do.
    """
    return any(line.startswith(f"{STOPPED} ") for line in lines)


def _last_match(match: Callable[[str], re.Match[str] | None], lines: Sequence[str]) -> str:
    """Return the last line that matches; '' if none does."""
    for line in reversed(lines):
        if match(line):
            return line
    return ""


def _describe_kill(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        # A real-time signal has no name.
        return f"killed by signal {number}"
    # The log cannot say so: the kernel kills silently when memory runs out.
    cause = " (out of memory?)" if name == "SIGKILL" else ""
    return f"killed by {name}{cause}"


class RunningJob:
    """A job that runs in its own processes."""

    def __init__(
        self, job: Job, process: subprocess.Popen[bytes], slots: tuple[str, ...], log_start: int
    ) -> None:
        self.job = job
        self.slots = slots
        self._process = process
        self._log_start = log_start
        self._progress = Progress(job.layout.metrics)
        self._results_before = file_version(job.layout.results_json)

    def progress(self) -> str:
        """Return the progress of the run, in words."""
        return self._progress.read()

    def ask_to_stop(self) -> None:
        """Ask the run to save and end at its next step."""
        # A file is used because torchrun, after a signal, kills its processes within half a minute,
        # which a slow step may exceed.
        self.job.layout.launch_stop.touch()

    def kill(self) -> None:
        """End all its processes at once."""
        if self._process.poll() is None:
            kill_tree(self._process.pid)
            self._process.wait()

    def has_ended(self) -> bool:
        """Whether it has ended; the job's state then says how."""
        status = self._process.poll()
        if status is None:
            return False
        job = self.job
        lines = log_lines(job.log, self._log_start)
        # Checked before the exit status: a run that was requested to stop ends with 0, but is not
        # done. A run that was just starting does not react yet, and dies of the signal.
        if was_stopped(lines) or status == -signal.SIGTERM:
            job.state = "stopped"
            job.detail = self.progress()
        elif status == 0:
            job.state = "done"
            job.detail = ""
            # Results of an earlier run do not count: this run may have stages without results.
            has_new_results = file_version(job.layout.results_json) != self._results_before
            job.results = read_results(job.layout.results_json) if has_new_results else []
        else:
            job.state = "failed"
            job.detail = explain_failure(status, lines)
        job.layout.launch_stop.unlink(missing_ok=True)
        return True


def start(
    job: Job, command: list[str], slots: tuple[str, ...], visible_devices: str
) -> RunningJob | None:
    """Start `command` for a job, whose state is then 'running'.

    Returns:
        The running job; None if another launch runs it.

    Raises:
        AsdfError, OSError: the system folder cannot be written, or the process cannot be started.
    """
    job.system.mkdir(parents=True, exist_ok=True)
    with job.log.open("ab") as log:
        try:
            lock(log, wait=False)
        except BlockingIOError:
            return None
        job.layout.launch_stop.unlink(missing_ok=True)
        job.state = "running"
        job.save_state()
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        log.write(f"--- {now}  {join(command)}\n".encode())
        log.flush()
        log_start = log.tell()
        # The processes inherit the lock with the open file, and keep it when it is closed here.
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={
                **os.environ,
                "CUDA_VISIBLE_DEVICES": visible_devices,
                visibility_variable(): visible_devices,
                "ASDF_STOP_FILE": str(job.layout.launch_stop),
            },
            start_new_session=True,
            preexec_fn=partial(_stop_with, os.getpid()),
        )
    return RunningJob(job, process, slots, log_start)


def kill_tree(root: int, number: int = signal.SIGKILL) -> None:
    """Kill a process and all its descendants, or send them another signal.

    A signal to the session would not suffice: torchrun starts its processes in other sessions.
    """
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, in brackets, may contain anything.
            parent = int(path.read_text(errors="replace").rpartition(")")[2].split()[1])
            below.setdefault(parent, []).append(int(path.parent.name))
    # Starting at the root, so that a launcher does not restart the processes killed below it.
    tree = [root]
    for process in tree:
        tree += below.get(process, [])
    for process in tree:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def _stop_with(launcher: int) -> None:
    """In the new process, request SIGTERM, on which a run saves and ends, if the launcher dies."""
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    # The launcher died before the request, so the signal never comes.
    if os.getppid() != launcher:
        os._exit(1)


def file_version(path: Path) -> tuple[int, int] | None:
    """Return a value that changes whenever the file at `path` is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    # Files are replaced, not rewritten: a new inode reveals changes within the clock's resolution.
    return status.st_ino, status.st_mtime_ns
