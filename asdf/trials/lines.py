"""The lines of a text file, plain or gzipped, each with its number.

Invariant: whatever is wrong with the file as a file (missing, truncated, not text) is one `AsdfError` that names it,
so the readers of the formats only think about columns. No file takes more memory than its longest line may.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

from asdf.errors import AsdfError
from asdf.runs.streams import STDIN, STREAM, stream_name

LONGEST_LINE = 100_000
"""Characters that a line may have: a hundred times as many as any list, protocol or score file of the field has."""

MOST_CHARACTERS = 2**30
"""Characters that a file may have; a gzip file of some megabytes may hold gigabytes."""

_PART = 1 << 20
_GZIP_MAGIC = b"\x1f\x8b"


def numbered_lines(
    path: str | os.PathLike[str], strip: str | None = None, errors: str = "strict"
) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without surrounding white space) of every line that is not blank.

    `strip` names the characters that are taken off instead, where TABs at the end mean empty columns. `errors` says
    what becomes of bytes that are not UTF-8, as for `open`.

    '-' is standard input. It and other pipes are read once and remembered, so that they can be gone through again.

    Gzip is known by its first two bytes, not by the file's name.

    Raises:
        AsdfError: the file cannot be read, is a damaged gzip file, is not UTF-8 text, or has more or longer lines than
            any file of the kind.
    """
    name = stream_name(STDIN) if str(path) == STREAM else path
    try:
        with _open_binary(Path(path)) as file:
            yield from lines_of(file, name, strip, errors)
    except OSError as error:
        raise AsdfError(_unreadable(name, error)) from error


def lines_of(
    file: BinaryIO,
    path: str | os.PathLike[str],
    strip: str | None = None,
    errors: str = "strict",
) -> Iterator[tuple[int, str]]:
    """The lines of an open file, as `numbered_lines` gives them; `path` is what messages call it.

    Raises:
        AsdfError: as `numbered_lines`.
    """
    buffered = file if isinstance(file, io.BufferedReader) else io.BufferedReader(file)  # type: ignore[type-var]
    try:
        zipped = buffered.peek(2)[:2] == _GZIP_MAGIC
        binary = gzip.GzipFile(fileobj=buffered) if zipped else buffered
        # A byte order mark, as Windows editors write it, would otherwise become part of the first id.
        text = io.TextIOWrapper(binary, encoding="utf-8-sig", errors=errors)
        for number, line in _bounded(text, path):
            if not line.isspace():
                yield number, line.strip(strip)
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


def _bounded(text: io.TextIOWrapper, path: str | os.PathLike[str]) -> Iterator[tuple[int, str]]:
    characters = 0
    for number, line in enumerate(iter(lambda: text.readline(LONGEST_LINE + 1), ""), start=1):
        characters += len(line)
        if len(line) > LONGEST_LINE:
            raise AsdfError(
                f"{path}, line {number}: the line has more than {LONGEST_LINE:,} characters, as no list, protocol or "
                "score file has. Is it the right file?"
            )
        if "\0" in line:
            raise AsdfError(
                f"{path}, line {number}: a NUL character stands in it, as in no text. It was likely damaged by a "
                "copy: copy or write it again."
            )
        if characters > MOST_CHARACTERS:
            raise AsdfError(
                f"{path}, line {number}: it has more than {MOST_CHARACTERS:,} characters up to here, as no list, "
                "protocol or score file has. Is it the right file?"
            )
        yield number, line


def _unreadable(path: str | os.PathLike[str], error: OSError) -> str:
    return f"cannot read {path}: {error.strerror or error}. Check the path."


def _open_binary(path: Path) -> BinaryIO:
    if str(path) == STREAM:
        return io.BytesIO(_read_stream(STDIN))
    if path.is_fifo():
        return io.BytesIO(_read_stream(path))
    return path.open("rb")


@lru_cache(maxsize=16)
def _read_stream(source: Path | int) -> bytes:
    content = bytearray()
    with open(source, "rb", closefd=isinstance(source, Path)) as file:
        # In parts: read(n) takes memory for n bytes before the first of them has come.
        while part := file.read(_PART):
            content += part
            if len(content) > MOST_CHARACTERS:
                name = stream_name(source) if isinstance(source, int) else source
                raise AsdfError(
                    f"{name}: more than {MOST_CHARACTERS:,} bytes came, as no list, protocol or score file has."
                )
    return bytes(content)
