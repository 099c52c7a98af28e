"""Errors shown to the user: what is wrong, where, the likely cause and the fix, no traceback."""

from __future__ import annotations

from asdf_antispoofing.clash import check_loaded

# Every room imports this module, so the check for another package named `asdf` runs first.
check_loaded()


class AsdfError(Exception):
    """An error that the user can fix: commands print its text and exit with `exit_status`.

    Attributes:
        reported_by_main: Whether this process leaves the error to its main process, which reports
            it.
    """

    exit_status = 1
    reported_by_main = False


class UsageError(AsdfError):
    """A mistake in a config, an override or a command line, found before any work started."""

    exit_status = 2


class InUseError(UsageError):
    """Another process is doing the same work; try again when it has ended."""


def explain_killed_worker(error: BaseException) -> AsdfError | None:
    """Return the message for a worker process that a signal ended; None for any other error."""
    # torch raises a plain RuntimeError.
    if "DataLoader worker (pid" not in str(error) and "terminated abruptly" not in str(error):
        return None
    return killed_worker()


def killed_worker() -> AsdfError:
    """Return the error of a worker process that a signal ended."""
    return AsdfError(
        "a worker process was killed, likely by the system because memory ran out (see dmesg). Use "
        "fewer (--workers, computing.network_dataloader_workers), and run the same command again."
    )
