"""How the processes of a run come together before there is a group: through a store of rank 0.

Invariant: what one process refuses here, all of them refuse with its reason, so that none waits
for one that is gone.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist

from asdf.distributed.launchers import Launch
from asdf.distributed.meeting import meet
from asdf.errors import AsdfError, UsageError


def open_store(launch: Launch, timeout: timedelta) -> Any:
    """A store under a name that only this start of the processes has; waits for all of them.

    Raises:
        AsdfError: rank 0 cannot listen where it should, or not all processes came within `timeout`.
    """
    address = f"[{launch.address}]" if ":" in launch.address else launch.address
    url = f"tcp://{address}:{launch.port}"
    try:
        store = next(iter(dist.rendezvous(url, launch.rank, launch.size, timeout=timeout)))[0]
    except (dist.DistError, RuntimeError, ValueError) as error:
        raise AsdfError(_explain(launch, timeout, error)) from error
    name = meet(store, launch.rank, launch.size, timeout.total_seconds())
    return dist.PrefixStore(f"asdf-{name}", store)


def agree_on_local_ranks(store: Any, launch: Launch) -> Launch:
    """`launch` with local rank and size, by host name where any process does not know its own.

    Args:
        store: holds keys of this agreement alone.
    """
    known = launch.local_rank is not None and launch.local_size is not None
    own = {"host": socket.gethostname(), "known": known}
    everyone = _exchange(store, "host", launch, own)
    return launch if all(one["known"] for one in everyone) else _count_on_host(launch, everyone)


def agree_on_devices(
    store: Any, launch: Launch, choose: Callable[[], tuple[str, str]], names: str
) -> str:
    """The device that `choose` gives, if those of all processes go together.

    Args:
        store: holds keys of this agreement alone.
        choose: gives the device of this process, as 'cpu' or 'cuda:0', and something that only this
            GPU has.
        names: what decides on it, for a message.

    Raises:
        UsageError: `choose` failed in some process, two processes would use the same GPU, or only
            some have one.
    """
    own = {"host": socket.gethostname(), "device": "", "gpu": "", "refused": ""}
    try:
        own["device"], own["gpu"] = choose()
    except AsdfError as error:
        own["refused"] = str(error)
    except RuntimeError as error:  # CUDA's own, of a GPU that is broken or taken by another program
        first_line = str(error).partition("\n")[0]
        own["refused"] = f"its device cannot be used: {first_line}"
    everyone = _exchange(store, "device", launch, own)
    mistake = _find_mistake(everyone, names)
    if mistake:
        _leave_together(store, launch)
        refused = UsageError(mistake)
        refused.reported_by_main = launch.rank > 0
        raise refused
    return own["device"]


def _leave_together(store: Any, launch: Launch) -> None:
    """Let the main process end last: the store that the others still read may end with it."""
    store.set(f"left/{launch.rank}", "")
    if launch.rank == 0:
        store.wait([f"left/{rank}" for rank in range(launch.size)])


def _count_on_host(launch: Launch, everyone: list[dict[str, Any]]) -> Launch:
    """`launch` with its position among the processes on the same host."""
    host = everyone[launch.rank]["host"]
    here = [rank for rank, one in enumerate(everyone) if one["host"] == host]
    return replace(launch, local_rank=here.index(launch.rank), local_size=len(here))


def _exchange(store: Any, key: str, launch: Launch, own: dict[str, Any]) -> list[dict[str, Any]]:
    """What each process says under `key`, in the order of ranks."""
    store.set(f"{key}/{launch.rank}", json.dumps(own))
    return [json.loads(store.get(f"{key}/{rank}")) for rank in range(launch.size)]


def _find_mistake(everyone: list[dict[str, Any]], names: str) -> str:
    """Why the devices of the processes do not go together; '' where they do."""
    refusals = [(rank, one["refused"]) for rank, one in enumerate(everyone) if one["refused"]]
    if refusals:
        rank, reason = refusals[0]
        return reason if rank == 0 else f"rank {rank}: {reason}"
    users: dict[str, list[int]] = {}
    for rank, one in enumerate(everyone):
        if one["gpu"]:
            users.setdefault(one["gpu"], []).append(rank)
    shared = [ranks for ranks in users.values() if len(ranks) > 1]
    kinds = {one["device"].partition(":")[0] for one in everyone}
    if not shared and len(kinds) == 1:
        return ""
    what = "some processes have a GPU and some have none"
    if shared:
        what = f"ranks {' and '.join(map(str, shared[0]))} would use the same GPU"
    mapping = "\n  ".join(
        f"rank {rank}: host {one['host']}, {one['device']}{one['gpu'] and ' = GPU ' + one['gpu']}"
        for rank, one in enumerate(everyone)
    )
    return (
        f"{what}:\n  {mapping}\n({names}). Start as many processes on a node as it has GPUs, name "
        "a GPU for each in computing.gpu_ids, or give each task its own GPU (srun "
        "--gpus-per-task=1)."
    )


def _explain(launch: Launch, timeout: timedelta, error: Exception) -> str:
    where = f"{launch.address}:{launch.port}"
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    if launch.rank == 0:
        return (
            f"rank 0 of {launch.size} (started by {launch.launcher}) did not meet the others at "
            f"{where}: {reason}. If the port is taken there, set MASTER_PORT to a free one; if a "
            "process failed to start, its own message says why."
        )
    return (
        f"rank {launch.rank} of {launch.size} (started by {launch.launcher}) did not reach rank 0 "
        f"at {where} within {timeout.total_seconds():g} s: {reason}. MASTER_ADDR has to be the "
        "host of rank 0, under a name that this one knows, and MASTER_PORT free there; if rank 0 "
        "failed to start, its own message says why."
    )
