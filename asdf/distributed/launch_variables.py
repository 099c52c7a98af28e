"""What launchers say in environment variables: a launch, as each of them writes it.

Slurm: a batch script, and an interactive shell, have some of the variables of a step as well and
are one process. So a process counts as a task only if the variables are those of a step, of this
very step, and no terminal's shell is in between.
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
# Below the ports that systems assign by themselves, so that none of those is in the way.
_FIRST_PORT = 10_000
_PORTS = 20_000


@dataclass(frozen=True)
class Launch:
    """What a process knows from what started it.

    Attributes:
        local_rank: Index among the processes of its node, or None if the launcher does not say.
        local_size: Number of those, or None.
        launcher: 'torchrun', 'srun', 'mpirun' ..., or '' if the user started the process directly.
        address, port: Address at which rank 0 listens; '' and 0 for a process alone.
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
        """Whether torchrun or a wrapper like it started the process: it must not become one."""
        return self.launcher in (TORCHRUN, BY_HAND)


def number(environment: Mapping[str, str], name: str) -> int | None:
    """Return the whole number in a variable, or None if it is not set.

    Raises:
        UsageError: it is something else, or negative.
    """
    text = environment.get(name)
    if text is None:
        return None
    if not text.strip().isdecimal():
        raise UsageError(f"the environment has {name}={text}: a whole number is needed.")
    return int(text)


def numbers(environment: Mapping[str, str], *names: str) -> list[int]:
    """Return the whole numbers in variables that make sense only together.

    Raises:
        UsageError: one of them is not set or no whole number.
    """
    known: dict[str, int] = {}
    for name in names:
        value = number(environment, name)
        if value is not None:
            known[name] = value
    if len(known) < len(names):
        missing = [name for name in names if name not in known]
        raise UsageError(
            f"{' and '.join(known)} set in the environment, but {' and '.join(missing)} not: this "
            "process does not know which of how many it is. Set all of them for each process, or "
            "none."
        )
    return list(known.values())


def name_port(job: str) -> int:
    """Return a port that all processes of a job get from its name, and most other jobs do not."""
    # Not `hash`, which gives each process another number.
    digest = hashlib.sha256(job.encode()).digest()
    return _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS


_SRUN = "srun"


def _read_slurm_step(environment: Mapping[str, str]) -> Launch | None:
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
    # '01' of '[01-03,7]'.
    return re.sub(r"\[([^\],-]*)[^\]]*\]", r"\1", first[0])


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
    # Slurm writes the tasks by node of the step as '4(x2),1'.
    tasks_by_node: list[int] = []
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        tasks_by_node += [int(count)] * int(times or 1)
    if tasks_here is None or not tasks_by_node:
        return False
    node = number(environment, "SLURM_NODEID") or 0
    return node >= len(tasks_by_node) or tasks_by_node[node] != tasks_here


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


def _read_torch(environment: Mapping[str, str]) -> Launch | None:
    """Read what torchrun sets, or a wrapper like it."""
    if number(environment, "WORLD_SIZE") in (None, 1) and "RANK" not in environment:
        return None
    rank, size = numbers(environment, "RANK", "WORLD_SIZE")
    local_rank = number(environment, "LOCAL_RANK")
    local_size = number(environment, "LOCAL_WORLD_SIZE")
    # RANK and WORLD_SIZE may be set by hand; this one torchrun alone sets.
    launcher = TORCHRUN if "TORCHELASTIC_RUN_ID" in environment else BY_HAND
    return Launch(rank, size, local_rank, local_size, launcher)


def _read_mpi(environment: Mapping[str, str]) -> Launch | None:
    """Read what mpirun of Open MPI sets, or of MVAPICH."""
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
    """Read what mpiexec of MPICH and Intel MPI (Hydra) sets."""
    if "PMI_RANK" not in environment or "PMI_SIZE" not in environment:
        return None
    if "SLURM_STEP_ID" in environment and "MPI_LOCALRANKID" not in environment:
        return None  # `srun --mpi=pmi2` sets them, which says more in variables of its own
    rank, size = numbers(environment, "PMI_RANK", "PMI_SIZE")
    local_rank = number(environment, "MPI_LOCALRANKID")
    local_size = number(environment, "MPI_LOCALNRANKS")
    return _add_loopback(Launch(rank, size, local_rank, local_size, "mpiexec"), "")


def _add_loopback(launch: Launch, job: str) -> Launch:
    """Add the address of rank 0 if all processes are on one node, and a port if `job` is a name."""
    # On several nodes, each would take 127.0.0.1 for itself.
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
"""The readers in the order of trust: what is closest to torch wins."""
