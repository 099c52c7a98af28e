"""Checks whether an MP3 file states its length, and whether that is all of it.

MP3 has no file header. Encoders write the number of frames into the first frame, marked 'Xing',
'Info' or 'VBRI'; without it, libsndfile estimates the length from the size of the file, including
tags.

If libsndfile reads less than a file holds (a header with too few frames, or that of the first of
two concatenated files), this is found by counting the frames by their headers.

Sources: ISO/IEC 11172-3, section 2.4.1.3, and 13818-3; ID3 tag version 2.4.0, section 3.1
(id3.org); the LAME project's description of the Xing header.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO, NamedTuple

from asdf.audio.file_ends import id3v2_length, skip_tags
from asdf.audio.recording_sources import FileBytes

_TAG_HEADER = 10
# Maximum length of a frame, at 320 kbit/s and 32 kHz, with its padding.
_FIRST_FRAME = 1441
_MARKS = (b"Xing", b"Info", b"VBRI")

_SYNC = re.compile(rb"\xff[\xe2-\xff]")
_HEADER = 4
_BLOCK = 2**18
# Encoders record their padding at both ends, which decoders remove: up to four frames.
_MAX_PADDING = 4 * 1152
_KBITS_1 = {
    1: (32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    2: (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    3: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
}
_KBITS_2 = {
    1: (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    2: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    3: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
# By the version bits: 2.5, none, 2, 1.
_RATES = ((11025, 12000, 8000), (), (22050, 24000, 16000), (44100, 48000, 32000))
_VERSION_1 = 3


class _Frame(NamedTuple):
    """The length of a frame in bytes, and its samples per channel."""

    length: int
    samples: int


def is_estimated(file: IO[bytes]) -> bool:
    """Whether libsndfile's length of an MP3 counts a leading tag as sound."""
    header = file.read(_TAG_HEADER)
    if not header.startswith(b"ID3"):
        return False
    file.seek(id3v2_length(header))
    return not _is_header(file.read(_FIRST_FRAME))


def describe_unheard(content: FileBytes, heard: int) -> str:
    """Describe sound in a file after the `heard` samples; '' if there is none."""
    samples = 0
    is_first = True
    for start, frame in _frames(content):
        is_header = is_first and _is_header(content.read(start, frame.length))
        is_first = False
        samples += 0 if is_header else frame.samples
    if samples - heard <= _MAX_PADDING:
        return ""
    return f"{heard} samples are promised by the header, {samples} are there"


def _is_header(frame: bytes) -> bool:
    return any(mark in frame for mark in _MARKS)


def _frames(content: FileBytes) -> Iterator[tuple[int, _Frame]]:
    """Yield the offsets of a file's frames, with the frames."""
    block = b""
    first = 0
    position = skip_tags(content, 0)
    while position + _HEADER <= content.size:
        if position + _HEADER > first + len(block):
            first = position
            block = content.read(first, _BLOCK)
        at = position - first
        frame = _read_frame(block[at : at + _HEADER])
        if frame is not None:
            yield position, frame
            position += frame.length
            continue
        after_tags = skip_tags(content, position)
        position = after_tags if after_tags > position else _find_frame(content, position)


def _find_frame(content: FileBytes, position: int) -> int:
    """Return the offset after a position of a frame followed by another one; else the end."""
    while block := content.read(position, _BLOCK):
        for match in _SYNC.finditer(block, 1):
            start = position + match.start()
            frame = _read_frame(content.read(start, _HEADER))
            if frame and _read_frame(content.read(start + frame.length, _HEADER)):
                return start
        position += len(block) if len(block) < _BLOCK else _BLOCK - 1
    return content.size


def _read_frame(header: bytes) -> _Frame | None:
    """Read the header of a frame; None if it is not one, or has a free bit rate."""
    if len(header) < _HEADER or not _SYNC.match(header):
        return None
    version = header[1] >> 3 & 3
    layer = 4 - (header[1] >> 1 & 3)
    bits = header[2] >> 4
    rate_code = header[2] >> 2 & 3
    if version == 1 or layer == 4 or bits in (0, 15) or rate_code == 3:
        return None
    kbits = (_KBITS_1 if version == _VERSION_1 else _KBITS_2)[layer][bits - 1]
    rate = _RATES[version][rate_code]
    padding = header[2] >> 1 & 1
    samples = {1: 384, 2: 1152, 3: 1152 if version == _VERSION_1 else 576}[layer]
    if layer == 1:
        # Layer I counts its bytes in units of four.
        return _Frame(4 * (12_000 * kbits // rate + padding), samples)
    return _Frame(samples * 125 * kbits // rate + padding, samples)
