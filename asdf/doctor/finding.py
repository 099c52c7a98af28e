"""A finding: what was checked, whether it works, and how to fix it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

OK = "ok"
WARNING = "warning"
"""Level: runs work, but slower or with limitations."""

MISSING = "missing"
"""Level: runs do not work."""


@dataclass(frozen=True)
class Finding:
    """What was checked, and its state; `mend` is '' if nothing needs to be done."""

    name: str
    status: str
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Step:
    """A single check.

    Attributes:
        look: Function that returns the findings; an exception is a finding too.
        mend: Advice if it fails, crashes or does not end.
        failed: Status of the finding if it fails.
    """

    name: str
    look: Callable[[], Iterable[Finding]]
    mend: str
    failed: str = MISSING
