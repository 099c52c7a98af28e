"""Progress of long work: a bar on a terminal, an occasional plain line in the log."""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterable
from typing import TypeVar

from asdf.runs.log import PROGRESS

T = TypeVar("T")
LINE_EVERY_S = 30.0

# Log more often in the first minute, to show that the work has begun.
_FIRST_S = 60.0
_FIRST_LINES_EVERY_S = 5.0


def track(
    items: Iterable[T],
    total: int,
    what: str,
    *,
    lines_every: int = 0,
    shown: bool = True,
    unit: str = "it",
) -> Generator[T, None, None]:
    """Yield from `items` and show the progress.

    Args:
        lines_every: Number of items between two log lines; 0 logs every 5 seconds in the first
            minute and every 30 seconds after it.
        shown: Whether progress is shown; False on processes other than the main one.
    """
    from tqdm import tqdm

    if not shown:
        yield from items
        return
    # A monotonic clock, since the system time may be changed meanwhile.
    started = time.monotonic()
    last_line = started
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
            if lines_every:
                is_due = done % lines_every == 0
            else:
                is_due = now - last_line >= (
                    _FIRST_LINES_EVERY_S if (now - started) < _FIRST_S else LINE_EVERY_S
                )
            # After the last item, the result itself shows that the work is done.
            if is_due and done < total:
                last_line = now
                PROGRESS.info(
                    "%s: %d of %d, %s", what, done, total, _describe_rate(done, now - started, unit)
                )


def _describe_rate(done: int, elapsed_s: float, unit: str) -> str:
    """Return the rate per second, or the seconds per item if one takes longer than a second."""
    rate = done / elapsed_s
    if rate >= 1:
        return f"{rate:.1f} {unit}/s"
    single = unit.removesuffix("es") if unit.endswith("ches") else unit.removesuffix("s")
    return f"{1 / rate:.1f} s per {single}"
