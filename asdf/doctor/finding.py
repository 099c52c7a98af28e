"""A finding: what was looked at, whether it works, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

OK = "ok"
WARNING = "warning"
"""Runs work, but slower or with something left out."""

MISSING = "missing"
"""Runs do not work."""


@dataclass(frozen=True)
class Finding:
    """What was looked at and how it is; `mend` is '' where nothing needs to be done."""

    name: str
    status: str
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Step:
    """One look at something.

    Attributes:
        look: Function that returns the findings; what it raises is a finding as well.
        mend: Advice for when it fails, crashes or does not end.
        failed: the status then.
    """

    name: str
    look: Callable[[], Iterable[Finding]]
    mend: str
    failed: str = MISSING
