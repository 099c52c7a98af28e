"""End of a recipe's process: one message that says what to do, and an exit status.

Invariant: an error is reported once, on the process where it occurred; a user error has no
traceback. Processes of one run end without waiting for each other.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from asdf.distributed.determinism import explain_refusal
from asdf.distributed.launchers import read_launch
from asdf.distributed.stopping import Stopped
from asdf.errors import AsdfError, UsageError, explain_killed_worker
from asdf.runs.files import explain_path
from asdf.runs.log import LOG, is_on_screen
from asdf.runs.streams import (
    NobodyReadsError,
    OutputError,
    close_streams,
    discard_output,
    show_error,
)

_WAITED_TOO_LONG = (
    "this process waited for another one longer than computing.timeout_s. Was one stopped or "
    "killed, or is it reading from a disk that hangs? Check the messages of the other ranks above "
    "and the memory of the machines. Raise computing.timeout_s if a step or a stage simply takes "
    "that long."
)


@contextmanager
def exit_status() -> Iterator[list[int]]:
    """Turn the exception that ends the block into a message and an exit status.

    Yields:
        List that receives the exit status when the block ends; it stays empty if the block exits
        the program itself, as --list does.
    """
    statuses: list[int] = []
    try:
        try:
            yield statuses
            # Before the status is set, since a full disk may show only now.
            sys.stdout.flush()
            statuses.append(0)
        except Stopped as request:
            LOG.info("%s", request)
            statuses.append(0)
            raise SystemExit(0) from None
    except SystemExit as end:
        # The output of --list or --explain may be lost if the disk is full.
        if close_streams(0) and not end.code:
            raise SystemExit(OutputError.exit_status) from None
        raise
    except (Exception, KeyboardInterrupt) as error:
        statuses.append(close_streams(_report(error)))
        raise SystemExit(statuses[-1]) from None


def skip_shutdown(statuses: list[int]) -> None:
    """Let one of several processes exit without interpreter shutdown, once it has a status.

    The process group is closed by then. Remaining threads of torch's communication occasionally
    abort the process during shutdown, and the launcher would report a complete run as failed; after
    a failure the other processes would wait for it. Later exceptions in a recipe's code are still
    reported.

    Args:
        statuses: Exit statuses of `exit_status`.
    """

    def exit_at_once() -> None:
        # last_value: the recipe raised an error after the runs, which the interpreter reports.
        if not statuses or hasattr(sys, "last_value"):
            return
        # After a failure, worker processes of a loader may remain, which the interpreter would end.
        for child in multiprocessing.active_children():
            child.terminate()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(statuses[-1])

    # Registered before the runs, so that handlers registered during them are called earlier.
    atexit.register(exit_at_once)


def cause_of(error: BaseException) -> BaseException:
    """Return the exception that ends the program, even if it is now an exit status."""
    is_exit = isinstance(error, SystemExit)
    return (error.__context__ if is_exit else None) or error


def _report(error: BaseException) -> int:
    """Report the exception that ended the run, once and visibly, and return the exit status."""
    # torch names an operation that is not deterministic, but not the setting that forbids it.
    explained = explain_refusal(error) or explain_killed_worker(error) or explain_path(error)
    error = explained or error
    if isinstance(error, KeyboardInterrupt):
        # The status that shells report for a program ended by Ctrl-C.
        return 130
    if isinstance(error, NobodyReadsError):  # `run.py --list | head`: nobody reads on
        return 0
    rank = 0
    # If the rank is unknown, report as rank 0 would.
    with suppress(UsageError):
        rank = read_launch().rank
    if not isinstance(error, AsdfError):
        return _report_failure(error, rank)
    in_torch = "torch" in sys.modules
    if isinstance(error, OutputError):
        discard_output()
        show_error(f"error: {error}")
    elif rank == 0 and is_on_screen():
        LOG.error("error: %s", error)
    elif rank == 0:
        show_error(f"error: {error}")
    # Before torch is loaded all ranks make the same checks, and rank 0 reports for them.
    elif in_torch and not error.reported_by_main:
        LOG.error("[rank %d] error: %s", rank, error)
    # Without torch, no torch launcher waits for an error record.
    if in_torch:
        from asdf.distributed.failures import record_for_launcher

        record_for_launcher(error)
    return error.exit_status


def _report_failure(error: BaseException, rank: int) -> int:
    """Report a failure that is not a user error: of another process, or in the code."""
    from asdf.distributed.failures import (
        lost_contact,
        record_for_launcher,
        record_message_for_launcher,
        wait_for_launcher,
        waited_too_long,
    )

    if getattr(error, "reported_by_main", False):
        record_for_launcher(error)
    elif lost_contact(error):
        LOG.error("rank %d: another process of this run has ended; its own message says why", rank)
        wait_for_launcher()
    elif waited_too_long(error):
        text = f"[rank {rank}] error: {_WAITED_TOO_LONG}"
        LOG.error("%s", text)
        record_message_for_launcher(text)
    else:
        LOG.error("%s", "".join(traceback.format_exception(error)).rstrip())
        record_for_launcher(error)
    return 1
