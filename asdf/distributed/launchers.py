"""The launcher of this process, and its rank among the processes.

Every launcher sets its own environment variables (`launch_variables`). Invariant: processes started
together never run as independent single-process runs. Values missing from one launcher are taken
from another that agrees with it, or agreed on between the processes (`asdf.distributed.joining`);
incomplete or contradictory values are refused. This does not import torch, since a dry run needs
it, too.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from asdf.distributed.launch_variables import (
    BY_HAND,
    READERS,
    TORCHRUN,
    Launch,
    number,
)
from asdf.errors import UsageError

__all__ = ["Launch", "check_local_rank", "read_launch"]

# Rank variables of launchers that give no number of processes, or an unknown one.
_RANKS_ALONE = ("LOCAL_RANK", "PMI_RANK", "PMIX_RANK", "JSM_NAMESPACE_RANK", "PALS_RANKID")


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
        _refuse_rank_alone(environment)
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


def check_local_rank(launch: Launch, argument: int | None) -> None:
    """Compare `--local-rank`, which `torch.distributed.launch` appends, with the launch.

    Raises:
        UsageError: they contradict each other.
    """
    if argument is None or (argument == launch.local_rank and launch.launcher):
        return
    if not launch.launcher:
        raise UsageError(
            f"--local-rank={argument} is on the command line, but RANK and WORLD_SIZE are not set: "
            "start the processes with torchrun, or remove --local-rank to use a single process."
        )
    if launch.local_rank is not None:
        raise UsageError(
            f"--local-rank={argument} is on the command line, but {launch.launcher} says that this "
            f"process has local rank {launch.local_rank}: remove --local-rank."
        )


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


def _refuse_rank_alone(environment: Mapping[str, str]) -> None:
    for name in _RANKS_ALONE:
        if name in environment:
            raise UsageError(
                f"{name}={environment[name]} is set, so this process is one of several, but the "
                "number of processes is not set: start them with torchrun, srun or mpirun, or set "
                "RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT for each. For a run of one process "
                f"unset {name}."
            )


def _add_address(launch: Launch, environment: Mapping[str, str]) -> Launch:
    """Add the address of rank 0 from MASTER_ADDR and MASTER_PORT, or from the launcher.

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
