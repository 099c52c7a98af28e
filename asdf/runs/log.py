"""The run's log, on the screen and in `log.txt`, and the progress of long work.

Progress is a bar on a terminal, and an occasional plain line in the log.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from asdf.text import message

LOG = logging.getLogger("asdf")
PROGRESS = logging.getLogger("asdf.progress")


T = TypeVar("T")
LINE_EVERY_S = 30.0

# Log more often in the first minute, to show that the work has begun.
_FIRST_S = 60.0
_FIRST_LINES_EVERY_S = 5.0


class _Formatter(logging.Formatter):
    """Escapes and shortens messages, which may quote file names or contents of a corpus."""

    def format(self, record: logging.LogRecord) -> str:
        return message(super().format(record))


class ScreenFormatter(_Formatter):
    """Shows the message without its traceback, which goes to `log.txt`."""

    def format(self, record: logging.LogRecord) -> str:
        return message(record.getMessage())


class _Screen(logging.Handler):
    """Prints through tqdm, so that lines do not break a progress bar."""

    def emit(self, record: logging.LogRecord) -> None:
        from tqdm import tqdm

        tqdm.write(self.format(record), file=sys.stdout)
        sys.stdout.flush()


def log_to_screen(is_main: bool = True) -> None:
    """Show the log on the screen; a process other than the main one shows only warnings."""
    LOG.handlers.clear()
    # Otherwise a library that configures logging would show each line twice.
    LOG.propagate = False
    LOG.setLevel(logging.INFO)
    screen = _Screen(logging.INFO if is_main else logging.WARNING)
    screen.setFormatter(ScreenFormatter())
    LOG.addHandler(screen)


def is_on_screen() -> bool:
    """Whether `log_to_screen` was called and the log is visible on the screen."""
    return any(isinstance(handler, _Screen) for handler in LOG.handlers)


class _File(logging.FileHandler):
    """Warns once, without a traceback, if the log cannot be written; the run continues."""

    _has_warned = False

    def handleError(self, record: logging.LogRecord) -> None:
        if self._has_warned:
            return
        self._has_warned = True
        error = sys.exc_info()[1]
        print(f"warning: cannot write {self.baseFilename}: {error}", file=sys.stderr)


@contextmanager
def log_to_file(path: Path) -> Iterator[None]:
    """Append the log to `path`, each line with its time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = _File(path, encoding="utf-8")
    handler.setFormatter(_Formatter("%(asctime)s  %(message)s", "%Y-%m-%d %H:%M:%S"))
    LOG.addHandler(handler)
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        # A full disk was reported when a line could not be written.
        with suppress(OSError):
            handler.close()


def track(
    items: Iterable[T],
    total: int,
    what: str,
    *,
    lines_every: int = 0,
    shown: bool = True,
    unit: str = "it",
    size: Callable[[T], int] = lambda _: 1,
) -> Generator[T, None, None]:
    """Yield from `items` and show the progress.

    Args:
        lines_every: Number of items between two log lines; 0 logs every 5 seconds in the first
            minute and every 30 seconds after it.
        shown: Whether progress is shown; False on processes other than the main one.
        size: Function that returns how many an item counts for, such as `len` of a batch.
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
        done = 0
        for item in items:
            yield item
            done += size(item)
            bar.update(size(item))
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
                rate = done / (now - started)
                described = f"{rate:.1f} {unit}/s"
                if rate < 1:
                    single = unit.removesuffix("es" if unit.endswith("ches") else "s")
                    described = f"{1 / rate:.1f} s per {single}"
                PROGRESS.info("%s: %d of %d, %s", what, done, total, described)


@contextmanager
def progress_on_stderr() -> Iterator[None]:
    """Show lines of progress on standard error, for a command without a log."""
    if sys.stderr.isatty():  # where a progress bar shows it
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ScreenFormatter())
    level = PROGRESS.level
    PROGRESS.addHandler(handler)
    PROGRESS.setLevel(logging.INFO)
    try:
        yield
    finally:
        PROGRESS.removeHandler(handler)
        PROGRESS.setLevel(level)
