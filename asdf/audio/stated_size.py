"""Whether a Matroska (also WebM) or AVI file is as long as its outermost element says.

Invariant: a file of which less is there than it states is never taken for a shorter recording. FFmpeg
decodes one up to where it ends without a word.
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

# Sizes from here on are placeholders of programs that wrote to a pipe, as is 0.
_PLACEHOLDER_BYTES = 0x7FFFF000


def missing_bytes(file: BinaryIO) -> str:
    """What is missing at the end of a file, in words; '' when nothing is, or it does not tell."""
    there = file.seek(0, os.SEEK_END)
    file.seek(0)
    name = file.read(4)
    if name == _RIFF:
        size = int.from_bytes(file.read(4), "little")
        promised = _RIFF_HEADER + size if 0 < size < _PLACEHOLDER_BYTES else 0
    elif name == _EBML:
        promised = _end_of_segment(file)
    else:
        promised = 0
    # Programs leave out the byte that fills a RIFF file up to an even length.
    if there >= promised - 1:
        return ""
    return f"{promised:,} bytes are promised by the header, {there:,} are there"


def _end_of_segment(file: BinaryIO) -> int:
    """Where the segment that follows EBML's header ends; 0 when the file does not state it."""
    header = _read_size(file)
    if header is None:
        return 0
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return 0
    size = _read_size(file)
    return 0 if size is None else file.tell() + size


def _read_size(file: BinaryIO) -> int | None:
    """The size of an element (RFC 8794, section 4); None when it is unknown, as in a live recording."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    length = _SIZE_BYTES + 1 - first[0].bit_length()
    bits = 7 * length
    value = int.from_bytes(first + file.read(length - 1), "big") & (2**bits - 1)
    return None if value == 2**bits - 1 else value
