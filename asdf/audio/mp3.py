"""Whether an MP3 file says how long it is.

MP3 has no header of its own. Encoders write the number of frames into the first frame, marked
'Xing', 'Info' or 'VBRI'; without it libsndfile estimates the length from the size of the file, tags
included.

Source: ID3 tag version 2.4.0, section 3.1 (id3.org); the LAME project's description of the Xing
header.
"""

from __future__ import annotations

from typing import IO

_TAG_HEADER = 10
_TAG_SIZE = slice(6, 10)
_BITS_OF_SIZE_BYTE = 7
# The longest frame, at 320 kbit/s and 32 kHz, and its padding.
_FIRST_FRAME = 1441
_MARKS = (b"Xing", b"Info", b"VBRI")


def is_estimated(file: IO[bytes]) -> bool:
    """Whether libsndfile's length of an MP3 counts a tag at its beginning as sound."""
    header = file.read(_TAG_HEADER)
    if not header.startswith(b"ID3"):
        return False
    size = 0
    for byte in header[_TAG_SIZE]:
        size = size << _BITS_OF_SIZE_BYTE | byte & 0x7F
    file.seek(_TAG_HEADER + size)
    first_frame = file.read(_FIRST_FRAME)
    return not any(mark in first_frame for mark in _MARKS)
