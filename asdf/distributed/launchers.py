"""The launcher of this process, and its rank among the processes.

Every launcher sets its own environment variables. Invariant: processes started together never run
as independent single-process runs. Values missing from one launcher are taken from another that
agrees with it, or agreed on between the processes (`asdf.distributed.rendezvous`); incomplete or
contradictory values are refused. This does not import torch, since a dry run needs it, too.

In Slurm, a batch script and an interactive shell also have some of a step's variables but are
single processes. A process therefore counts as a task only if the variables are those of this very
step, and it was not started from a terminal's shell.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from asdf.errors import UsageError

TORCHRUN = "torchrun"
BY_HAND = "RANK and WORLD_SIZE"
# Below the ports that systems assign automatically, to avoid conflicts.
_FIRST_PORT = 10_000
_PORTS = 20_000

_SRUN = "srun"
# Rank variables of launchers that give no number of processes, or an unknown one.
_RANKS_ALONE = ("LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "JSM_NAMESPACE_RANK", "PALS_RANKID")


@dataclass(frozen=True)
class Launch:
    """The information that a process gets from its launcher.

    Attributes:
        local_rank: Index among the processes of its node, or None if the launcher does not state
            it.
        local_size: Number of processes on its node, or None.
        launcher: Name of the launcher: 'torchrun', 'srun', 'mpirun' ..., or '' for a direct start.
        address, port: Address at which rank 0 listens; '' and 0 for a single process.
    """

    rank: int = 0
    size: int = 1
    local_rank: int | None = 0
    local_size: int | None = 1
    launcher: str = ""
    address: str = ""
    port: int = 0

    @property
    def is_in_torch_world(self) -> bool:
        """Whether torchrun or a similar wrapper started the process, which must not become one."""
        return self.launcher in (TORCHRUN, BY_HAND)


_LAST_PORT = 65_535


def number(environment: Mapping[str, str], name: str) -> int | None:
    """Return the integer in a variable, or None if it is not set or empty.

    Raises:
        UsageError: the value is not an integer, or is negative.
    """
    text = environment.get(name)
    if text is None or not text.strip():
        return None
    if not text.strip().isdecimal():
        raise UsageError(f"the environment has {name}={text}, which is not a whole number.")
    return int(text)


def numbers(environment: Mapping[str, str], *names: str) -> list[int]:
    """Return the integers in variables that are only meaningful together.

    Raises:
        UsageError: one of them is not set or not an integer.
    """
    known: dict[str, int] = {}
    for name in names:
        value = number(environment, name)
        if value is not None:
            known[name] = value
    if len(known) < len(names):
        missing = [name for name in names if name not in known]
        raise UsageError(
            f"{' and '.join(known)} set in the environment, but {' and '.join(missing)} not: the "
            "rank of this process, or the number of processes, is unknown. Set all of them for "
            "each process, or none."
        )
    return list(known.values())


def name_port(job: str) -> int:
    """Return a port derived from the job's name, equal for all of its processes."""
    # Not `hash`, which differs between processes.
    digest = hashlib.sha256(job.encode()).digest()
    return _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS


def _read_slurm_step(environment: Mapping[str, str]) -> Launch | None:
    """Read srun's variables for the tasks of a step; None outside of one.

    A single process within a step counts as its only task.

    Raises:
        UsageError: a variable is missing or not a number.
    """
    if "SLURM_STEP_ID" not in environment or "SLURM_PROCID" not in environment:
        return None
    # Older versions of Slurm set only the second one.
    size_name = "SLURM_STEP_NUM_TASKS"
    if size_name not in environment and "SLURM_NTASKS" in environment:
        size_name = "SLURM_NTASKS"
    rank, size = numbers(environment, "SLURM_PROCID", size_name)
    if size == 1 or _is_of_another_step(environment) or _is_terminal_shell(environment):
        return Launch(launcher=_SRUN)
    address = "127.0.0.1"
    if number(environment, "SLURM_STEP_NUM_NODES") != 1:
        address = first_host(environment.get("SLURM_STEP_NODELIST", ""))
    # From the ids of job and step, so that two steps on one host use different ports.
    port = name_port(f"{environment.get('SLURM_JOB_ID')}.{environment['SLURM_STEP_ID']}")
    local_rank = number(environment, "SLURM_LOCALID")
    return Launch(rank, size, local_rank, _count_tasks_here(environment), _SRUN, address, port)


def first_host(nodes: str) -> str:
    """Return the first host of a Slurm list: 'r[01-03,7]n[1-2],login' -> 'r01n1'; '' for ''."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    assert first is not None
    # '01' of '[01-03,7]'.
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0])


def _count_tasks_here(environment: Mapping[str, str]) -> int | None:
    """Return the number of tasks on this node, whose ranks Slurm lists."""
    ranks = environment.get("SLURM_GTIDS", "")
    if not ranks:
        return None
    return len(ranks.split(","))


def _is_of_another_step(environment: Mapping[str, str]) -> bool:
    """Return whether a job was submitted from within a step, since sbatch passes its variables."""
    job_nodes = number(environment, "SLURM_JOB_NUM_NODES")
    step_nodes = number(environment, "SLURM_STEP_NUM_NODES") or 1
    if job_nodes is not None and job_nodes < step_nodes:
        return True
    # sbatch sets the job's variables but leaves the step's, which are outdated if they differ.
    tasks = environment.get("SLURM_NTASKS")
    if tasks is not None and tasks != environment.get("SLURM_STEP_NUM_TASKS", tasks):
        return True
    tasks_here = _count_tasks_here(environment)
    # Slurm writes the tasks per node of the step as '4(x2),1'.
    tasks_by_node: list[int] = []
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        tasks_by_node += [int(count)] * int(times or 1)
    if tasks_here is None or not tasks_by_node:
        return False
    node = number(environment, "SLURM_NODEID") or 0
    return node >= len(tasks_by_node) or tasks_by_node[node] != tasks_here


def _is_terminal_shell(environment: Mapping[str, str]) -> bool:
    """Return whether a shell of `srun --pty` started this process, which is then a single one.

    An srun typed in that shell passes the variable on, but its tasks have no terminal.
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


def _read_torch(environment: Mapping[str, str]) -> Launch | None:
    """Read the variables of torchrun or a similar wrapper."""
    if number(environment, "WORLD_SIZE") in (None, 1) and number(environment, "RANK") is None:
        return None
    rank, size = numbers(environment, "RANK", "WORLD_SIZE")
    local_rank = number(environment, "LOCAL_RANK")
    local_size = number(environment, "LOCAL_WORLD_SIZE")
    # RANK and WORLD_SIZE may be set by hand, but only torchrun sets this one.
    launcher = TORCHRUN if "TORCHELASTIC_RUN_ID" in environment else BY_HAND
    return Launch(rank, size, local_rank, local_size, launcher)


def _read_mpi(environment: Mapping[str, str]) -> Launch | None:
    """Read the variables of mpirun from Open MPI or MVAPICH."""
    for prefix in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD"):
        if f"{prefix}_RANK" not in environment and f"{prefix}_SIZE" not in environment:
            continue
        rank, size = numbers(environment, f"{prefix}_RANK", f"{prefix}_SIZE")
        local_rank = number(environment, f"{prefix}_LOCAL_RANK")
        local_size = number(environment, f"{prefix}_LOCAL_SIZE")
        return _add_loopback(
            Launch(rank, size, local_rank, local_size, "mpirun"),
            environment.get("PMIX_NAMESPACE", ""),
        )
    return None


def _read_pmi(environment: Mapping[str, str]) -> Launch | None:
    """Read the variables of mpiexec from MPICH and Intel MPI (Hydra)."""
    if "PMI_RANK" not in environment or "PMI_SIZE" not in environment:
        return None
    if "SLURM_STEP_ID" in environment and "MPI_LOCALRANKID" not in environment:
        return None  # `srun --mpi=pmi2` sets them, which says more in variables of its own
    rank, size = numbers(environment, "PMI_RANK", "PMI_SIZE")
    local_rank = number(environment, "MPI_LOCALRANKID")
    local_size = number(environment, "MPI_LOCALNRANKS")
    return _add_loopback(Launch(rank, size, local_rank, local_size, "mpiexec"), "")


def _add_loopback(launch: Launch, job: str) -> Launch:
    """Add the address of rank 0 if all processes are on one node, and a port if `job` is set."""
    # On several nodes, each would use its own 127.0.0.1.
    if launch.local_size != launch.size:
        return launch
    port = name_port(job) if job else 0
    return replace(launch, address="127.0.0.1", port=port)


READERS: tuple[Callable[[Mapping[str, str]], Launch | None], ...] = (
    _read_torch,
    _read_mpi,
    _read_pmi,
    _read_slurm_step,
)
"""Readers in order of preference: the one closest to torch first."""


def read_launch(environment: Mapping[str, str] | None = None) -> Launch:
    """Return the launch of this process and those started with it, from the environment.

    Args:
        environment: Environment variables; None for those of this process.

    Raises:
        UsageError: it is incomplete or contradictory, or does not say where rank 0 listens.
    """
    if environment is None:
        environment = os.environ
    launches = [launch for read in READERS if (launch := read(environment)) is not None]
    if not launches:
        for name in _RANKS_ALONE:
            if environment.get(name, "").strip():
                raise UsageError(
                    f"{name}={environment[name]} is set, so this process is one of several, but "
                    "the number of processes is not set: start them with torchrun, srun or mpirun, "
                    "or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each. For a run of "
                    f"one process unset {name}."
                )
        return Launch()
    chosen, *others = launches
    _check_others(chosen, others, environment)
    for other in others:
        if (other.rank, other.size) == (chosen.rank, chosen.size):
            # Both from one launcher, since another may count the processes of a node differently.
            if chosen.local_rank is None or chosen.local_size is None:
                chosen = replace(chosen, local_rank=other.local_rank, local_size=other.local_size)
            address = chosen.address or other.address
            chosen = replace(chosen, address=address, port=chosen.port or other.port)
    _check_numbers(chosen)
    if chosen.size == 1:
        return chosen
    return _add_address(chosen, environment)


def _check_others(chosen: Launch, others: list[Launch], environment: Mapping[str, str]) -> None:
    """Refuse a launch in torch's variables if an outer launcher contradicts it."""
    for other in others:
        if other.size == 1 or not chosen.is_in_torch_world:
            continue
        if chosen.launcher == BY_HAND and (chosen.rank, chosen.size) != (other.rank, other.size):
            raise UsageError(
                f"RANK={chosen.rank} and WORLD_SIZE={chosen.size} are set, but {other.launcher} "
                f"started this process as rank {other.rank} of {other.size}: unset RANK and "
                "WORLD_SIZE, or set them for each process."
            )
        if chosen.launcher == TORCHRUN and environment.get("GROUP_WORLD_SIZE") == "1":
            raise UsageError(
                f"{other.launcher} started {other.size} torchruns that are not connected. For one "
                f"run on all of them give torchrun --nnodes={other.size} and a rendezvous "
                "(docs/cluster.md); start separate runs each by itself, with srun: --ntasks=1 "
                "--exact."
            )


def _check_numbers(launch: Launch) -> None:
    ranks = [("rank", launch.rank, launch.size)]
    if launch.local_rank is not None and launch.local_size is not None:
        ranks.append(("local rank", launch.local_rank, launch.local_size))
        # Written as a rank, so that one check suffices: a local size lies in 1 ... size.
        ranks.append(("local size", launch.local_size - 1, launch.size))
    for what, value, size in ranks:
        if not 0 <= value < size:
            raise UsageError(
                f"{launch.launcher} says rank {launch.rank} of {launch.size}, local rank "
                f"{launch.local_rank} of {launch.local_size}: the {what} is out of range. Was a "
                "variable set by hand, or left by another launcher?"
            )


def _add_address(launch: Launch, environment: Mapping[str, str]) -> Launch:
    """Add the address of rank 0 from MASTER_ADDR and MASTER_PORT, or from the launcher.

    Raises:
        UsageError: it is unknown.
    """
    address = environment.get("MASTER_ADDR") or launch.address
    port = number(environment, "MASTER_PORT") or launch.port
    if port > _LAST_PORT:
        raise UsageError(f"the environment has MASTER_PORT={port}; ports end at {_LAST_PORT}.")
    missing = []
    if not address:
        missing.append("MASTER_ADDR")
    if not port:
        missing.append("MASTER_PORT")
    if missing:
        verb = "is" if len(missing) == 1 else "are"
        raise UsageError(
            f"{launch.launcher} started {launch.size} processes, but {' and '.join(missing)} "
            f"{verb} not set: set MASTER_ADDR to the host name of rank 0 as the other nodes know "
            "it (127.0.0.1 on one node) and MASTER_PORT to a free port there, the same for all "
            "processes. With Open MPI: mpirun -x MASTER_ADDR=node1 -x MASTER_PORT=29500."
        )
    return replace(launch, address=address, port=port)
