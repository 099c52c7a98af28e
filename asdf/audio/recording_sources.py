"""Sources of recordings: a path, or a `Source`, which may be content in memory.

Invariant: content in memory is read like a file with this content, by the same decoders and without
a temporary file. Reading bytes while a decoder has the recording open (`FileBytes`) does not move
its position, and needs no second handle, which on a file server would cost another request per
recording.
"""

from __future__ import annotations

import io
import os
from dataclasses import dataclass
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np

from asdf import places
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.systems import read_at
from asdf.text import AnyPath

_BYTES = 4
_MB = 1_000_000
# Recordings that are remembered, at some 300 bytes each.
_MOST = 2**16


@dataclass(frozen=True)
class Limits:
    """Limits of a recording; None for unlimited.

    Attributes:
        max_seconds: Maximum duration in seconds, as stated in the header and as decoded.
        memory: Maximum number of bytes of its samples in memory.
    """

    max_seconds: float | None = None
    memory: int | None = None

    def check_seconds(self, name: object, seconds: float) -> None:
        """Raise an AsdfError if a recording of `seconds` is too long."""
        if self.max_seconds is not None and seconds > self.max_seconds:
            raise AsdfError(
                f"{name} is longer than {self.max_seconds:g} s, the limit max_seconds: raise the "
                "limit."
            )

    def check_memory(
        self, name: object, frames: int, channels: int, rate: int, to: int = SAMPLE_RATE
    ) -> None:
        """Raise an AsdfError if this many frames need too much memory for decoding and resampling.

        Args:
            rate, to: Sampling rates of the recording and of the result, in Hz.
        """
        if self.memory is None:
            return
        decoded = frames * (channels + 1)
        resampled = 0
        if rate != to:
            resampled = 2 * frames + 2 * frames * to // rate
        needed = _BYTES * max(decoded, resampled)
        if needed > self.memory:
            raise AsdfError(
                f"{name} would take {needed / _MB:,.0f} MB of memory at once, and the limit "
                f"memory_limit is {self.memory / _MB:,.0f} MB: raise the limit."
            )


@dataclass(frozen=True, eq=False)
class Source:
    """A recording to be read.

    Attributes:
        name: Path of the recording, or its name for messages if there is `content`.
        content: Content of a file; None to read the file at `name`.
        part: Part of the content that is the recording; None for all of it, or what `name` states.
    """

    name: str
    content: bytes | None = None
    limits: Limits = Limits()
    part: places.Part | None = None

    def __str__(self) -> str:
        return self.name


AnySource = AnyPath | Source


def open_source(source: AnySource) -> int | BinaryIO:
    """Open a source as a descriptor, which the caller closes, or as a file in memory or a tar.

    Raises:
        OSError, AsdfError: as in `asdf.places.open_source`.
    """
    if not isinstance(source, Source):
        return places.open_source(source)
    if source.content is None:
        return places.open_source(source.name)
    return io.BytesIO(source.content)


def open_file(source: AnySource) -> BinaryIO:
    """Open a source as a file. Raises as `open_source`."""
    opened = open_source(source)
    return os.fdopen(opened, "rb") if isinstance(opened, int) else opened


def size_of(source: AnySource) -> int | None:
    """Return the size of a source in bytes; None if the file does not exist."""
    if not isinstance(source, Source):
        return places.file_size(source)
    if source.content is None:
        return places.file_size(source.name)
    return len(source.content)


def limits_of(source: AnySource) -> Limits:
    """Return the limits of a source; a path has none."""
    return source.limits if isinstance(source, Source) else Limits()


def path_of(source: AnySource) -> str | None:
    """Return the path of a source; None for content in memory."""
    if not isinstance(source, Source):
        return os.fspath(source)
    return source.name if source.content is None else None


class FileBytes:
    """Reads at any offset of an open file.

    Attributes:
        size: Total number of bytes.
    """

    def __init__(self, opened: int | BinaryIO) -> None:
        """Store the result of `open_source`."""
        self._opened = opened
        if isinstance(opened, int):
            self.size = os.fstat(opened).st_size
            return
        position = opened.tell()
        self.size = opened.seek(0, os.SEEK_END)
        opened.seek(position)

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes from `position` on."""
        if isinstance(self._opened, int):
            return read_at(self._opened, count, position)
        before = self._opened.tell()
        self._opened.seek(position)
        content = self._opened.read(count)
        self._opened.seek(before)
        return content


SILENCE_DB = -80.0
"""Samples that stay within this level of full scale are silence: 16 bits and their dither leave
about -85 dB."""

SILENCE = 10 ** (SILENCE_DB / 20)
"""The same level as a part of full scale."""

Kind = Literal["channel", "track"]


def is_silent(samples: np.ndarray) -> bool:
    """Return whether (frames,) or (frames, channels) are digital silence, in each channel.

    A constant offset of the converter is silence too.
    """
    swing = samples.max(axis=0).astype(np.float64) - samples.min(axis=0)
    return bool(np.all(swing / 2 < SILENCE))


class Relation(NamedTuple):
    """How the channels, or the tracks, of a recording relate.

    Attributes:
        heard: Channels from 0, or tracks from 1, that are not silent; all if all are.
        why: Description of how these differ; '' if they agree.
    """

    heard: tuple[int, ...]
    why: str = ""


_known: dict[object, Relation] = {}


def recall(path: AnySource, kind: Kind) -> Relation | None:
    """Return how the channels or tracks of a recording relate; None if it has one, or is unread."""
    # Most lists have no recording with several, and need no look at its file.
    if not _known and path_of(path) is not None:
        return None
    known, key = _find_entry(path, kind)
    found: Relation | None = known.get(key)
    return found


def remember(path: AnySource, kind: Kind, found: Relation) -> Relation:
    """Note how the channels or tracks of a recording relate, and return it."""
    known, key = _find_entry(path, kind)
    if len(_known) >= _MOST:
        _known.clear()
    known[key] = found
    return found


def difference_of(path: AnySource) -> tuple[Kind, Relation] | None:
    """Return the tracks, or channels, that differ in a recording that was read; None if none do."""
    kinds: tuple[Kind, Kind] = ("track", "channel")
    for kind in kinds:
        found = recall(path, kind)
        if found is not None and found.why:
            return kind, found
    return None


def _find_entry(path: AnySource, kind: Kind) -> tuple[dict[Any, Any], object]:
    """Return the dictionary that knows a recording, and its key in there."""
    name = path_of(path)
    # Content in memory knows its own: its name may be that of other content.
    return (vars(path), kind) if name is None else (_known, (kind, name, places.file_state(name)))
