"""The lines of a text file, plain or gzipped, each with its number.

Invariant: whatever is wrong with the file as a file (missing, truncated, not text) is one `AsdfError` that names it,
so the readers of the formats only think about columns.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from asdf.errors import AsdfError

_GZIP_MAGIC = b"\x1f\x8b"


def numbered_lines(path: str | os.PathLike[str], strip: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without surrounding white space) of every line that is not blank.

    `strip` names the characters that are taken off instead, where TABs at the end mean empty columns.

    Gzip is known by its first two bytes, not by the file's name.

    Raises:
        AsdfError: the file cannot be read, is a damaged gzip file or is not UTF-8 text.
    """
    path = Path(path)
    try:
        with path.open("rb") as raw:
            zipped = raw.read(2) == _GZIP_MAGIC
            raw.seek(0)
            binary = gzip.GzipFile(fileobj=raw) if zipped else raw
            # A byte order mark, as Windows editors write it, would otherwise become part of the first id.
            for number, line in enumerate(io.TextIOWrapper(binary, encoding="utf-8-sig"), start=1):
                if not line.isspace():
                    yield number, line.strip(strip)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise AsdfError(f"{path}: the gzip file is damaged or cut off ({error}). Copy or write it again.") from error
    except UnicodeDecodeError as error:
        raise AsdfError(f"{path}: this is not UTF-8 text ({error}). Is it the right file?") from error
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}. Check the path.") from error
