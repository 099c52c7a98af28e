"""Slurm's own programs, run and read, and scripts for them; what they refuse is one message.

Invariant: a job is known by its comment, which Slurm itself keeps: no file here has to agree with
the queue. A task that nears its time limit saves, and goes back into the queue.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError, UsageError

NOTHING = " Nothing was submitted."
"""End of a message on a program that failed, where no job before it was submitted."""

_TIMEOUT_S = 120
# Two minutes before the time limit: what was done is saved with each recording or step, or every
# 20 s.
_HEADER = """\
#!/bin/bash
#SBATCH --job-name=asdf-{name}
#SBATCH --open-mode=append
#SBATCH --requeue
#SBATCH --signal=B:USR2@120
# Written by `python -m asdf {command} ... --slurm {count}`.
export PYTHONUNBUFFERED=1 SRUN_CPUS_PER_TASK=${{SLURM_CPUS_PER_TASK:-1}}
cd {folder} || exit
"""
_RESUMED = """\
trap 'is_over=yes; kill -TERM "$child"' USR2
{command} &
child=$!
wait "$child"; status=$?
if [ -n "$is_over" ]; then
    # What was done is saved, and goes on when the queue starts the task again.
    wait "$child"
    scontrol requeue "${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID"
    exit 0
fi
"""


@dataclass(frozen=True)
class QueuedTask:
    """A job in the queue, or a task of an array.

    Attributes:
        id: Number of the job; of a task, that of the array with the task's behind '_'.
        comment: Comment that it was submitted with.
    """

    id: str
    comment: str


def script_header(name: str, command: str, count: int, folder: Path) -> str:
    """Return the beginning of a script that goes on in `folder`.

    Args:
        name: Name of the job, behind 'asdf-'.
        command: Name of the command whose --slurm `count` makes the script.
    """
    return _HEADER.format(name=name, command=command, count=count, folder=shlex.quote(str(folder)))


def python_words(words: Sequence[str]) -> str:
    """Return a command of ASDF for a script."""
    # A container's Python, for one, goes by another name in jobs than here.
    python = "${ASDF_PYTHON:-" + shlex.quote(sys.executable) + "}"
    return f"{python} -m asdf {shlex.join(words)}"


def resumed_task(command: str) -> str:
    """Return lines of a script that run a command, which may go on another time.

    Its exit status is in $status behind them.
    """
    return _RESUMED.format(command=command)


def check_array_options(options: Sequence[str], tasks: str, without: str) -> None:
    """Refuse options of sbatch that are the array's own, and machines without Slurm.

    Args:
        tasks: Things that are tasks, such as 'runs' or 'parts'.
        without: What happens without --slurm, for the message.

    Raises:
        UsageError: names the option; or there is no sbatch.
    """
    for option in options:
        if option.split("=")[0] in ("--array", "-a") or option.startswith("-a"):
            raise UsageError(
                f"{option}: the array follows from the {tasks}; --max-running N limits how many "
                "run at a time."
            )
    if shutil.which("sbatch") is None:
        raise UsageError(
            "--slurm: there is no sbatch here. Submit from a login node of the cluster; without "
            f"--slurm {without}."
        )


def queued_tasks() -> list[QueuedTask]:
    """Return what the queue has for this user; each task of an array by itself.

    Raises:
        AsdfError: Slurm does not answer.
    """
    command = ["squeue", "--noheader", "--array", f"--user={os.getuid()}", "--format=%i|%k"]
    tasks = []
    for line in run_slurm(command, Path.cwd()).splitlines():
        task, _, comment = line.strip().partition("|")
        tasks.append(QueuedTask(task, comment))
    return tasks


def submit(options: Sequence[str], words: Sequence[str], folder: Path) -> str:
    """Submit a script with its words; return the number of the job.

    Raises:
        AsdfError: sbatch refuses it; its reason is named.
    """
    answer = run_slurm(["sbatch", "--parsable", *options, *words], folder)
    # Several clusters: the number is followed by a cluster's name.
    return answer.strip().split(";")[0]


def run_slurm(command: Sequence[str], folder: Path) -> str:
    """Run a program of Slurm; return what it prints.

    Raises:
        AsdfError: it fails, or does not answer.
    """
    program = command[0]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AsdfError(f"{program} does not answer: {error}.{NOTHING}") from None
    if done.returncode:
        reason = (done.stderr or done.stdout).strip()
        raise AsdfError(f"{program} refused: {reason}.{NOTHING}")
    return done.stdout
