"""The run's log: plain lines on the screen, above any progress bar, and in `log.txt`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from asdf.text import message

LOG = logging.getLogger("asdf")
PROGRESS = logging.getLogger("asdf.progress")


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
