"""A step of Slurm: the tasks that one srun starts, as its environment variables show them.

A batch script, and an interactive shell, have some of these variables as well and are one process.
So a process counts as a task only where the variables are those of a step, of this very step, and
no terminal's shell is in between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from asdf.distributed.variables import name_port, number, numbers


@dataclass(frozen=True)
class SlurmStep:
    """A task of a step.

    Attributes:
        local_size: tasks on this node, or None where Slurm does not say it.
        address: the first host of the step; loopback where there is no other.
        port: follows from the numbers of job and step, so that two steps on one host do not meet.
    """

    rank: int
    size: int
    local_rank: int | None
    local_size: int | None
    address: str
    port: int


def read_slurm_step(environment: Mapping[str, str]) -> SlurmStep | None:
    """The task that this process is, or None where there is no step.

    A process that runs by itself although there is a step counts as the only task of its own.

    Raises:
        UsageError: a variable is missing or no number.
    """
    if "SLURM_STEP_ID" not in environment or "SLURM_PROCID" not in environment:
        return None
    sizes = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")
    size_name = next((name for name in sizes if name in environment), sizes[0])
    rank, size = numbers(environment, "SLURM_PROCID", size_name)
    if size == 1 or _is_of_another_step(environment) or _is_terminal_shell(environment):
        return SlurmStep(0, 1, 0, 1, "", 0)
    one_node = number(environment, "SLURM_STEP_NUM_NODES") == 1
    hosts = environment.get("SLURM_STEP_NODELIST", "")
    return SlurmStep(
        rank,
        size,
        number(environment, "SLURM_LOCALID"),
        _tasks_here(environment),
        "127.0.0.1" if one_node else first_host(hosts),
        name_port(f"{environment.get('SLURM_JOB_ID')}.{environment['SLURM_STEP_ID']}"),
    )


def first_host(nodes: str) -> str:
    """The first host of a list of Slurm's: 'r[01-03,7]n[1-2],login' -> 'r01n1'; '' of ''."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    assert first is not None
    return re.sub(r"\[([^\]]*)\]", lambda ranges: re.split("[-,]", ranges[1])[0], first[0])


def _tasks_here(environment: Mapping[str, str]) -> int | None:
    """How many tasks this node has: Slurm lists their ranks."""
    ranks = environment.get("SLURM_GTIDS", "")
    return len(ranks.split(",")) if ranks else None


def _is_of_another_step(environment: Mapping[str, str]) -> bool:
    """Whether this is a job submitted from within a step: sbatch hands the variables of that on."""
    nodes = number(environment, "SLURM_JOB_NUM_NODES")
    if nodes is not None and nodes < (number(environment, "SLURM_STEP_NUM_NODES") or 1):
        return True
    tasks = environment.get("SLURM_NTASKS")
    if tasks is not None and tasks != environment.get("SLURM_STEP_NUM_TASKS", tasks):
        return True
    here, counts = _tasks_here(environment), _counts(environment)
    node = number(environment, "SLURM_NODEID") or 0
    return here is not None and bool(counts) and (node >= len(counts) or counts[node] != here)


def _counts(environment: Mapping[str, str]) -> list[int]:
    """Tasks by node of the step, which Slurm writes as '4(x2),1'."""
    parts = re.findall(r"(\d+)(?:\(x(\d+)\))?", environment.get("SLURM_STEP_TASKS_PER_NODE", ""))
    return [int(tasks) for tasks, times in parts for _ in range(int(times or 1))]


def _is_terminal_shell(environment: Mapping[str, str]) -> bool:
    """Whether a shell of `srun --pty` started this process: what is typed there runs once.

    An srun that is typed there hands the variable on, but its tasks have no terminal.
    """
    if "SLURM_PTY_PORT" not in environment:
        return False
    if environment.get("SLURM_TASK_PID") == str(os.getpid()):
        return False
    try:
        os.close(os.open("/dev/tty", os.O_RDWR))
    except OSError:
        return False
    return True
