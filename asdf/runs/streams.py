"""The standard streams of a process: full, closed, of another encoding, or named as a file.

Invariant: no output ends a program with a traceback. A letter that the terminal lacks is written as
its escape sequence; a stream that cannot be written is one message and exit status 1, also when
that shows at the last flush; where nobody reads on (`| head`) the program ends quietly.
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
from asdf.text import AnyPath, message

STREAM = "-"
"""The path that means standard input if it is read, and standard output if it is written."""

STDIN = 0
STDOUT = 1
STDERR = 2
_NAMES = {STDIN: "standard input", STDOUT: "standard output", STDERR: "standard error"}
# As many as Linux follows in one path.
_MAX_LINKS = 40


class OutputError(AsdfError):
    """Standard output, or the file that it is redirected to, cannot be written."""


class NobodyReadsError(BrokenPipeError):
    """Standard output is a pipe that nobody reads any more (`| head`), which is not a failure."""


def open_streams() -> None:
    """Make standard output and error fit for any text and any failure; a program calls this first.

    What cannot be written to standard error ends nothing: the results matter more than a message
    about them. The exit status of `close_streams` shows it.

    Raises:
        OutputError: what was printed before cannot be written.
    """
    for descriptor, mode in ((STDIN, os.O_WRONLY), (STDOUT, os.O_RDONLY), (STDERR, os.O_RDONLY)):
        # The next file that is opened would be taken for a closed stream. What stands in for it is
        # opened the wrong way round, so that whoever reads or writes it by number gets an error.
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
        # Else a notebook or a test has replaced it, and its stream stays.
    if printed_before is not None:
        with _as_output_error():
            printed_before.flush()


def close_streams(status: int) -> int:
    """Write out what is buffered, so that nothing is left to fail when the interpreter ends.

    Returns:
        The exit status: `status`, or 1 if it was 0 and output was lost. A loss of standard output
            is also shown.
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
    print(message(text), file=sys.stderr, flush=True)


def discard_output() -> None:
    """Drop all that is still written to standard output: it is full, or nobody reads it."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, STDOUT)
    os.close(null)


def descriptor_of(path: AnyPath) -> int | None:
    """Return the open file of this process that a path to be written means; None for other files.

    That is standard output for '-', /dev/stdout and the file that it is redirected to, standard
    error likewise, and N for /dev/fd/N: a new file renamed to such a path would take it from the
    program or shell that opened it.
    """
    if os.fspath(path) == STREAM:
        return STDOUT
    path = Path(path)
    try:
        # Link by link: resolve() would go past /dev/fd/1 to the file that is open there.
        for _ in range(_MAX_LINKS):
            folder = path.parent.resolve()
            if str(folder) in ("/dev/fd", f"/proc/{os.getpid()}/fd") and path.name.isdecimal():
                return int(path.name)
            if not path.is_symlink():
                break
            path = folder / path.readlink()
        # Outputs that are thrown away together do not mix.
        if path.exists() and not path.samefile(os.devnull):
            status = path.stat()
            for descriptor in (STDOUT, STDERR):
                if os.path.samestat(status, os.fstat(descriptor)):
                    return descriptor
        return None
    except OSError:
        return None


def is_stdout(path: AnyPath) -> bool:
    """Whether what is written to `path` goes to standard output."""
    return descriptor_of(path) == STDOUT


def stream_name(descriptor: int) -> str:
    """Return the name of a standard stream, in words."""
    return _NAMES.get(descriptor, f"file descriptor {descriptor}")


def stream_advice(descriptor: int, error: OSError) -> str:
    """Return the message for a stream that cannot be written."""
    return (
        f"cannot write to {stream_name(descriptor)}: {error.strerror or error}. What was written "
        "there is not whole. Free some space or send it elsewhere, then start the same command "
        "again."
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
    """The file of standard output, whose failures are errors of their own kind."""

    descriptor = STDOUT

    def write(self, data: Any) -> int:
        with _as_output_error():
            return super().write(data)


class _ErrorFile(io.FileIO):
    """The file of standard error, which remembers that it failed instead of raising."""

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
    # closefd: Python's own stream has the same descriptor, and outlives this object.
    buffer: Any = kind(kind.descriptor, "w", closefd=False)
    # Python run with -u has no buffer here either.
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
    """Show lines of progress on standard error, for a command that has no log."""
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
