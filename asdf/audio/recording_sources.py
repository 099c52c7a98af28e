"""What a recording is read from: a path, or a `Source`, which may be content in memory.

Invariant: content in memory is read as a file of it is, by the same decoders. No temporary file is
written.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import BinaryIO

from asdf import archives
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.text import AnyPath

_BYTES = 4
_MB = 1_000_000


@dataclass(frozen=True)
class Limits:
    """What a recording may take; None: anything.

    Attributes:
        max_seconds: Duration of it, as its header states it and as it decodes.
        memory: Bytes of its samples that are in memory together.
    """

    max_seconds: float | None = None
    memory: int | None = None

    def check_seconds(self, name: object, seconds: float) -> None:
        """Raise an AsdfError where a recording of `seconds` is too long."""
        if self.max_seconds is not None and seconds > self.max_seconds:
            raise AsdfError(
                f"{name} is longer than {self.max_seconds:g} s, the limit max_seconds. Cut it, or "
                "raise the limit."
            )

    def check_memory(self, name: object, frames: int, channels: int, rate: int) -> None:
        """Raise an AsdfError where so many frames, decoded and resampled at once, are too many."""
        if self.memory is None:
            return
        decoded = frames * (channels + 1)
        resampled = 0
        if rate != SAMPLE_RATE:
            resampled = 2 * frames + 2 * frames * SAMPLE_RATE // rate
        needed = _BYTES * max(decoded, resampled)
        if needed > self.memory:
            raise AsdfError(
                f"{name} would take {needed / _MB:,.0f} MB of memory at once, and the limit "
                f"memory_limit is {self.memory / _MB:,.0f} MB. Cut it, or raise the limit."
            )


@dataclass(frozen=True, eq=False)
class Source:
    """A recording to be read.

    Attributes:
        name: Path of it; or its name in messages, if it has `content`.
        content: Content of a file; None: the file at `name` is read.
    """

    name: str
    content: bytes | None = None
    limits: Limits = Limits()

    def __str__(self) -> str:
        return self.name


AnySource = AnyPath | Source


def open_source(source: AnySource) -> int | BinaryIO:
    """Open a source: as a descriptor, which the caller closes, or as a file in memory or a tar.

    Raises:
        OSError, AsdfError: as `asdf.archives.open_source`.
    """
    if not isinstance(source, Source):
        return archives.open_source(source)
    if source.content is None:
        return archives.open_source(source.name)
    return io.BytesIO(source.content)


def open_file(source: AnySource) -> BinaryIO:
    """Open a source as a file. Raises as `open_source`."""
    opened = open_source(source)
    return os.fdopen(opened, "rb") if isinstance(opened, int) else opened


def size_of(source: AnySource) -> int | None:
    """Return how many bytes a source has; None where there is no such file."""
    if not isinstance(source, Source):
        return archives.file_size(source)
    if source.content is None:
        return archives.file_size(source.name)
    return len(source.content)


def limits_of(source: AnySource) -> Limits:
    """Return the limits of a source; a path has none."""
    return source.limits if isinstance(source, Source) else Limits()


def path_of(source: AnySource) -> str | None:
    """Return the path of a source; None of content in memory."""
    if not isinstance(source, Source):
        return os.fspath(source)
    return source.name if source.content is None else None
