"""Which recordings FFmpeg decoded because libsndfile cannot: noted where it happens, told at the end of a work.

Invariant: no other decoder is used without a word in the log. A process notes paths for itself; worker processes send
theirs along with what they read (`asdf.data.loaders`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

_noted: set[str] = set()


def note(path: str | os.PathLike[str]) -> None:
    """Remember that FFmpeg decoded `path`."""
    _noted.add(os.fspath(path))


def take() -> set[str]:
    """The paths noted in this process since it was asked last."""
    global _noted
    noted, _noted = _noted, set()
    return noted


def describe(decoded: Iterable[str], of: Iterable[str | os.PathLike[str]], total: int) -> str:
    """One line on how many of the recordings `of`, `total` in number, are among `decoded`; '' for none.

    Only then is `of` gone through: what else was decoded (noise that augments a clip) does not count.
    """
    decoded = set(decoded)
    count = len(decoded.intersection(map(os.fspath, of))) if decoded else 0
    if not count:
        return ""
    verb = "was" if count == 1 else "were"
    return f"{count:,} of {total:,} recordings {verb} decoded by FFmpeg (PyAV), because libsndfile cannot"
