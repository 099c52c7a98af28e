"""The processes of a run that a launch has started, and their observation from outside.

Invariants: a run has its own session, so that only the launcher receives Ctrl-C. It is requested to
stop when the launcher dies for any reason. Its log is locked while any of its processes lives, so
that no launcher, not even one that was killed and restarted, starts a second run in the same system
folder.

The queue of a launch: no slot (a GPU, or a place on the CPU) stays free while a run fits.

Invariant: each slot has one run at a time, and runs in `running` have processes, which a second
Ctrl-C kills.
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
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from shlex import join

from asdf.distributed.devices import visibility_variable
from asdf.distributed.stopping import STOPPED, StopRequest
from asdf.errors import AsdfError, UsageError
from asdf.launcher.states import Job, Table, read_results
from asdf.runs.evaluations import first_value
from asdf.runs.systems import lock
from asdf.text import count_of
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
    """The newest epoch, and the newest results on the first validation set, in a metrics.jsonl."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._epoch = ""
        self._eer = ""

    def read(self) -> str:
        """Return the progress of the run, such as 'epoch 3.4, EER 2.113 %'."""
        # The results stay known when their line is no longer near the end.
        for line in log_lines(self._path, 0):
            # A malformed line changes nothing further; the last one may be incomplete.
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


def log_lines(path: Path, start: int) -> list[str]:
    """Return the last non-empty lines of a log, starting at byte `start` at the earliest."""
    try:
        with path.open("rb") as file:
            # A log may have gigabytes; what is asked for is near its end.
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
    reason = next(filter(_ERROR.match, reversed(lines)), "")
    killed = _KILLED.search(reason)
    if killed:
        return f"a process was {_describe_kill(int(killed[1]))}"
    if status < 0:
        after = f", after {reason}" if reason else ""
        return f"{_describe_kill(-status)}{after}"
    if reason:
        return f"{reason} (exit status {status})"
    last = next(filter(_WORD.search, reversed(lines)), "")
    where = f"the last line is: {last}" if last else "it is empty"
    return f"exit status {status}, no reason in its log; {where}"


def was_stopped(lines: Sequence[str]) -> bool:
    """Whether a run reports that it stopped on request.

    Its exit status is the same as that of a run with nothing left to do.
    """
    return any(line.startswith(f"{STOPPED} ") for line in lines)


def _describe_kill(number: int) -> str:
    # A real-time signal has no name.
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    # The log cannot say so: the kernel kills silently when memory runs out.
    return f"killed by {name}{' (out of memory?)' if name == 'SIGKILL' else ''}"


class RunningJob:
    """A job that runs in its own processes."""

    def __init__(
        self, job: Job, process: subprocess.Popen[bytes], slots: tuple[str, ...], log_start: int
    ) -> None:
        self.job = job
        self.slots = slots
        self._process = process
        self._log_start = log_start
        self.progress = Progress(job.layout.metrics).read
        self._results_before = file_version(job.layout.results_json)

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
            # Results of an earlier run do not count: this run may have stages without results.
            has_new_results = file_version(job.layout.results_json) != self._results_before
            job.mark_done(read_results(job.layout.results_json) if has_new_results else [])
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
    launcher = os.getpid()

    def stop_with_launcher() -> None:
        """In the new process, request SIGTERM, on which a run saves and ends."""
        if _prctl is not None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        # The launcher died before the request, so the signal never comes.
        if os.getppid() != launcher:
            os._exit(1)

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
            preexec_fn=stop_with_launcher,
        )
    return RunningJob(job, process, slots, log_start)


def kill_tree(root: int, number: int | None = None) -> None:
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
            os.kill(process, signal.SIGKILL if number is None else number)


def file_version(path: Path) -> tuple[int, int] | None:
    """Return a value that changes whenever the file at `path` is replaced."""
    try:
        status = path.stat()
    except OSError:
        return None
    # Files are replaced, not rewritten: a new inode reveals changes within the clock's resolution.
    return status.st_ino, status.st_mtime_ns


_LOOK_EVERY_S = 0.5


class Slots:
    """Free slots, handed out in their order.

    Args:
        names: Names of GPUs as in CUDA_VISIBLE_DEVICES, or any names of slots on the CPU.
        are_gpus: Whether slots are GPUs, of which a run of N processes takes N; on the CPU it takes
            one slot.
    """

    def __init__(self, names: Sequence[str], are_gpus: bool) -> None:
        self.names = tuple(names)
        self.are_gpus = are_gpus
        self._free = list(names)

    def needed(self, processes: int) -> int:
        """Return the number of slots that a run of `processes` processes takes."""
        return processes if self.are_gpus else 1

    @property
    def free(self) -> int:
        """The number of slots that no run holds."""
        return len(self._free)

    def take(self, count: int) -> tuple[str, ...] | None:
        """Return `count` slots, or None while fewer are free."""
        if count > len(self._free):
            return None
        taken = tuple(self._free[:count])
        del self._free[:count]
        return taken

    def give_back(self, taken: Sequence[str]) -> None:
        """Free slots again."""
        free = {*self._free, *taken}
        # Ordered by name, so that runs get the same slots whichever run ended first.
        self._free = [name for name in self.names if name in free]

    def visible_devices(self, taken: Sequence[str]) -> str:
        """Return CUDA_VISIBLE_DEVICES for a run that holds these slots."""
        return ",".join(taken) if self.are_gpus else ""

    def describe(self, taken: Sequence[str]) -> str:
        """Return the slots in words, such as 'GPU 0'."""
        kind = "GPU" if self.are_gpus else "slot"
        return f"{kind} {','.join(taken)}"


def choose_gpus(requested: str | None, visible: int, shown: str | None) -> tuple[str, ...]:
    """Return the GPUs of `--gpus`, with the names that CUDA_VISIBLE_DEVICES needs.

    Args:
        requested: Comma-separated indices of visible GPUs, as in `computing.gpu_ids`; None for all.
        visible: Number of GPUs that are visible.
        shown: Value of CUDA_VISIBLE_DEVICES, if it is set; a scheduler may use numbers or UUIDs.

    Raises:
        UsageError: an entry is not a number, a GPU is given twice, or a GPU does not exist.
    """
    # Indices count among the scheduler's GPUs.
    names = list(map(str, range(visible))) if shown is None else _split(shown)
    if requested is None:
        # CUDA ignores all names from the first unknown one.
        return tuple(names[:visible])
    texts = _split(requested)
    if not all(map(str.isdecimal, texts)):
        raise UsageError(
            f"--gpus {requested}: write numbers separated by commas, such as --gpus 0,1,2,3."
        )
    indices = list(map(int, texts))
    if len(set(indices)) < len(indices):
        raise UsageError(f"--gpus {requested}: a GPU is named twice.")
    if max(indices) >= visible:
        variable = "not set" if shown is None else repr(shown)
        raise UsageError(
            f"--gpus {requested}: GPU {max(indices)} does not exist: {visible} visible, numbered "
            f"from 0 (CUDA_VISIBLE_DEVICES is {variable}). --slots N uses the CPU."
        )
    return tuple(names[index] for index in indices)


def _split(text: str) -> list[str]:
    return list(map(str.strip, text.split(",")))


def run_queue(
    jobs: Sequence[Job], slots: Slots, recipe: Path, table: Table, stop: StopRequest
) -> None:
    """Run all waiting jobs of `recipe` (its run.py); a failure does not stop the others.

    If `stop` is requested, all runs are asked to save and end, and no other is started.

    Raises:
        KeyboardInterrupt: a second SIGINT; all runs have been killed.
        AsdfError: a state cannot be saved. The runs save and end as soon as this process has ended.
    """
    running: list[RunningJob] = []
    stop_was_requested = False
    try:
        while running or (not stop and any(job.state == "waiting" for job in jobs)):
            for run in list(running):
                if run.has_ended():
                    # First, so that a second Ctrl-C at any time does not mark an ended run as
                    # killed.
                    running.remove(run)
                    slots.give_back(run.slots)
                    run.job.save_state()
            if stop and not stop_was_requested:
                stop_was_requested = True
                table.print_line(
                    f"{stop.reason}: waiting for {count_of(len(running), 'run')} to save and stop; "
                    "a second Ctrl-C kills at once"
                )
                for run in running:
                    run.ask_to_stop()
            if not stop:
                running += _start_what_fits(jobs, slots, recipe)
            for run in running:
                words = [slots.describe(run.slots), run.progress()]
                run.job.detail = ", ".join(filter(None, words))
            table.show(jobs)
            time.sleep(_LOOK_EVERY_S)
    except KeyboardInterrupt:
        for run in running:
            run.kill()
            run.job.state = "stopped"
            run.job.detail = "killed"
            run.job.save_state()
        table.show(jobs)
        raise
    table.show(jobs)


def _start_what_fits(jobs: Sequence[Job], slots: Slots, recipe: Path) -> list[RunningJob]:
    """Start waiting jobs in their order."""
    started = []
    for job in jobs:
        if job.state != "waiting":
            continue
        taken = slots.take(job.slots_needed)
        if taken is None:
            # It waits until enough slots are free; smaller jobs behind it may overtake it.
            continue
        command = [sys.executable, str(recipe), job.config, *job.overrides]
        try:
            run = start(job, command, taken, slots.visible_devices(taken))
            job.detail = "" if run else f"another launch is using {job.system}"
        except (AsdfError, OSError) as error:
            run = None
            job.state = "failed"
            job.detail = f"could not be started: {error}"
        if run is None:
            slots.give_back(taken)
        else:
            started.append(run)
    return started
