"""Numbers in environment variables, and a port that follows from a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from asdf.errors import UsageError

# Below the ports that systems assign by themselves, so that none of those is in the way.
_FIRST_PORT = 10_000
_PORTS = 20_000


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
