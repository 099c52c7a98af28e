"""The one channel by which decoding says that FFmpeg decoded a recording, since libsndfile cannot.

Invariant: no other decoder is used without a word in the log. Whoever starts a work that reads
(`measure_lengths`, a pass of `BatchLoader`, `asdf score`) calls `take` before it, to drop what
others noted, and after it, to log it by `describe`. Readers in between need to know nothing of it:
they are called from threads and through many functions, which would all have to pass it on.

A process notes paths for itself; worker processes send theirs along with what they read
(`asdf.data.loaders`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from asdf.text import AnyPath

_noted: set[str] = set()


def note(path: AnyPath) -> None:
    """Note that FFmpeg decoded `path`."""
    _noted.add(os.fspath(path))


def take() -> set[str]:
    """Return the paths noted in this process since the last call, and forget them."""
    global _noted
    noted = _noted
    _noted = set()
    return noted


def describe(decoded: Iterable[str], of: Iterable[AnyPath], total: int) -> str:
    """Say in a line how many of the recordings `of`, `total` in number, are among `decoded`.

    '' for none. What else was decoded (noise that augments a clip) does not count.
    """
    decoded = set(decoded)
    if not decoded:
        # A million paths need not be gone through.
        return ""
    count = len(decoded.intersection(map(os.fspath, of)))
    if not count:
        return ""
    verb = "was" if count == 1 else "were"
    return (
        f"{count:,} of {total:,} recordings {verb} decoded by FFmpeg (PyAV), "
        "because libsndfile cannot"
    )
