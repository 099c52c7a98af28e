"""The launcher of this process, and its rank among the processes.

Every launcher sets its own environment variables. Invariant: processes started together never run
as independent single-process runs. Values missing from one launcher are taken from another that
agrees with it, or agreed on between the processes (`asdf.distributed.rendezvous`); incomplete or
contradictory values are refused. This does not import torch, since a dry run needs it, too.

In Slurm, a batch script and an interactive shell also have some of a step's variables but are
single processes. A process therefore counts as a task only if the variables are those of this very
step, and it was not started from a terminal's shell.

A command that asks for several processes becomes torchrun (`become_torchrun`).
"""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from asdf.distributed.stopping import SIGNALS
from asdf.errors import UsageError

TORCHRUN = "torchrun"
BY_HAND = "RANK and WORLD_SIZE"
# Below the ports that systems assign automatically, to avoid conflicts.
_FIRST_PORT = 10_000
_PORTS = 20_000

_SRUN = "srun"
_MPIRUN = "mpirun"
_MPIEXEC = "mpiexec"
# Variables of launchers for rank, number of processes, and both on the node, the one closest to
# torch first: torchrun, Open MPI, MVAPICH, and the Hydra of MPICH and Intel MPI. RANK and
# WORLD_SIZE may also be set by hand.
_VARIABLES = (
    (TORCHRUN, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    *(
        (_MPIRUN, f"{mpi}_RANK", f"{mpi}_SIZE", f"{mpi}_LOCAL_RANK", f"{mpi}_LOCAL_SIZE")
        for mpi in ("OMPI_COMM_WORLD", "MV2_COMM_WORLD")
    ),
    (_MPIEXEC, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
)
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
    text = environment.get(name, "").strip()
    if text and not text.isdecimal():
        raise UsageError(f"the environment has {name}={text}, which is not a whole number.")
    return int(text) if text else None


def numbers(environment: Mapping[str, str], *names: str) -> list[int]:
    """Return the integers in variables that are only meaningful together.

    Raises:
        UsageError: one of them is not set or not an integer.
    """
    values = {name: number(environment, name) for name in names}
    missing = [name for name, value in values.items() if value is None]
    if missing:
        known = " and ".join(name for name in names if name not in missing)
        raise UsageError(
            f"{known} set in the environment, but {' and '.join(missing)} not. Set all of them for "
            "each process, or none."
        )
    return [value for value in values.values() if value is not None]


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
    return len(ranks.split(",")) if ranks else None


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
    text = environment.get("SLURM_STEP_TASKS_PER_NODE", "")
    counts = re.findall(r"(\d+)(?:\(x(\d+)\))?", text)
    tasks_by_node = [int(count) for count, times in counts for _ in range(int(times or 1))]
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


def _read_ranks(environment: Mapping[str, str]) -> Iterator[Launch]:
    """Yield the launches that a rank and a number of processes state, by `_VARIABLES`."""
    for launcher, *names in _VARIABLES:
        rank, size = (number(environment, name) for name in names[:2])
        if rank is None and size in (None, 1):
            continue
        local_rank, local_size = (number(environment, name) for name in names[2:])
        if launcher == _MPIEXEC:
            # `srun --mpi=pmi2` sets them, which says more in variables of its own.
            is_srun = "SLURM_STEP_ID" in environment and local_rank is None
            if is_srun or rank is None or size is None:
                continue
        rank, size = numbers(environment, *names[:2])
        if launcher == TORCHRUN and "TORCHELASTIC_RUN_ID" not in environment:
            launcher = BY_HAND
        launch = Launch(rank, size, local_rank, local_size, launcher)
        # On several nodes, each would use its own 127.0.0.1.
        if not launch.is_in_torch_world and local_size == size:
            job = environment.get("PMIX_NAMESPACE") if launcher == _MPIRUN else None
            launch = replace(launch, address="127.0.0.1", port=name_port(job) if job else 0)
        yield launch


def read_launch(environment: Mapping[str, str] | None = None) -> Launch:
    """Return the launch of this process and those started with it, from the environment.

    Args:
        environment: Environment variables; None for those of this process.

    Raises:
        UsageError: it is incomplete or contradictory, or does not say where rank 0 listens.
    """
    environment = os.environ if environment is None else environment
    step = _read_slurm_step(environment)
    launches = [*_read_ranks(environment), *([step] if step else [])]
    if not launches:
        for name in _RANKS_ALONE:
            if environment.get(name, "").strip():
                raise UsageError(
                    f"{name}={environment[name]} is set, so this process is one of several, of "
                    "unknown number: start them with torchrun, srun or mpirun, or set RANK, "
                    "WORLD_SIZE, MASTER_ADDR and MASTER_PORT. For a single process, unset it."
                )
        return Launch()
    chosen, *others = launches
    for other in others:
        if other.size > 1 and chosen.is_in_torch_world:
            _check_outer(chosen, other, environment)
        if (other.rank, other.size) == (chosen.rank, chosen.size):
            # Both from one launcher, since another may count the processes of a node differently.
            if chosen.local_rank is None or chosen.local_size is None:
                chosen = replace(chosen, local_rank=other.local_rank, local_size=other.local_size)
            address = chosen.address or other.address
            chosen = replace(chosen, address=address, port=chosen.port or other.port)
    size, local_rank, local_size = chosen.size, chosen.local_rank, chosen.local_size
    is_within = local_rank is None or local_size is None or local_rank < local_size <= size
    if chosen.rank >= size or not is_within:
        raise UsageError(
            f"{chosen.launcher} says rank {chosen.rank} of {size}, local rank {local_rank} of "
            f"{local_size}, which is out of range. Was a variable set by hand, or left by another "
            "launcher?"
        )
    return chosen if size == 1 else _add_address(chosen, environment)


def _check_outer(chosen: Launch, outer: Launch, environment: Mapping[str, str]) -> None:
    """Refuse a launch in torch's variables that the launcher around it contradicts."""
    ranks = (outer.rank, outer.size)
    if chosen.launcher == BY_HAND and (chosen.rank, chosen.size) != ranks:
        raise UsageError(
            f"RANK={chosen.rank} and WORLD_SIZE={chosen.size} are set, but {outer.launcher} "
            f"started this process as rank {outer.rank} of {outer.size}: unset RANK and "
            "WORLD_SIZE, or set them for each process."
        )
    if chosen.launcher == TORCHRUN and environment.get("GROUP_WORLD_SIZE") == "1":
        raise UsageError(
            f"{outer.launcher} started {outer.size} torchruns that are not connected. For one "
            f"run on all of them give torchrun --nnodes={outer.size} and a rendezvous "
            "(docs/cluster.md); start separate runs each by itself, with srun: --ntasks=1 "
            "--exact."
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
    values = {"MASTER_ADDR": address, "MASTER_PORT": port}
    missing = " and ".join(name for name, value in values.items() if not value)
    if missing:
        raise UsageError(
            f"{launch.launcher} started {launch.size} processes without {missing}: set MASTER_ADDR "
            "to the host name of rank 0 as the other nodes know it (127.0.0.1 on one node) and "
            "MASTER_PORT to a free port there, the same for all processes. With Open MPI: "
            "mpirun -x MASTER_ADDR=node1 -x MASTER_PORT=29500."
        )
    return replace(launch, address=address, port=port)


def become_torchrun(processes: int, words: list[str]) -> None:
    """Start the Python program `words` in `processes` processes; does not return.

    In this process, so that its number, signals and exit status stay those of the command.
    """
    # --standalone takes a free port, so that several runs can share a machine.
    launcher = ["-m", "asdf.distributed.launchers", "--standalone", f"--nproc_per_node={processes}"]
    os.execv(sys.executable, [sys.executable, *launcher, *words])


def main() -> None:
    """Run torchrun with the program's arguments until its processes end.

    torchrun passes some signals on, kills its processes 30 s later, which the checkpoint of a large
    network may exceed, and ends with a traceback; of others, it dies and leaves them behind. Here
    every stop signal creates the stop file, and the run ends as that of a single process.
    """
    # The variable of the option, which not every version has, and the one that it sets. torchrun
    # keeps the signals of a terminal that closes, and of Ctrl-\.
    for name in ("PET_SIGNALS_TO_HANDLE", "TORCHELASTIC_SIGNALS_TO_HANDLE"):
        os.environ[name] = "SIGHUP,SIGQUIT"
    with tempfile.TemporaryDirectory(prefix="asdf-") as folder:
        path = Path(os.environ.setdefault("ASDF_STOP_FILE", str(Path(folder) / "stop")))
        created: list[Path] = []

        def on_signal(number: int, frame: FrameType | None) -> None:
            if number == signal.SIGINT:  # a second one interrupts at once
                signal.signal(number, signal.default_int_handler)
            if not path.exists():
                created.append(path)
                path.touch()

        for number in SIGNALS:
            signal.signal(number, on_signal)
        from torch.distributed.run import main as run

        try:
            run()
        finally:
            # A user's stop file would also stop the next run.
            for file in created:
                file.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
