"""Whether a Matroska (also WebM) or AVI file is as long as its outermost element says.

Invariant: a file with fewer bytes than it states is never taken for a shorter recording. FFmpeg
decodes it up to where it ends without a word.
"""

from __future__ import annotations

import os
from typing import BinaryIO

_EBML = bytes.fromhex("1A45DFA3")
_SEGMENT = bytes.fromhex("18538067")
_RIFF = b"RIFF"

# The most bytes of a size in EBML, and of the header of a RIFF file before its content.
_SIZE_BYTES = 8
_RIFF_HEADER = 8
# Of each byte of a size in EBML, one bit in all is taken by the length of the size.
_BITS_OF_SIZE_BYTE = 7

# Sizes from here on are placeholders of programs that wrote to a pipe, as is 0.
_PLACEHOLDER_BYTES = 0x7FFFF000


def missing_bytes(file: BinaryIO) -> str:
    """Return what is missing at the end of a file, in words; '' for nothing that is known."""
    present = file.seek(0, os.SEEK_END)
    file.seek(0)
    promised = _read_promised_bytes(file)
    # Programs leave out the byte that fills a RIFF file up to an even length.
    if present >= promised - 1:
        return ""
    return f"{promised:,} bytes are promised by the header, {present:,} are there"


def _read_promised_bytes(file: BinaryIO) -> int:
    """Return how long the file is by its header; 0 where it does not say."""
    name = file.read(4)
    if name == _EBML:
        return _find_end_of_segment(file)
    if name != _RIFF:
        return 0
    size = int.from_bytes(file.read(4), "little")
    if 0 < size < _PLACEHOLDER_BYTES:
        return _RIFF_HEADER + size
    return 0


def _find_end_of_segment(file: BinaryIO) -> int:
    """Return where the segment that follows EBML's header ends; 0 where that is not stated."""
    header = _read_size(file)
    if header is None:
        return 0
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return 0
    size = _read_size(file)
    return 0 if size is None else file.tell() + size


def _read_size(file: BinaryIO) -> int | None:
    """Return the size of an element; None when it is unknown, as in a live recording.

    Source: RFC 8794, section 4.
    """
    first = file.read(1)
    if not first or not first[0]:
        return None
    # The leading zeros of the first byte give the length of the size.
    length = _SIZE_BYTES + 1 - first[0].bit_length()
    largest = 2 ** (_BITS_OF_SIZE_BYTE * length) - 1
    value = int.from_bytes(first + file.read(length - 1), "big") & largest
    return None if value == largest else value
