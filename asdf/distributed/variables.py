"""What launchers say in environment variables: a launch, its numbers, a port from its name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

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
