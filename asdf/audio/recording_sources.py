"""Sources of recordings: a path, or a `Source`, which may be content in memory.

Invariant: content in memory is read like a file with this content, by the same decoders and without
a temporary file. Reading bytes while a decoder has the recording open (`FileBytes`) does not move
its position, and needs no second handle, which on a file server would cost another request per
recording.

Also what libsndfile and FFmpeg do not say of the end of a file: sound after it, or a missing part.

Invariant: metadata, tags and zeros may follow the stated samples of a file, but no sound, which
other programs may play; and a file with fewer bytes than it states is no shorter recording. FFmpeg
counts the samples of FLAC, MP3 and Ogg (`asdf.audio.pyav.count_samples`).

Sources: Microsoft's and IBM's "Multimedia Programming Interface" (RIFF), EBU Tech 3306 (RF64),
Apple's "Audio Interchange File Format" and "Core Audio Format", the W64 description of Sonic
Foundry; ISO/IEC 14496-12 (MP4); RFC 8794, section 4 (EBML); RFC 3533, section 6 (Ogg).
"""

from __future__ import annotations

import io
import os
import re
from dataclasses import dataclass
from typing import BinaryIO, Literal, NamedTuple

from asdf import places
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.runs.systems import read_at
from asdf.text import AnyPath

_BYTES = 4
_MB = 1_000_000


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
            raise AsdfError(f"{name} is longer than {self.max_seconds:g} s, the limit max_seconds.")

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
        resampled = 0 if rate == to else 2 * frames + 2 * frames * to // rate
        needed = _BYTES * max(decoded, resampled)
        if needed > self.memory:
            raise AsdfError(
                f"{name} would take {needed / _MB:,.0f} MB of memory at once, more than the limit "
                f"memory_limit, {self.memory / _MB:,.0f} MB."
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

    @classmethod
    def of(cls, recording: AnySource) -> Source:
        """Return a source as it is, or that of a path."""
        return recording if isinstance(recording, Source) else cls(os.fspath(recording))

    def __str__(self) -> str:
        return self.name

    @property
    def is_file(self) -> bool:
        """Whether it is read from a path, not from memory."""
        return self.content is None

    @property
    def size(self) -> int | None:
        """Size in bytes; None if the file does not exist."""
        return places.file_size(self.name) if self.content is None else len(self.content)

    def open(self) -> int | BinaryIO:
        """Open it as a descriptor, which the caller closes, or as a file in memory or a tar.

        Raises:
            OSError, AsdfError: as in `asdf.places.open_source`.
        """
        if self.content is None:
            return places.open_source(self.name)
        return io.BytesIO(self.content)

    def open_file(self) -> BinaryIO:
        """Open it as a file. Raises as `open`."""
        opened = self.open()
        return os.fdopen(opened, "rb") if isinstance(opened, int) else opened


AnySource = AnyPath | Source


class FileBytes:
    """Reads at any offset of an open file.

    Attributes:
        size: Total number of bytes.
    """

    def __init__(self, opened: int | BinaryIO) -> None:
        """Store the result of `Source.open`."""
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


# Sizes of at least this are placeholders of programs that wrote to a pipe, as is 0.
PLACEHOLDER_BYTES = 0x7FFFF000
# The same for sizes of 8 bytes.
_LARGE_PLACEHOLDER = 2**62

# Maximum number of bytes after the samples that are neither a chunk nor zeros: tags, truncated
# chunks, a recorder's buffer; at most 32 ms of 16-bit sound at 16 kHz, which hardly change a score.
_MAX_UNKNOWN = 1024
_BLOCK = 2**16
_LAST = 2**20
_STARTS = (b"RIFF", b"RF64", b"FORM", b"caff", b".snd", b"riff\x2e\x91\xcf\x11")
_EBML = b"\x1a\x45\xdf\xa3"
_OGG_PAGE = re.compile(rb"OggS\0[\0-\7]")
# The magic bytes of a stream, and the header of its first block.
_FLAC_START = re.compile(rb"fLaC[\0\x80]\0\0\x22")


class _Layout(NamedTuple):
    """The layout of a format's chunks: sizes in bytes, and the name of the chunk of samples.

    Attributes:
        first: Offset of the first chunk.
        step: Alignment of chunks.
        counts_header: Whether the size of a chunk includes its name and size.
    """

    first: int
    name: int
    size: int
    order: Literal["little", "big"]
    samples: bytes
    step: int
    counts_header: bool = False


_LAYOUTS = {
    b"RIFF": _Layout(12, 4, 4, "little", b"data", 2),
    b"RF64": _Layout(12, 4, 4, "little", b"data", 2),
    b"FORM": _Layout(12, 4, 4, "big", b"SSND", 2),
    b"caff": _Layout(8, 4, 8, "big", b"data", 1),
    b"riff": _Layout(40, 16, 8, "little", b"data", 8, counts_header=True),
}


def sound_after(content: FileBytes) -> str:
    """Describe the sound in a file after its stated samples; '' if there is none."""
    if content.read(0, 4) == b"fLaC":
        # The mark may cross the end of a block.
        blocks = (content.read(at, _LAST) for at in range(4, content.size, _LAST - 8))
        is_more = any(map(_FLAC_START.search, blocks))
        return "another stream follows the first" if is_more else ""
    position = end_of_samples(content)
    if position is None:
        return ""
    layout = _LAYOUTS.get(content.read(0, 4))
    while layout is not None and position < content.size:
        # Programs may omit the padding byte after a chunk, or include it in the size.
        starts = (-(-position // layout.step) * layout.step, position)
        stops = (_end_of_chunk(content, layout, start) for start in starts)
        start, stop = next((pair for pair in zip(starts, stops, strict=True) if pair[1]), (0, 0))
        if not stop:
            break
        if content.read(start, layout.name).startswith(layout.samples):
            return f"other samples follow at byte {position:,}"
        position = stop
    while block := content.read(position, _BLOCK):
        rest = block.lstrip(b"\0")
        position += len(block) - len(rest)
        if rest.startswith(_STARTS):
            return f"another recording begins at byte {position:,}"
        if rest and content.size - position > _MAX_UNKNOWN:
            return f"{content.size - position:,} bytes follow the samples that its header states"
        if rest:
            break
    return ""


def end_of_samples(content: FileBytes) -> int | None:
    """Return the end of the stated samples; None if that is the end of the file, or unknown."""
    head = content.read(0, 12)
    if head.startswith(b".snd"):
        start, size = (int.from_bytes(head[at : at + 4], "big") for at in (4, 8))
        return start + size if size < PLACEHOLDER_BYTES else None
    layout = _LAYOUTS.get(head[:4])
    position, large = (0 if layout is None else layout.first), 0
    while layout is not None and position + layout.name + layout.size <= content.size:
        header = content.read(position, layout.name + layout.size)
        body = position + len(header)
        size = int.from_bytes(header[layout.name :], layout.order)
        size -= len(header) * layout.counts_header
        if header.startswith(b"ds64"):
            # The real size of the samples, whose chunk states a placeholder.
            large = int.from_bytes(content.read(body + 8, 8), "little")
        if header.startswith(layout.samples):
            is_open = size >= (PLACEHOLDER_BYTES if layout.size == 4 else _LARGE_PLACEHOLDER)
            size = large if is_open else size
            return None if is_open and not 0 < size < _LARGE_PLACEHOLDER else body + size
        position = -(-(body + max(0, size)) // layout.step) * layout.step
    return None


def _end_of_chunk(content: FileBytes, layout: _Layout, start: int) -> int:
    """Return the end of the chunk at an offset; 0 if there is none."""
    header = content.read(start, layout.name + layout.size)
    name = header[: layout.name]
    is_name = layout.name > 4 or all(0x20 <= byte < 0x7F for byte in name)
    if len(header) < layout.name + layout.size or not is_name or name[:4] in _LAYOUTS:
        return 0
    size = int.from_bytes(header[layout.name :], layout.order)
    stop = start + size + (0 if layout.counts_header else len(header))
    # Samples that look like a name are followed by a random size.
    return stop if start < stop <= content.size else 0


def missing_end(content: FileBytes) -> str:
    """Describe what is missing at the end of a file; '' if nothing is.

    Known of RIFF, RF64, W64, CAF, Matroska and Ogg.
    """
    head = content.read(0, 64)
    promised = 0
    if head.startswith(b"OggS"):
        return _missing_pages(content)
    if head.startswith(b"RIFF"):
        size = int.from_bytes(head[4:8], "little")
        promised = size + 8 if size < PLACEHOLDER_BYTES else 0
    elif head.startswith((b"RF64", b"riff", b"caff")):
        promised = end_of_samples(content) or 0
    elif head.startswith(_EBML):
        # Two elements, the header and the segment: an identifier of 4 bytes, and a size, whose
        # length is the number of leading zeros of its first byte; all ones: unknown.
        position = 0
        for _ in range(2):
            first = content.read(position + 4, 1) or b"\0"
            length = 9 - first[0].bit_length()
            largest = 2 ** (7 * length) - 1
            size = int.from_bytes(content.read(position + 4, length), "big") & largest
            position += 4 + length + size
        promised = 0 if size == largest else position
    # Programs may omit the padding byte at the end.
    if content.size >= promised - 1 or promised == 8:
        return ""
    return f"{promised:,} bytes are promised by the header, {content.size:,} are there"


def _missing_pages(content: FileBytes) -> str:
    # A page has at most 64 kB; tags may follow.
    tail = content.read(max(0, content.size - _LAST), _LAST)
    pages = list(_OGG_PAGE.finditer(tail))
    if not pages:
        return "none of its pages is complete"
    page = tail[pages[-1].start() :]
    sizes = page[27 : 27 + page[26]] if len(page) > 26 else b""
    end = 27 + len(sizes) + sum(sizes)
    # Another page begins, possibly cut in its mark; other data was appended.
    if len(page) <= 26 or len(sizes) < page[26] or end > len(page):
        return "its last page is incomplete"
    if page[end:] and b"OggS\0".startswith(page[end : end + 5]):
        return "its last page is incomplete"
    return "" if page[5] & 4 else "the page that ends the stream is missing"
