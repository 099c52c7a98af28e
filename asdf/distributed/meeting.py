"""A name for this start of the processes that all of them know, and no earlier start had.

torchrun keeps one key-value store through its restarts. A process group that opens in it again can read the addresses
of processes that are gone, and wait for them for ever. So each start opens its groups under a name of its own, which
the main rank gives out and counts as known only when every process has confirmed it.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any

from asdf.errors import AsdfError

_POLL_S = 0.02


def meet(store: Any, rank: int, size: int, timeout_s: float) -> str:
    """The name of this start; returns when all `size` processes have it.

    Args:
        store: a `torch.distributed.Store` that all processes reach; it may hold keys of earlier starts.

    Raises:
        AsdfError: the others did not come within `timeout_s`.
    """
    own = uuid.uuid4().hex
    store.set(f"asdf/id/{rank}", own)
    until = time.monotonic() + timeout_s
    while time.monotonic() < until:
        name = _offer(store, size) if rank == 0 else _confirm(store, rank, own)
        if name:
            return name
        time.sleep(_POLL_S)
    raise AsdfError(
        f"rank {rank} waited {timeout_s:g} s for the other {size - 1} processes of this run. Did one fail to start? "
        "Its own message tells. Otherwise raise computing.timeout_s."
    )


def _offer(store: Any, size: int) -> str:
    """The main rank's turn: name those that have said who they are; '' until all of them have confirmed."""
    keys = [f"asdf/id/{rank}" for rank in range(size)]
    if not store.check(keys):
        return ""
    ids = [store.get(key).decode() for key in keys]
    name = hashlib.sha256("".join(ids).encode()).hexdigest()[:12]
    store.set("asdf/offer", " ".join([name, *ids]))
    if size > 1 and not store.check([f"asdf/confirmed/{name}/{rank}" for rank in range(1, size)]):
        return ""
    store.set(f"asdf/known/{name}", "1")
    return name


def _confirm(store: Any, rank: int, own: str) -> str:
    """Another rank's turn: an offer that still names an earlier process of this rank is not confirmed."""
    if not store.check(["asdf/offer"]):
        return ""
    name, *ids = store.get("asdf/offer").decode().split()
    if rank >= len(ids) or ids[rank] != own:
        return ""
    store.set(f"asdf/confirmed/{name}/{rank}", "1")
    return name if store.check([f"asdf/known/{name}"]) else ""
