"""A name for this start of the processes, known to all and different from earlier starts.

torchrun keeps a key-value store across its restarts. A process group opened in it again could read
the addresses of dead processes and wait for them for ever. Each start therefore opens its groups
under a new name, which the main rank creates, and which is used only after every process has
confirmed it.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from typing import Any

from asdf.errors import AsdfError
from asdf.text import and_more

_POLL_S = 0.02
# Time for which the main rank waits for others to read why it ends.
_GRACE_S = 5.0
_SHOWN = 8
_CAME, _MISSING = "asdf/id", "asdf/missing"


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
        if rank == 0:
            name = _offer_name(store, size)
        else:
            name = _confirm_name(store, rank, process_id)
        if name:
            return name
        if rank and store.check([f"{_MISSING}/{process_id}"]):
            refused = AsdfError(store.get(f"{_MISSING}/{process_id}").decode())
            store.delete_key(f"{_MISSING}/{process_id}")
            refused.reported_by_main = True
            raise refused
        time.sleep(_POLL_S)
    message = _describe_missing(store, rank, size, timeout_s)
    if rank == 0:
        _pass_on(store, size, message)
    raise AsdfError(message)


def _came(store: Any, size: int) -> list[int]:
    return [rank for rank in range(size) if store.check([f"{_CAME}/{rank}"])]


def _describe_missing(store: Any, rank: int, size: int, timeout_s: float) -> str:
    missing = sorted(set(range(size)) - set(_came(store, size)))
    if missing:
        names = and_more([str(number) for number in missing], _SHOWN)
        who = f"rank{'s' * (len(missing) > 1)} {names} of {size} did not arrive"
    else:
        who = "not all of them answered"
    return (
        f"rank {rank} waited {timeout_s:g} s for the other processes of this run: {who}. A process "
        "that failed to start has its own message, above or in its output file. (srun "
        "--kill-on-bad-exit=1 ends the others at once.) If its start takes longer, raise "
        "computing.timeout_s, of which up to five minutes count here."
    )


def _pass_on(store: Any, size: int, message: str) -> None:
    """Report to the arrived processes why this one ends, since the store ends with it."""
    others = [rank for rank in _came(store, size) if rank]
    for rank in others:
        process_id = store.get(f"{_CAME}/{rank}").decode()
        store.set(f"{_MISSING}/{process_id}", message)
    until = time.monotonic() + _GRACE_S
    # A process removes the key after reading its message.
    while time.monotonic() < until and others:
        others = [
            rank
            for rank in others
            if store.check([f"{_MISSING}/{store.get(f'{_CAME}/{rank}').decode()}"])
        ]
        time.sleep(_POLL_S)


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
