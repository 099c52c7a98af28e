"""Which launcher started this process, and which of how many processes it is.

Every launcher has environment variables of its own; only `read_launch` reads them. Invariant:
processes that were started together never run as independent runs of one process each. What a
launcher leaves out is taken from another that agrees with it, or agreed between the processes
(`asdf.distributed.joining`); what is incomplete or contradictory is refused. No torch here: a dry
run needs this, too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace

from asdf.distributed.slurm import read_slurm_step
from asdf.distributed.variables import (
    BY_HAND,
    TORCHRUN,
    Launch,
    name_port,
    number,
    numbers,
)
from asdf.errors import UsageError

__all__ = ["Launch", "check_local_rank", "read_launch"]

# Ranks of launchers that give no number of processes, or of one that was not understood.
_RANKS_ALONE = ("LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "JSM_NAMESPACE_RANK", "PALS_RANKID")


def read_launch(environment: Mapping[str, str] | None = None) -> Launch:
    """Return what the environment says of this process and those started with it.

    Args:
        environment: None: this process's.

    Raises:
        UsageError: it is incomplete, contradicts itself, or does not say where rank 0 listens.
    """
    if environment is None:
        environment = os.environ
    launches = []
    for read in _READERS:
        launch = read(environment)
        if launch is not None:
            launches.append(launch)
    if not launches:
        _refuse_rank_alone(environment)
        return Launch()
    # The readers come in the order of trust: what is closest to torch wins.
    chosen, *others = launches
    _check_others(chosen, others, environment)
    for other in others:
        if (other.rank, other.size) == (chosen.rank, chosen.size):
            chosen = _fill_gaps(chosen, other)
    _check_numbers(chosen)
    if chosen.size == 1:
        return chosen
    return _add_address(chosen, environment)


def check_local_rank(launch: Launch, argument: int | None) -> None:
    """Compare `--local-rank`, which `torch.distributed.launch` adds to the words, with the launch.

    Raises:
        UsageError: they contradict each other.
    """
    if argument is None or (argument == launch.local_rank and launch.launcher):
        return
    if not launch.launcher:
        raise UsageError(
            f"--local-rank={argument} is on the command line, but RANK and WORLD_SIZE are not set: "
            "start the processes with torchrun, or leave --local-rank away to compute in one."
        )
    if launch.local_rank is not None:
        raise UsageError(
            f"--local-rank={argument} is on the command line, but {launch.launcher} says that this "
            f"process has local rank {launch.local_rank}: leave --local-rank away."
        )


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


_READERS: tuple[Callable[[Mapping[str, str]], Launch | None], ...] = (
    _read_torch,
    _read_mpi,
    _read_pmi,
    read_slurm_step,
)


def _add_loopback(launch: Launch, job: str) -> Launch:
    """Add the address of rank 0 if all processes are on one node, and a port if `job` is a name."""
    # On several nodes, each would take 127.0.0.1 for itself.
    if launch.local_size != launch.size:
        return launch
    port = name_port(job) if job else 0
    return replace(launch, address="127.0.0.1", port=port)


def _fill_gaps(launch: Launch, other: Launch) -> Launch:
    """Fill in what `launch` lacks from another launcher that states the same rank and size."""
    # Both from one launcher: it need not count the processes of a node as another does.
    if launch.local_rank is None or launch.local_size is None:
        launch = replace(launch, local_rank=other.local_rank, local_size=other.local_size)
    address = launch.address or other.address
    port = launch.port or other.port
    return replace(launch, address=address, port=port)


def _check_others(chosen: Launch, others: list[Launch], environment: Mapping[str, str]) -> None:
    """Refuse a launch in torch's variables that another launcher around it contradicts."""
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
                f"{other.launcher} started {other.size} torchruns that do not know of each other. "
                f"For one run on all of them give torchrun --nnodes={other.size} and a rendezvous "
                "(docs/cluster.md); start runs of their own each by itself, with srun: --ntasks=1 "
                "--exact."
            )


def _check_numbers(launch: Launch) -> None:
    ranks = [("rank", launch.rank, launch.size)]
    if launch.local_rank is not None and launch.local_size is not None:
        ranks.append(("local rank", launch.local_rank, launch.local_size))
        # Written as a rank, so that one test serves: a local size lies in 1 ... size.
        ranks.append(("local size", launch.local_size - 1, launch.size))
    for what, value, size in ranks:
        if not 0 <= value < size:
            raise UsageError(
                f"{launch.launcher} says rank {launch.rank} of {launch.size}, local rank "
                f"{launch.local_rank} of {launch.local_size}: that cannot be, the {what} is out of "
                "range. Was a variable set by hand, or left by another launcher?"
            )


def _refuse_rank_alone(environment: Mapping[str, str]) -> None:
    for name in _RANKS_ALONE:
        if name in environment:
            raise UsageError(
                f"{name}={environment[name]} is set, so this process is one of several, but "
                "nothing says of how many: start them with torchrun, srun or mpirun, or set RANK, "
                "WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each. For a run of one process unset "
                f"{name}."
            )


def _add_address(launch: Launch, environment: Mapping[str, str]) -> Launch:
    """Add where rank 0 listens, by MASTER_ADDR and MASTER_PORT, else by the launcher.

    Raises:
        UsageError: it is unknown.
    """
    address = environment.get("MASTER_ADDR") or launch.address
    port = number(environment, "MASTER_PORT") or launch.port
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
