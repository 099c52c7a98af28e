"""The standard streams of a process, which may be full or in another encoding.

Invariant: a full disk behind standard output is one message and exit status 1, also if only the
final flush fails. If the reader has closed a pipe (`| head`), the program ends quietly. A character
that the terminal cannot show is written as an escape sequence.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.text import AnyPath, as_typed, message

STREAM = "-"
"""The path that means standard input if it is read, and standard output if it is written."""

STDIN = 0
STDOUT = 1
STDERR = 2
_NAMES = {STDIN: "standard input", STDOUT: "standard output", STDERR: "standard error"}
_DEVICES = {STREAM: STDOUT, "/dev/stdout": STDOUT, "/dev/stderr": STDERR}


class OutputError(AsdfError):
    """Standard output, or the file that it is redirected to, cannot be written."""


class NobodyReadsError(BrokenPipeError):
    """Standard output is a pipe whose reader has closed it (`| head`), which is not a failure."""


def open_streams() -> None:
    """Prepare standard output for any text and any failure; programs call this first."""
    stream = sys.__stdout__
    # A notebook or a test has replaced the stream, which then stays.
    if stream is None or sys.stdout is not stream:
        return
    stream.flush()
    # closefd=False: Python's own stream has the same descriptor and outlives this object.
    buffer: Any = _OutputFile(STDOUT, "w", closefd=False)
    # With -u, Python does not buffer here either.
    if not stream.write_through:
        buffer = io.BufferedWriter(buffer)
    sys.stdout = io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def close_streams(status: int) -> int:
    """Flush standard output, so that nothing can fail when the interpreter ends.

    Returns:
        Exit status: `status`, or 1 if it was 0 and output was lost, which is also reported.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OutputError as error:
        discard_output()
        show_error(f"error: {error}")
        status = status or error.exit_status
    return status


def show_error(text: str) -> None:
    """Print a message on standard error."""
    print(message(as_typed(text)), file=sys.stderr, flush=True)


def discard_output() -> None:
    """Drop all further standard output, which is full or has no reader."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, STDOUT)
    os.close(null)


def descriptor_of(path: AnyPath) -> int | None:
    """Return the descriptor of the open file that an output path means; None for other files.

    This is standard output for '-', /dev/stdout and the file that it is redirected to, standard
    error likewise, and N for /dev/fd/N. Renaming a new file to such a path would detach it from the
    program or shell that opened it.
    """
    if os.fspath(path) in _DEVICES:
        return _DEVICES[os.fspath(path)]
    path = Path(path)
    try:
        is_number = path.name.isdecimal() and path.is_absolute()
        if is_number and path.parent.resolve() == Path("/dev/fd").resolve():
            return int(path.name)
        # Outputs to /dev/null cannot mix.
        if path.exists() and not path.samefile(os.devnull):
            status = path.stat()
            for descriptor in (STDOUT, STDERR):
                if os.path.samestat(status, os.fstat(descriptor)):
                    return descriptor
    except (OSError, RuntimeError):  # RuntimeError: links in a circle, in Python 3.10 to 3.12
        pass
    return None


def is_stdout(path: AnyPath) -> bool:
    """Whether output to `path` goes to standard output."""
    return descriptor_of(path) == STDOUT


def stream_name(descriptor: int) -> str:
    """Return the name of a standard stream in words."""
    return _NAMES.get(descriptor, f"file descriptor {descriptor}")


def input_name(path: Path) -> str:
    """Return the name of an input for display."""
    return stream_name(STDIN) if str(path) == STREAM else str(path)


def stream_advice(descriptor: int, error: OSError) -> str:
    """Return the message for a stream that cannot be written."""
    return (
        f"cannot write to {stream_name(descriptor)}: {error.strerror or error}. The output there "
        "is incomplete. Free some space or redirect it, then start the same command again."
    )


@contextmanager
def stream_errors(descriptor: int) -> Iterator[None]:
    """Turn the failure to write to a stream into a message, or for `| head` into a quiet end."""
    try:
        yield
    except OSError as error:
        if descriptor != STDOUT:
            raise AsdfError(stream_advice(descriptor, error)) from error
        if isinstance(error, BrokenPipeError):
            raise NobodyReadsError(*error.args) from None
        raise OutputError(stream_advice(descriptor, error)) from error


class _OutputFile(io.FileIO):
    """The file of standard output, whose failures raise `OutputError`."""

    def write(self, data: Any) -> int:
        with stream_errors(STDOUT):
            return super().write(data)
