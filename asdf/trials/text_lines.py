"""The lines of a text file, plain or gzipped, each with its number.

Invariant: any problem with the file itself (missing, truncated, not text) is one `AsdfError` that
names it, so readers of formats only handle columns. No file takes more memory than a part of it
and the maximum length of a line.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain, compress, count, islice
from pathlib import Path
from typing import BinaryIO, cast

from asdf.errors import AsdfError
from asdf.places import open_file
from asdf.runs.streams import STDIN, STREAM, stream_name
from asdf.text import AnyPath

NumberedLines = Iterator[tuple[int, str]]
"""Lines that are not blank, each with its number, counted from 1."""

LONGEST_LINE = 100_000
"""Maximum length of a line: a hundred times that of any list, protocol or score file."""

MOST_CHARACTERS = 2**30
"""Maximum number of characters of a file; a gzip file of some megabytes may hold gigabytes."""

_PART = 1 << 20
# After 700 new lists, one for each line, the garbage collector would go through all objects.
_AT_ONCE = 512
_GZIP_MAGIC = b"\x1f\x8b"


def numbered_lines(
    path: AnyPath, strip: str | None = None, errors: str = "strict"
) -> NumberedLines:
    """Yield the lines of a file that a user names.

    '-' is standard input. Pipes are read once and kept, so that they can be read again. Gzip is
    detected by its first two bytes, not by the file's name.

    Args:
        strip: Characters to strip from the ends of a line instead of white space, for files in
            which TABs at the end mean empty columns.
        errors: Treatment of bytes that are not UTF-8, as in `open`.

    Raises:
        AsdfError: the file cannot be read, is a damaged gzip file, is not UTF-8 text, or has more
            or longer lines than any file of the kind.
    """
    name = stream_name(STDIN) if str(path) == STREAM else path
    try:
        is_stream = str(path) == STREAM
        if is_stream or Path(path).is_fifo():
            content = io.BytesIO(_read_stream(STDIN if is_stream else Path(path)))
            yield from lines_of(content, name, strip, errors)
            return
        with Path(path).open("rb") as file:
            yield from lines_of(file, name, strip, errors)
    except OSError as error:
        raise AsdfError(_unreadable(name, error)) from error


def file_lines(path: Path, kind: str, advice: str) -> NumberedLines:
    """Yield the lines of a file of a corpus, ordinary or in a tar, stripped only of line ends.

    Args:
        kind: Name of the kind of file in messages: 'list', 'file'.
        advice: End of the message about a file that cannot be opened.

    Raises:
        AsdfError: as in `numbered_lines`; a pipe is refused, since every process reads the file.
    """
    try:
        file = open_file(path)
    except (FileNotFoundError, NotADirectoryError):
        raise AsdfError(f"there is no {kind} {path}. {advice}") from None
    except OSError as error:
        raise AsdfError(f"cannot read the {kind} {path}: {error.strerror}. {advice}") from None
    with file:
        yield from lines_of(file, path, strip="\r\n")


def peek(lines: NumberedLines) -> tuple[str, NumberedLines]:
    """Return the first line, '' if all are blank, and an iterator over all of them."""
    first = next(lines, None)
    if first is None:
        return "", lines
    return first[1], chain([first], lines)


def blocks_of(lines: NumberedLines) -> Iterator[tuple[list[int], list[str]]]:
    """Yield the numbers and the texts of some hundred lines at a time.

    A reader of millions of lines handles a column of them in one call, in a third of the time.
    """
    while True:
        numbers = []
        texts = []
        for number, text in islice(lines, _AT_ONCE):
            numbers.append(number)
            texts.append(text)
        if not texts:
            return
        yield numbers, texts


def lines_of(
    file: BinaryIO,
    path: AnyPath,
    strip: str | None = None,
    errors: str = "strict",
    longest: int | None = None,
    most: float | None = None,
) -> NumberedLines:
    """Yield the lines of an open file, called `path` in messages; see `numbered_lines`.

    Args:
        longest: Maximum number of characters of a line; None for that of lists.
        most: Maximum number of characters of the file; None for that of lists.

    Raises:
        AsdfError: as in `numbered_lines`.
    """
    # The first bytes are peeked at, which members of tars do not support.
    is_buffered = isinstance(file, io.BufferedReader)
    buffered = file if is_buffered else io.BufferedReader(file)  # type: ignore[type-var]
    try:
        whole = cast(io.BufferedReader, buffered)
        is_gzip = whole.peek(2)[:2] == _GZIP_MAGIC
        binary = gzip.GzipFile(fileobj=whole) if is_gzip else whole
        # A byte order mark, as Windows editors write it, would otherwise be part of the first id.
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors=errors)
        limits = (longest or LONGEST_LINE, most or MOST_CHARACTERS)
        for first, lines in _bounded_lines(text, path, *limits):
            stripped = [line.strip() for line in lines]
            texts = stripped if strip is None else [line.strip(strip) for line in lines]
            # Blank lines are left out.
            yield from compress(zip(count(first), texts), stripped)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AsdfError(
            f"{path}: the gzip file is damaged or cut off ({error}). Copy or write it again."
        ) from error
    except UnicodeDecodeError as error:
        raise AsdfError(
            f"{path}: this is not UTF-8 text ({error}). Is it the right file?"
        ) from error
    except OSError as error:
        raise AsdfError(_unreadable(path, error)) from error


def _bounded_lines(
    text: io.TextIOWrapper, path: AnyPath, longest: int, most: float
) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the first line of each part of a file, and its lines without their ends.

    A line that a part begins, the next one continues.
    """
    first = 1
    remaining = most
    begun = ""
    is_over = False
    while not is_over:
        part = text.read(_PART)
        is_over = not part
        # The last line has no end.
        remaining += is_over
        lines = (begun + part).split("\n")
        # A line that is too long or damaged is refused before it has ended.
        if not is_over and len(lines[-1]) <= longest and "\0" not in lines[-1]:
            begun = lines.pop()
        sizes = list(map(len, lines))
        size = sum(sizes) + len(lines)
        if max(sizes, default=0) > longest or size > remaining or "\0" in part:
            index, problem = _first_problem(lines, longest, most, remaining)
            # What is wrong in the lines above is said first.
            yield first, lines[:index]
            raise AsdfError(f"{path}, line {first + index}: {problem}. Is it the right file?")
        remaining -= size
        yield first, lines
        first += len(lines)


def _first_problem(
    lines: list[str], longest: int, most: float, remaining: float
) -> tuple[int, str]:
    """Return the index of the first line that no list has, and what is wrong with it."""
    for index, line in enumerate(lines):
        remaining -= len(line) + 1
        if len(line) > longest:
            return index, f"the line has more than {longest:,} characters, too many for a list"
        if remaining < 0:
            up_to = f"it has more than {most:,} characters up to here, too many for a list"
            return index, up_to
        if "\0" in line:
            break
    return index, "it contains a NUL character: it is UTF-16 (save it as UTF-8) or damaged"


def _unreadable(path: AnyPath, error: OSError) -> str:
    return f"cannot read {path}: {error.strerror or error}. Check the path."


@lru_cache(maxsize=16)
def _read_stream(source: Path | int) -> bytes:
    content = bytearray()
    with open(source, "rb", closefd=isinstance(source, Path)) as file:
        # In blocks, since read(n) allocates n bytes before the first of them has arrived.
        while part := file.read(_PART):
            content += part
            if len(content) > MOST_CHARACTERS:
                name = stream_name(source) if isinstance(source, int) else source
                raise AsdfError(f"{name}: more than {MOST_CHARACTERS:,} bytes are too many.")
    return bytes(content)
