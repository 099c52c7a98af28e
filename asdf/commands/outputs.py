"""The outputs of a command: the requested files, and the displayed text.

Invariant: every file is written before anything is displayed, so that a closed or full screen does
not lose results; an output to standard output (the path '-') is alone there, so that another
program can read it.
"""

from __future__ import annotations

import logging
import os
import platform
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

import asdf
from asdf.distributed.devices import installed_torch
from asdf.errors import UsageError
from asdf.runs.streams import STDOUT, STREAM, descriptor_of, is_stdout, stream_name
from asdf.text import PROGRAM, as_typed, printable

STANDARD_INPUT = (STREAM, "/dev/stdin")

GREEN, RED, AMBER, GREY = "32", "31", "33", "90"
"""Colours of a terminal, for `in_colour`."""


def text_stream(outputs: Sequence[Path | None]) -> TextIO:
    """Return the stream for a command's text: standard output, unless an output goes there.

    Args:
        outputs: Paths of all outputs; None for outputs that were not requested.

    Raises:
        UsageError: two outputs go to standard output.
    """
    # `is_stdout` also detects /dev/stdout, and the file to which the shell redirected it.
    streamed = [str(path) for path in outputs if path is not None and is_stdout(path)]
    if len(streamed) > 1:
        raise UsageError(
            f"{len(streamed)} outputs go to standard output ({', '.join(streamed)}) and would be "
            "mixed. Write all but one to files."
        )
    return sys.stderr if streamed else sys.stdout


def check_inputs(inputs: Iterable[Path | None]) -> None:
    """Refuse to read standard input twice.

    Raises:
        UsageError: two inputs are '-'.
    """
    streamed = [path for path in inputs if path is not None and str(path) == STREAM]
    if len(streamed) > 1:
        raise UsageError(f"two inputs are '{STREAM}', but standard input can be read only once.")


def check_overwriting(inputs: Iterable[Path], outputs: Iterable[Path | None]) -> None:
    """Refuse to overwrite an input, or to write two outputs to one file.

    Raises:
        UsageError: an output is an input, or another output.
    """
    # Resolved, because two spellings may be the same file.
    read = {path.resolve() for path in inputs if str(path) != STREAM}
    written = [path.resolve() for path in outputs if path and not is_stdout(path)]
    if len(set(written)) < len(written) or read.intersection(written):
        raise UsageError(
            "an output has the same path as an input or another output and would overwrite it."
        )


def check_file(path: Path) -> None:
    """Refuse standard output for a binary output.

    Raises:
        UsageError: `path` is '-'.
    """
    if str(path) == STREAM:
        raise UsageError(
            f"'{STREAM}' is standard output, but this output is a binary file: give its name."
        )


def is_stream(path: Path) -> bool:
    """Whether an output cannot be rewritten: standard output, a pipe."""
    # A named pipe or a device exists, but is not an ordinary file.
    return descriptor_of(path) is not None or (path.exists() and not path.is_file())


def first_file(paths: Iterable[Path | None]) -> Path | None:
    """Return the first output that is an ordinary file; None if there is none."""
    for path in paths:
        if path is not None and not is_stream(path):
            return path
    return None


def write_outputs(outputs: Iterable[tuple[Path | None, Callable[[Path], object]]]) -> None:
    """Write the requested outputs; the path of an output that was not requested is None."""
    # Standard output comes last: `| head` may end the program there.
    requested = [(path, write) for path, write in outputs if path is not None]
    for path, write in sorted(requested, key=lambda output: is_stdout(output[0])):
        write(path)


def show(text: str, stream: TextIO | None = None) -> None:
    """Print a text on `stream` (None: standard output), escaping control characters."""
    print(printable(as_typed(text)), file=stream or sys.stdout)


def in_colour(text: str, colour: str, stream: TextIO) -> str:
    """Return a text in a colour if `stream` is a terminal that shows colours."""
    # By no-color.org, any value but an empty one turns colours off.
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if is_plain or not stream.isatty() else f"\x1b[{colour}m{text}\x1b[0m"


class WarningFormatter(logging.Formatter):
    """Shows what is logged in amber, on a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        return in_colour(super().format(record), AMBER, sys.stderr)


@contextmanager
def replicates_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on a terminal, for bootstraps that take more than a moment.

    Its function takes the numbers of finished replicates and of all replicates.
    """
    from tqdm import tqdm

    # disable=None: no bar unless standard error is a terminal.
    with tqdm(desc=title, unit="replicates", leave=False, delay=1, disable=None) as bar:

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield progress


def output_name(path: Path) -> str:
    """Return the name of an output for display."""
    return stream_name(STDOUT) if str(path) == STREAM else str(path)


def base_of_several(option: str, path: Path, name: str, suffixes: Collection[str]) -> Path:
    """Return the common path, without suffix, of several files that an option writes.

    Args:
        option: Name of the option, as typed.
        path: Path in the option: a folder, or a file with or without one of `suffixes`.
        name: Name of the files in a folder.

    Raises:
        UsageError: it is standard output.
    """
    if is_stdout(path):
        raise UsageError(f"{option} writes several files, which cannot go to standard output.")
    if path.is_dir() or str(path).endswith(os.sep):
        return path / name
    # Only known suffixes are removed, because a name may contain a dot, as in 'call.2'.
    return path.with_suffix("") if path.suffix in suffixes else path


def describe_version() -> str:
    """Return the versions of ASDF, torch and Python, and the location of ASDF.

    torch is not imported for that.
    """
    build = installed_torch()
    torch = str(build) if build.version else "no torch"
    folder = Path(asdf.__file__).resolve().parent
    return f"{PROGRAM} {asdf.__version__}, {torch}, Python {platform.python_version()} ({folder})"
