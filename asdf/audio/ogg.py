"""Checks whether an Ogg file is complete, which the last page of a stream states.

Invariant: a truncated file is never taken for a shorter recording, although libsndfile and FFmpeg
decode it to its last whole page without an error.

Source: RFC 3533, section 6.
"""

from __future__ import annotations

import os
import re
import zlib
from typing import BinaryIO, NamedTuple

_MAGIC = b"OggS"
_HEADER = 27
_SEGMENT_COUNT = 26
_FLAGS = 5
_SERIAL = slice(14, 18)
_CHECKSUM = slice(22, 26)
_BEGIN_OF_STREAM = 2
_END_OF_STREAM = 4

# Most pages have 4 to 8 kB; if a window holds no whole page, the next one is larger.
_FIRST_WINDOW = 2**14
_GROWTH = 8

# The beginning of a page: version 0, and flags of which three are in use.
_PAGE = re.compile(rb"OggS\x00[\x00-\x07]")
_BLOCK = 2**20

_ALL_ONES = 0xFFFFFFFF


def _reverse_bits(number: int, bits: int) -> int:
    text = f"{number:0{bits}b}"
    return int(text[::-1], 2)


_REVERSED = bytes(_reverse_bits(byte, 8) for byte in range(256))


class _LastPage(NamedTuple):
    """The last whole page of a file, and the data after it."""

    page: bytes
    rest: bytes


def missing_end(file: BinaryIO) -> str:
    """Describe what is missing at the end of an Ogg file; '' if it is complete.

    Data after the last page, such as tags, is ignored; in chained streams, the last one counts.
    """
    last = _read_last_page(file)
    if last is None:
        return "none of its pages is complete"
    # Another page begins, possibly truncated in its first bytes; otherwise the data was appended.
    if last.rest and (last.rest.startswith(_MAGIC) or _MAGIC.startswith(last.rest)):
        return "its last page is incomplete"
    if not last.page[_FLAGS] & _END_OF_STREAM:
        return "the page that ends the stream is missing"
    return ""


def is_chained(file: BinaryIO) -> bool:
    """Whether further streams follow the first ones of an Ogg file, as when two were joined."""
    last = _read_last_page(file)
    if last is None:
        return False
    return last.page[_SERIAL] not in _read_first_serials(file) or _begins_again(file)


def _begins_again(file: BinaryIO) -> bool:
    """Whether a stream begins after pages of others, possibly with the serial number of the first.

    Ogg is always decoded from its start, so its pages are searched to the end.
    """
    position = 0
    has_content = False
    while True:
        file.seek(position)
        block = file.read(_BLOCK)
        for page in _PAGE.finditer(block):
            begins = bool(page[0][_FLAGS] & _BEGIN_OF_STREAM)
            if begins and has_content:
                return True
            has_content = has_content or not begins
        if len(block) < _BLOCK:
            return False
        # A header may cross the end of a block.
        position += _BLOCK - _HEADER


def _read_first_serials(file: BinaryIO) -> set[bytes]:
    """Return the serial numbers of the streams that begin at the start of the file.

    Their first pages come before all others (RFC 3533, section 4).
    """
    file.seek(0)
    head = file.read(_FIRST_WINDOW)
    serials: set[bytes] = set()
    start = 0
    while True:
        end = _find_page_end(head, start)
        if end is None:
            return serials
        page = head[start:end]
        if not page[_FLAGS] & _BEGIN_OF_STREAM:
            return serials
        serials.add(page[_SERIAL])
        start = end


def _read_last_page(file: BinaryIO) -> _LastPage | None:
    """Return the last whole page; None if there is none."""
    size = file.seek(0, os.SEEK_END)
    window = _FIRST_WINDOW
    while True:
        file.seek(max(0, size - window))
        tail = file.read(window)
        start = tail.rfind(_MAGIC)
        while start >= 0:
            end = _find_page_end(tail, start)
            if end is not None:
                return _LastPage(tail[start:end], tail[end:])
            start = tail.rfind(_MAGIC, 0, start)
        if window >= size:
            return None
        window *= _GROWTH


def _find_page_end(data: bytes, start: int) -> int | None:
    """Return the end of the page that begins at `start`.

    The result is None if the page is incomplete, or its checksum is wrong.
    """
    segment_count = data[start + _SEGMENT_COUNT : start + _HEADER]
    if not segment_count:
        return None
    body = start + _HEADER + segment_count[0]
    segment_sizes = data[start + _HEADER : body]
    end = body + sum(segment_sizes)
    if end > len(data):
        return None
    page = bytearray(data[start:end])
    stated = int.from_bytes(page[_CHECKSUM], "little")
    # The checksum is computed with zeros in its own field.
    page[_CHECKSUM] = bytes(4)
    # Ogg's CRC-32: zlib's polynomial with reversed bits, without its inversions.
    reversed_page = page.translate(_REVERSED)
    raw = zlib.crc32(reversed_page, _ALL_ONES) ^ _ALL_ONES
    return end if _reverse_bits(raw, 32) == stated else None
