"""The standard streams of a process, which may be full, closed or in another encoding.

Invariant: no output ends a program with a traceback. A character that the terminal cannot show is
written as an escape sequence. A stream that cannot be written gives one message and exit status 1,
also if the final flush fails. If the reader has closed a pipe (`| head`), the program ends quietly.
"""

from __future__ import annotations

import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from asdf.errors import AsdfError
from asdf.runs.log import PROGRESS, ScreenFormatter
from asdf.text import AnyPath, as_typed, message

STREAM = "-"
"""The path that means standard input if it is read, and standard output if it is written."""

STDIN = 0
STDOUT = 1
STDERR = 2
_NAMES = {STDIN: "standard input", STDOUT: "standard output", STDERR: "standard error"}
# The limit of Linux for symbolic links in one path.
_MAX_LINKS = 40


class OutputError(AsdfError):
    """Standard output, or the file that it is redirected to, cannot be written."""


class NobodyReadsError(BrokenPipeError):
    """Standard output is a pipe whose reader has closed it (`| head`), which is not a failure."""


def open_streams() -> None:
    """Prepare standard output and error for any text and any failure; programs call this first.

    A failure of standard error does not end the program, since the results matter more than
    messages; `close_streams` includes it in the exit status.

    Raises:
        OutputError: earlier output cannot be written.
    """
    for descriptor, mode in ((STDIN, os.O_WRONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_RDONLY)):
        # Otherwise the next opened file would take the number of a closed stream. The placeholder
        # is opened in the wrong direction, so that any access by number gives an error.
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)
    printed_before = sys.stdout
    for name, kind in (("stdout", _OutputFile), ("stderr", _ErrorFile)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115
        elif stream is getattr(sys, f"__{name}__"):
            setattr(sys, name, _checked_stream(stream, kind))
        # Otherwise a notebook or a test has replaced the stream, which then stays.
    if printed_before is not None:
        with _as_output_error():
            printed_before.flush()


def close_streams(status: int) -> int:
    """Flush all buffers, so that nothing can fail when the interpreter ends.

    Returns:
        Exit status: `status`, or 1 if it was 0 and output was lost. A loss of standard output is
        also reported.
    """
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        discard_output()
    except OutputError as error:
        discard_output()
        show_error(f"error: {error}")
        status = status or error.exit_status
    sys.stderr.flush()
    return status or int(_ErrorFile.has_failed)


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
    if os.fspath(path) == STREAM:
        return STDOUT
    path = Path(path)
    try:
        # Follow links one by one: resolve() would skip /dev/fd/1 and return the file open there.
        for _ in range(_MAX_LINKS):
            folder = path.parent.resolve()
            if str(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
                return int(path.name)
            if not path.is_symlink():
                break
            path = folder / path.readlink()
        # Outputs to /dev/null cannot mix.
        if path.exists() and not path.samefile(os.devnull):
            status = path.stat()
            for descriptor in (STDOUT, STDERR):
                if os.path.samestat(status, os.fstat(descriptor)):
                    return descriptor
        return None
    except OSError:
        return None


def is_stdout(path: AnyPath) -> bool:
    """Whether output to `path` goes to standard output."""
    return descriptor_of(path) == STDOUT


def stream_name(descriptor: int) -> str:
    """Return the name of a standard stream in words."""
    return _NAMES.get(descriptor, f"file descriptor {descriptor}")


def stream_advice(descriptor: int, error: OSError) -> str:
    """Return the message for a stream that cannot be written."""
    return (
        f"cannot write to {stream_name(descriptor)}: {error.strerror or error}. The output there "
        "is incomplete. Free some space or redirect it, then start the same command again."
    )


@contextmanager
def _as_output_error() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError as error:
        raise NobodyReadsError(*error.args) from None
    except OSError as error:
        raise OutputError(stream_advice(STDOUT, error)) from error


class _OutputFile(io.FileIO):
    """The file of standard output, whose failures raise `OutputError`."""

    descriptor = STDOUT

    def write(self, data: Any) -> int:
        with _as_output_error():
            return super().write(data)


class _ErrorFile(io.FileIO):
    """The file of standard error, which records failures instead of raising them."""

    descriptor = STDERR
    has_failed = False

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            _ErrorFile.has_failed |= not isinstance(error, BrokenPipeError)
            return len(data)


def _checked_stream(
    stream: io.TextIOWrapper, kind: type[_OutputFile] | type[_ErrorFile]
) -> io.TextIOWrapper:
    # closefd=False: Python's own stream has the same descriptor and outlives this object.
    buffer: Any = kind(kind.descriptor, "w", closefd=False)
    # With -u, Python does not buffer here either.
    if not stream.write_through:
        buffer = io.BufferedWriter(buffer)
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


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
