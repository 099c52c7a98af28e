"""The first contact of a run's processes, through a store of rank 0, before a group exists.

Invariant: if one process refuses to continue, all of them do so with its reason, and none waits for
one that has ended.

torchrun keeps a key-value store across its restarts. A process group opened in it again could read
the addresses of dead processes and wait for them for ever. Each start therefore opens its groups
under a new name, which the main rank creates, and which is used only after every process has
confirmed it.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Any

import torch.distributed as dist
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.text import and_more

# They start together, so minutes suffice even for slow disks; steps may take longer.
_JOINING = timedelta(minutes=5)

_POLL_S = 0.02
# Time for which the main rank waits for others to read why it ends.
_GRACE_S = 5.0
_SHOWN = 8
_CAME, _MISSING = "asdf/id", "asdf/missing"


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
        reason = str(error).partition("\n")[0] or type(error).__name__
        what = "reach rank 0" if launch.rank else "meet the others"
        raise AsdfError(
            f"rank {launch.rank} of {launch.size} (started by {launch.launcher}) did not {what} at "
            f"{launch.address}:{launch.port} within {joining.total_seconds():g} s: {reason}. "
            "MASTER_ADDR must be the host of rank 0, as all nodes know it; if the port is taken "
            "there, set MASTER_PORT to a free one."
        ) from error
    name = meet(store, launch.rank, launch.size, joining.total_seconds())
    store.set_timeout(timeout)
    return PrefixStore(f"asdf-{name}", store)


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


def agree_on_devices(
    store: Any, launch: Launch, choose: Callable[[], tuple[str, str]], names: str
) -> str:
    """Return the device that `choose` returns, if the devices of all processes are compatible.

    Args:
        store: Store with keys of this agreement only.
        names: Settings and variables that determine the device, for a message.

    Raises:
        UsageError: `choose` failed in some process, two processes would use the same GPU, or only
            some have one.
    """
    host = socket.gethostname()
    try:
        claim = _Claim(host, *choose())
    except AsdfError as error:
        claim = _Claim(host, refusal=str(error))
    except RuntimeError as error:
        # An error of CUDA about a GPU that is broken or used by another program.
        first_line = str(error).partition("\n")[0]
        claim = _Claim(host, refusal=f"its device cannot be used: {first_line}")
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


def _find_mistake(claims: list[_Claim], names: str) -> str:
    """Return why the devices of the processes are incompatible; '' if they are compatible."""
    for rank, claim in enumerate(claims):
        if claim.refusal:
            return claim.refusal if rank == 0 else f"rank {rank}: {claim.refusal}"
    gpus = [claim.gpu for claim in claims]
    shared = next((gpu for gpu in gpus if gpu and gpus.count(gpu) > 1), "")
    kinds = {claim.device.partition(":")[0] for claim in claims}
    if shared:
        ranks = [str(rank) for rank, gpu in enumerate(gpus) if gpu == shared]
        what = f"ranks {' and '.join(ranks)} would use the same GPU"
    elif len(kinds) > 1:
        what = "some processes have a GPU and some have none"
    else:
        return ""
    lines = []
    for rank, claim in enumerate(claims):
        gpu = f" = GPU {claim.gpu}" if claim.gpu else ""
        lines.append(f"  rank {rank}: host {claim.host}, {claim.device}{gpu}")
    mapping = "\n".join(lines)
    return (
        f"{what}:\n{mapping}\n({names}). Start as many processes on a node as it has GPUs, name "
        "a GPU for each in computing.gpu_ids, or give each task its own GPU (srun "
        "--gpus-per-task=1)."
    )


def _exchange(store: Any, key: str, launch: Launch, answer: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the replies of all processes under `key`, in order of rank."""
    # No barrier is needed, since `get` waits until the other process has set its key.
    store.set(f"{key}/{launch.rank}", json.dumps(answer))
    return [json.loads(store.get(f"{key}/{rank}")) for rank in range(launch.size)]


def meet(store: Any, rank: int, size: int, timeout_s: float) -> str:
    """Return the name of this start once all `size` processes have it.

    Args:
        store: A `torch.distributed.Store` that all processes reach, possibly with keys of earlier
            starts.

    Raises:
        AsdfError: the others did not arrive within `timeout_s`.
    """
    # Not the process id, which another host or a restart may reuse.
    process_id = uuid.uuid4().hex
    store.set(f"{_CAME}/{rank}", process_id)
    until = time.monotonic() + timeout_s
    awaits_main = rank > 0
    while time.monotonic() < until:
        if awaits_main and store.check([f"{_CAME}/0"]):
            # The main rank ends the start for all, with one message, even if this process came
            # later.
            until = time.monotonic() + timeout_s + _GRACE_S
            awaits_main = False
        name = _confirm_name(store, rank, process_id) if rank else _offer_name(store, size)
        if name:
            return name
        told = f"{_MISSING}/{process_id}"
        if rank and store.check([told]):
            refused = AsdfError(store.get(told).decode())
            store.delete_key(told)
            refused.reported_by_main = True
            raise refused
        time.sleep(_POLL_S)
    raise _without_others(store, rank, size, timeout_s)


def _without_others(store: Any, rank: int, size: int, timeout_s: float) -> AsdfError:
    """Return the error of a process for which others are missing; the main rank passes it on."""
    came = [rank for rank in range(size) if store.check([f"{_CAME}/{rank}"])]
    missing = [str(rank) for rank in range(size) if rank not in came]
    who = "not all of them answered"
    if missing:
        names = and_more(missing, _SHOWN)
        who = f"rank{'s' * (len(missing) > 1)} {names} of {size} did not arrive"
    message = (
        f"rank {rank} waited {timeout_s:g} s for the other processes of this run: {who}. A process "
        "that failed to start has its own message, above or in its output file. (srun "
        "--kill-on-bad-exit=1 ends the others at once.) If its start takes longer, raise "
        "computing.timeout_s, of which up to five minutes count here."
    )
    # The store ends with the main rank, so it waits until each process has read its message, and
    # removed it.
    others = [] if rank else came[1:]
    unread = [f"{_MISSING}/{store.get(f'{_CAME}/{other}').decode()}" for other in others]
    for key in unread:
        store.set(key, message)
    until = time.monotonic() + _GRACE_S
    while unread and time.monotonic() < until:
        time.sleep(_POLL_S)
        unread = [key for key in unread if store.check([key])]
    return AsdfError(message)


def _offer_name(store: Any, size: int) -> str:
    """Offer a name to the arrived processes; return it when all have confirmed it."""
    keys = [f"{_CAME}/{rank}" for rank in range(size)]
    if not store.check(keys):
        return ""
    ids = [store.get(key).decode() for key in keys]
    # Derived from all ids, so that a restarted process gives another name.
    name = hashlib.sha256("".join(ids).encode()).hexdigest()[:12]
    store.set("asdf/offer", " ".join([name, *ids]))
    confirmations = [f"asdf/confirmed/{name}/{rank}" for rank in range(1, size)]
    if size > 1 and not store.check(confirmations):
        return ""
    store.set(f"asdf/known/{name}", "1")
    return name


def _confirm_name(store: Any, rank: int, process_id: str) -> str:
    """Confirm an offer of this start; return its name when all processes have done so."""
    if not store.check(["asdf/offer"]):
        return ""
    name, *ids = store.get("asdf/offer").decode().split()
    # An offer of an earlier start names another process for this rank.
    if rank >= len(ids) or ids[rank] != process_id:
        return ""
    store.set(f"asdf/confirmed/{name}/{rank}", "1")
    if not store.check([f"asdf/known/{name}"]):
        return ""
    return str(name)
