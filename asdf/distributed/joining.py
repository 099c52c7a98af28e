"""The first contact of a run's processes, through a store of rank 0, before a group exists.

Invariant: if one process refuses to continue, all of them do so with its reason, and none waits for
one that has ended.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from asdf.distributed.gpus import TakenDevice
from asdf.distributed.launchers import Launch
from asdf.distributed.meeting import meet
from asdf.errors import AsdfError, UsageError

# They start together, so minutes suffice even for slow disks; steps may take longer.
_JOINING = timedelta(minutes=5)


def open_store(launch: Launch, timeout: timedelta) -> Any:
    """Open a store under a name unique to this start, and wait for all processes.

    Raises:
        AsdfError: rank 0 cannot listen at its address, or not all processes arrived within
            `timeout` or five minutes.
    """
    # An IPv6 address contains colons, so brackets separate it from the port.
    address = f"[{launch.address}]" if ":" in launch.address else launch.address
    url = f"tcp://{address}:{launch.port}"
    joining = min(timeout, _JOINING)
    try:
        # torchrun's agent has the store, since it watches the processes that it starts.
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
            store, _, _ = next(iter(rendezvous(url, launch.rank, launch.size, timeout=timeout)))
        else:
            # Without torch's own waiting, which does not say who is missing.
            store = TCPStore(
                launch.address,
                launch.port,
                is_master=launch.rank == 0,
                timeout=joining,
                wait_for_workers=False,
                multi_tenant=True,
            )
    except (dist.DistError, RuntimeError, ValueError) as error:
        raise AsdfError(_explain_failed_meeting(launch, joining, error)) from error
    name = meet(store, launch.rank, launch.size, joining.total_seconds())
    store.set_timeout(timeout)
    return PrefixStore(f"asdf-{name}", store)


def _explain_failed_meeting(launch: Launch, timeout: timedelta, error: Exception) -> str:
    where = f"{launch.address}:{launch.port}"
    lines = str(error).splitlines()
    reason = lines[0] if lines else type(error).__name__
    if launch.rank == 0:
        return (
            f"rank 0 of {launch.size} (started by {launch.launcher}) did not meet the others at "
            f"{where}: {reason}. If the port is taken there, set MASTER_PORT to a free one; if a "
            "process failed to start, its own message says why."
        )
    return (
        f"rank {launch.rank} of {launch.size} (started by {launch.launcher}) did not reach rank 0 "
        f"at {where} within {timeout.total_seconds():g} s: {reason}. MASTER_ADDR must be the host "
        "of rank 0, under a name that resolves here, and MASTER_PORT free there; if rank 0 failed "
        "to start, its own message says why."
    )


def agree_on_local_ranks(store: Any, launch: Launch) -> Launch:
    """Return `launch` with local rank and size, counted by host name if a process lacks them.

    Args:
        store: Store with keys of this agreement only.
    """
    is_known = launch.local_rank is not None and launch.local_size is not None
    answers = _exchange(store, "host", launch, {"host": socket.gethostname(), "known": is_known})
    # If one process counted differently, two would get the same local rank.
    if all(answer["known"] for answer in answers):
        return launch
    hosts = [answer["host"] for answer in answers]
    here = [rank for rank, host in enumerate(hosts) if host == hosts[launch.rank]]
    return replace(launch, local_rank=here.index(launch.rank), local_size=len(here))


@dataclass(frozen=True)
class _Claim:
    """The device that a process wants to use, or the reason why it can use none."""

    host: str
    device: str = ""
    gpu: str = ""
    refusal: str = ""

    def describe(self) -> str:
        text = f"host {self.host}, {self.device}"
        if self.gpu:
            text += f" = GPU {self.gpu}"
        return text


def agree_on_devices(
    store: Any,
    launch: Launch,
    choose: Callable[[], TakenDevice],
    names: str,
) -> str:
    """Return the device that `choose` returns, if the devices of all processes are compatible.

    Args:
        store: Store with keys of this agreement only.
        names: Settings and variables that determine the device, for a message.

    Raises:
        UsageError: `choose` failed in some process, two processes would use the same GPU, or only
            some have one.
    """
    claim = _claim_device(choose)
    answers = _exchange(store, "device", launch, asdict(claim))
    mistake = _find_mistake([_Claim(**answer) for answer in answers], names)
    if mistake:
        # The main process ends last, since the store that others still read may end with it.
        store.set(f"left/{launch.rank}", "")
        if launch.rank == 0:
            store.wait([f"left/{rank}" for rank in range(launch.size)])
        refused = UsageError(mistake)
        refused.reported_by_main = launch.rank > 0
        raise refused
    return claim.device


def _claim_device(choose: Callable[[], TakenDevice]) -> _Claim:
    host = socket.gethostname()
    try:
        device, gpu = choose()
    except AsdfError as error:
        return _Claim(host, refusal=str(error))
    except RuntimeError as error:
        # An error of CUDA about a GPU that is broken or used by another program.
        first_line = str(error).partition("\n")[0]
        return _Claim(host, refusal=f"its device cannot be used: {first_line}")
    return _Claim(host, device, gpu)


def _find_mistake(claims: list[_Claim], names: str) -> str:
    """Return why the devices of the processes are incompatible; '' if they are compatible."""
    for rank, claim in enumerate(claims):
        if claim.refusal:
            return claim.refusal if rank == 0 else f"rank {rank}: {claim.refusal}"
    shared = _find_shared_gpu(claims)
    kinds = {claim.device.partition(":")[0] for claim in claims}
    if shared:
        what = f"ranks {' and '.join(map(str, shared))} would use the same GPU"
    elif len(kinds) > 1:
        what = "some processes have a GPU and some have none"
    else:
        return ""
    lines = [f"rank {rank}: {claim.describe()}" for rank, claim in enumerate(claims)]
    mapping = "\n  ".join(lines)
    return (
        f"{what}:\n  {mapping}\n({names}). Start as many processes on a node as it has GPUs, name "
        "a GPU for each in computing.gpu_ids, or give each task its own GPU (srun "
        "--gpus-per-task=1)."
    )


def _find_shared_gpu(claims: list[_Claim]) -> list[int]:
    """Return the ranks that want the same GPU; [] if there are none."""
    users: dict[str, list[int]] = {}
    for rank, claim in enumerate(claims):
        if claim.gpu:
            users.setdefault(claim.gpu, []).append(rank)
    for ranks in users.values():
        if len(ranks) > 1:
            return ranks
    return []


def _exchange(store: Any, key: str, launch: Launch, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the replies of all processes under `key`, in order of rank."""
    # No barrier is needed, since `get` waits until the other process has set its key.
    store.set(f"{key}/{launch.rank}", json.dumps(answer))
    return [json.loads(store.get(f"{key}/{rank}")) for rank in range(launch.size)]
