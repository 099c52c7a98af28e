"""Records of recordings that FFmpeg decoded because libsndfile could not.

Invariant: another decoder is never used without a line in the log. Code that starts reading
(`measure_lengths`, a pass of `BatchLoader`, `asdf score`) calls `take` before it, to drop earlier
notes, and after it, to log the result with `describe`. Functions in between are called from threads
and need not pass these notes on.

Each process records its own paths; worker processes send theirs with the data
(`asdf.data.loaders`).
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from asdf.text import AnyPath

_noted: set[str] = set()


def note(path: AnyPath) -> None:
    """Record that FFmpeg decoded `path`."""
    _noted.add(os.fspath(path))


def take() -> set[str]:
    """Return the paths recorded in this process since the last call, and clear them."""
    global _noted
    noted = _noted
    _noted = set()
    return noted


def describe(decoded: Iterable[str], of: Iterable[AnyPath], total: int) -> str:
    """Describe how many of the `total` recordings in `of` are among `decoded`.

    The result is '' for none. Other decoded recordings (noise that augments a clip) do not count.
    """
    decoded = set(decoded)
    if not decoded:
        # Avoid iterating over a million paths.
        return ""
    count = len(decoded.intersection(map(os.fspath, of)))
    if not count:
        return ""
    verb = "was" if count == 1 else "were"
    return (
        f"{count:,} of {total:,} recordings {verb} decoded by FFmpeg (PyAV), "
        "because libsndfile cannot"
    )
