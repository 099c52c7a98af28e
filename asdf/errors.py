"""The errors that a user meets: what, where, the likely cause and what to do; no traceback."""

from __future__ import annotations

from asdf_antispoofing.clash import check_loaded

# Every room imports this module: whichever is reached first says that `asdf` is another package.
check_loaded()


class AsdfError(Exception):
    """Something that the user can fix: command lines print its text and end with `exit_status`.

    Attributes:
        reported_by_main: True on a process whose main process reports the same error.
    """

    exit_status = 1
    reported_by_main = False


class UsageError(AsdfError):
    """A mistake in a config, an override or a command line, found before any work started."""

    exit_status = 2


class InUseError(UsageError):
    """Another process is at the same work: later, when that has ended, it can be done."""
