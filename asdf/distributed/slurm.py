"""A step of Slurm: the tasks that one srun starts, as its environment variables show them.

A batch script, and an interactive shell, have some of these variables as well and are one process.
So a process counts as a task only if the variables are those of a step, of this very step, and no
terminal's shell is in between.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from asdf.distributed.variables import Launch, name_port, number, numbers

_SRUN = "srun"


def read_slurm_step(environment: Mapping[str, str]) -> Launch | None:
    """Read what srun sets for the tasks of a step; None outside of one.

    A process that runs by itself within a step counts as the only task of its own.

    Raises:
        UsageError: a variable is missing or no number.
    """
    if "SLURM_STEP_ID" not in environment or "SLURM_PROCID" not in environment:
        return None
    # Older versions of Slurm set the second one only.
    size_name = "SLURM_STEP_NUM_TASKS"
    if size_name not in environment and "SLURM_NTASKS" in environment:
        size_name = "SLURM_NTASKS"
    rank, size = numbers(environment, "SLURM_PROCID", size_name)
    if size == 1 or _is_of_another_step(environment) or _is_terminal_shell(environment):
        return Launch(launcher=_SRUN)
    address = "127.0.0.1"
    if number(environment, "SLURM_STEP_NUM_NODES") != 1:
        address = first_host(environment.get("SLURM_STEP_NODELIST", ""))
    # By the numbers of job and step: two steps on one host do not meet.
    port = name_port(f"{environment.get('SLURM_JOB_ID')}.{environment['SLURM_STEP_ID']}")
    local_rank = number(environment, "SLURM_LOCALID")
    return Launch(rank, size, local_rank, _count_tasks_here(environment), _SRUN, address, port)


def first_host(nodes: str) -> str:
    """Return the first host of a list of Slurm's: 'r[01-03,7]n[1-2],login' -> 'r01n1'; '' of ''."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    assert first is not None
    return re.sub(r"\[([^\]]*)\]", _first_of_range, first[0])


def _first_of_range(brackets: re.Match[str]) -> str:
    """Return '01' of '[01-03,7]'."""
    return re.split("[-,]", brackets[1])[0]


def _count_tasks_here(environment: Mapping[str, str]) -> int | None:
    """Return the number of tasks on this node: Slurm lists their ranks."""
    ranks = environment.get("SLURM_GTIDS", "")
    if not ranks:
        return None
    return len(ranks.split(","))


def _is_of_another_step(environment: Mapping[str, str]) -> bool:
    """Return whether a job was submitted from within a step: sbatch passes its variables on."""
    job_nodes = number(environment, "SLURM_JOB_NUM_NODES")
    step_nodes = number(environment, "SLURM_STEP_NUM_NODES") or 1
    if job_nodes is not None and job_nodes < step_nodes:
        return True
    # sbatch sets the job's variables anew and leaves the step's: these are old where they differ.
    tasks = environment.get("SLURM_NTASKS")
    if tasks is not None and tasks != environment.get("SLURM_STEP_NUM_TASKS", tasks):
        return True
    tasks_here = _count_tasks_here(environment)
    tasks_by_node = _read_tasks_by_node(environment)
    if tasks_here is None or not tasks_by_node:
        return False
    node = number(environment, "SLURM_NODEID") or 0
    return node >= len(tasks_by_node) or tasks_by_node[node] != tasks_here


def _read_tasks_by_node(environment: Mapping[str, str]) -> list[int]:
    """Return the tasks by node of the step, which Slurm writes as '4(x2),1'."""
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    counts = []
    for tasks, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(tasks)] * int(times or 1)
    return counts


def _is_terminal_shell(environment: Mapping[str, str]) -> bool:
    """Return whether a shell of `srun --pty` started this process: what is typed there runs once.

    An srun that is typed there passes the variable on, but its tasks have no terminal.
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
