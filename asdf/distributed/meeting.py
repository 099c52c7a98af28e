"""A name for this start of the processes that all of them know, and no earlier start had.

torchrun retains a key-value store through its restarts. A process group that opens in it again can
read the addresses of processes that are gone, and wait for them without end. So each start opens
its groups under a name of its own. The main rank makes the name, and it counts as known only when
every process has confirmed it.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any

from asdf.errors import AsdfError

_POLL_S = 0.02


def meet(store: Any, rank: int, size: int, timeout_s: float) -> str:
    """Return the name of this start when all `size` processes have it.

    Args:
        store: a `torch.distributed.Store` that all processes reach, maybe with keys of earlier
            starts.

    Raises:
        AsdfError: the others did not come within `timeout_s`.
    """
    # Not the number of the process, which another host or a restart may use again.
    process_id = uuid.uuid4().hex
    store.set(f"asdf/id/{rank}", process_id)
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        if rank == 0:
            name = _offer_name(store, size)
        else:
            name = _confirm_name(store, rank, process_id)
        if name:
            return name
        time.sleep(_POLL_S)
    raise AsdfError(
        f"rank {rank} waited {timeout_s:g} s for the other {size - 1} processes of this run. Did "
        "one fail to start? Its own message says why. Otherwise raise computing.timeout_s."
    )


def _offer_name(store: Any, size: int) -> str:
    """Offer a name for the processes that have come; return it when all have confirmed it."""
    keys = [f"asdf/id/{rank}" for rank in range(size)]
    if not store.check(keys):
        return ""
    ids = [store.get(key).decode() for key in keys]
    # From the ids of all: a process that has started again makes it another name.
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
