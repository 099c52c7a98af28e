"""Progress of a long work: a bar on a terminal, a plain line now and then in the log."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

from asdf.runs.log import PROGRESS

T = TypeVar("T")
LINE_EVERY_S = 30.0

# Of the first minute a line comes more often: a work that has just begun should be seen to go on.
_FIRST_S = 60.0
_FIRST_LINES_EVERY_S = 5.0


def track(
    items: Iterable[T],
    total: int,
    what: str,
    *,
    lines_every: int = 0,
    speaks: bool = True,
    unit: str = "it",
) -> Generator[T, None, None]:
    """Yield from `items` and show how far they are.

    Args:
        lines_every: log a line after so many items; 0: after every 5 seconds of the first minute, then every 30.
        speaks: False shows nothing (on processes that are not the main one).
    """
    from tqdm import tqdm

    if not speaks:
        yield from items
        return
    started = last = time.monotonic()
    with tqdm(
        total=total,
        desc=what,
        unit=unit,
        leave=False,
        disable=not sys.stderr.isatty(),
        dynamic_ncols=True,
    ) as bar:
        for done, item in enumerate(items, 1):
            yield item
            bar.update()
            now = time.monotonic()
            every_s = _FIRST_LINES_EVERY_S if now - started < _FIRST_S else LINE_EVERY_S
            due = done % lines_every == 0 if lines_every else now - last >= every_s
            if due and done < total:
                last = now
                rate = done / (now - started)
                PROGRESS.info("%s: %d of %d, %.1f %s/s", what, done, total, rate, unit)
