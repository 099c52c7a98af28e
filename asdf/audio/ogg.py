"""Whether an Ogg file is whole: the last page of a stream says that it is the last (RFC 3533, section 6).

Invariant: a file whose end is missing is never taken for a shorter recording. libsndfile and FFmpeg
both decode one up to its last whole page without a word.
"""

from __future__ import annotations

import os
import zlib
from typing import BinaryIO

_MAGIC = b"OggS"
_HEADER = 27
_FLAGS = 5
_SERIAL = slice(14, 18)
_CHECKSUM = slice(22, 26)
_BEGIN_OF_STREAM, _END_OF_STREAM = 2, 4

# Most pages are of 4 to 8 kB; a window without a whole page is followed by one so many times
# larger.
_FIRST_WINDOW = 2**14
_GROWTH = 8

_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


def missing_end(file: BinaryIO) -> str:
    """What is missing at the end of an Ogg file, in words; '' when nothing is.

    What programs add behind the last page, such as tags, does not matter; of chained streams the
    last one counts.
    """
    tail, start, end = _last_page(file)
    if start < 0:
        return "no page of it is whole"
    if _is_torn(tail[end:]):
        return "its last page is torn"
    if not tail[start + _FLAGS] & _END_OF_STREAM:
        return "the page that ends the stream is missing"
    return ""


def is_chained(file: BinaryIO) -> bool:
    """Whether other streams follow those that an Ogg file begins with, as when two files were put together."""
    tail, start, _ = _last_page(file)
    return start >= 0 and tail[start:][_SERIAL] not in _first_serials(file)


def _first_serials(file: BinaryIO) -> set[bytes]:
    """The numbers of the streams that begin at the start of the file, before the pages of any of them go on."""
    file.seek(0)
    head = file.read(_FIRST_WINDOW)
    serials, start, end = set(), 0, _page_end(head, 0)
    while end is not None and head[start + _FLAGS] & _BEGIN_OF_STREAM:
        serials.add(head[start:][_SERIAL])
        start, end = end, _page_end(head, end)
    return serials


def _last_page(file: BinaryIO) -> tuple[bytes, int, int]:
    """The end of the file, and where in it the last whole page begins and ends; -1 where there is no such page."""
    size = file.seek(0, os.SEEK_END)
    window = _FIRST_WINDOW
    while True:
        file.seek(max(0, size - window))
        tail = file.read(window)
        start = tail.rfind(_MAGIC)
        while start >= 0:
            end = _page_end(tail, start)
            if end is not None:
                return tail, start, end
            start = tail.rfind(_MAGIC, 0, start)
        if window >= size:
            return tail, -1, -1
        window *= _GROWTH


def _page_end(data: bytes, start: int) -> int | None:
    """Where the page that begins at `start` ends, if it is whole: its bytes have the checksum that it states."""
    segments = data[start + _HEADER - 1 : start + _HEADER]
    if not segments:
        return None
    body = start + _HEADER + segments[0]
    end = body + sum(data[start + _HEADER : body])
    if end > len(data):
        return None
    page = bytearray(data[start:end])
    stated = int.from_bytes(page[_CHECKSUM], "little")
    page[_CHECKSUM] = bytes(4)
    return end if _checksum(page) == stated else None


def _is_torn(rest: bytes) -> bool:
    """Whether the bytes behind the last whole page are the beginning of another, and not something added."""
    return bool(rest) and (rest.startswith(_MAGIC) or _MAGIC.startswith(rest))


def _checksum(page: bytearray) -> int:
    """Ogg's CRC-32: zlib's polynomial with the bits the other way round, and without its inversions."""
    raw = zlib.crc32(page.translate(_REVERSED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{raw:032b}"[::-1], 2)
