"""Numbers in environment variables, and a port that follows from a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from asdf.errors import UsageError

# Below the ports that systems hand out by themselves, so that none of those is in the way.
_FIRST_PORT, _PORTS = 10_000, 20_000


def number(environment: Mapping[str, str], name: str) -> int | None:
    """The whole number in a variable, or None where it is not set.

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
    """The whole numbers in variables that make sense only together.

    Raises:
        UsageError: one of them is not set or no whole number.
    """
    values = [number(environment, name) for name in names]
    known = [value for value in values if value is not None]
    if len(known) < len(names):
        missing = [name for name, value in zip(names, values, strict=True) if value is None]
        there = [name for name in names if name not in missing]
        raise UsageError(
            f"{' and '.join(there)} set in the environment, but {' and '.join(missing)} not: this "
            "process does not know which of how many it is. Set all of them for each process, or "
            "none."
        )
    return known


def name_port(job: str) -> int:
    """A port that all processes of a job get from its name, and another job most likely not."""
    digest = hashlib.sha256(job.encode()).digest()
    return _FIRST_PORT + int.from_bytes(digest[:4], "big") % _PORTS
