"""Calls of Slurm's programs; errors become one message.

Invariant: a job is identified by its comment, which Slurm itself stores, so no file here has to
agree with the queue. A task that approaches its time limit saves, and is requeued.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError

NOTHING = " Nothing was submitted."
"""End of the message on a failed program, if no job was submitted before it."""

_TIMEOUT_S = 120


@dataclass(frozen=True)
class QueuedTask:
    """A queued job, or task of an array.

    Attributes:
        id: Number of the job; for a task, the number of the array followed by '_' and that of the
            task.
        comment: Comment that it was submitted with.
    """

    id: str
    comment: str


def check_array_options(options: Sequence[str], tasks: str, without: str) -> None:
    """Refuse options of sbatch that are reserved for the array, and machines without Slurm.

    Args:
        tasks: Name of the tasks, such as 'runs' or 'parts'.
        without: Behaviour without --slurm, for the message.

    Raises:
        UsageError: such an option is given (the message names it), or there is no sbatch.
    """
    for option in options:
        if option.split("=")[0] in ("--array", "-a") or option.startswith("-a"):
            raise UsageError(
                f"{option}: the array is set by the {tasks}; --max-running N limits how many run "
                "at a time."
            )
    if shutil.which("sbatch") is None:
        raise UsageError(
            "--slurm: sbatch was not found. Submit from a login node of the cluster; without "
            f"--slurm {without}."
        )


def queued_tasks() -> list[QueuedTask]:
    """Return this user's queued jobs, with each task of an array separately.

    Raises:
        AsdfError: Slurm does not respond.
    """
    command = ["squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i|%k"]
    tasks = []
    for line in run_slurm(command, Path.cwd()).splitlines():
        task, _, comment = line.strip().partition("|")
        tasks.append(QueuedTask(task, comment))
    return tasks


def submit(options: Sequence[str], words: Sequence[str], folder: Path) -> str:
    """Submit a script with its arguments; return the number of the job.

    Raises:
        AsdfError: sbatch refuses it; the message gives the reason.
    """
    answer = run_slurm(["sbatch", "--parsable", *options, *words], folder)
    # With several clusters, the number is followed by the cluster's name.
    return answer.strip().split(";")[0]


def run_slurm(command: Sequence[str], folder: Path) -> str:
    """Run a program of Slurm; return what it prints.

    Raises:
        AsdfError: it fails, or does not respond.
    """
    program = command[0]
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AsdfError(f"{program} does not answer: {error}.{NOTHING}") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise AsdfError(f"{program} refused: {reason}.{NOTHING}")
    return done.stdout
