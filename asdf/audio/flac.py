"""Checks of the end of a FLAC file against its header, and a second decoder for FLAC.

Invariant: frames after the stated number of samples, or of an appended second stream, which other
programs would play but libsndfile does not, are found without decoding. Bytes of a frame may look
like a header by chance, so only two consecutive frames that fit together count.

Small files are searched completely; of a large one, equally spaced parts and the end. A stream that
begins and ends between two parts is therefore missed if the numbers in its header fit: searching
ten minutes takes 40 times as long as reading a clip from them.

libsndfile 1.2.2 cannot decode more than a third of the ASVspoof 2021 recordings although they are
intact. FFmpeg decodes damaged frames without an error, so its output is used only if it has the
length and the MD5 sum in the file's header.

Source: RFC 9639, sections 8.2 and 9.1.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from asdf.audio.file_ends import id3v2_length
from asdf.audio.pyav import NotDecoded, as_float, decode
from asdf.audio.recording_sources import AnySource, FileBytes, open_file

_MAGIC = b"fLaC"
_BLOCK_HEADER = 4
_STREAMINFO = 34
# Position of the sum in a file that begins with its magic bytes.
_MD5 = slice(26, 42)
_LAST_BLOCK = 0x80
# A second stream: its magic bytes, and the STREAMINFO header, alone or before other blocks.
_SECOND = re.compile(rb"fLaC[\x00\x80]\x00\x00\x22")
_SYNC_BYTES = (0xFF, 0xF8)
_SYNC = re.compile(rb"\xff[\xf8\xf9][\x10-\xfe][\x00-\xae]")
_VARIABLE = 1
_WITHOUT_VARIABLE = 0xFE
# Maximum length of a frame header, and the offset of its number.
_HEADER = 16
_NUMBER = 4
# Numbers below this take one byte.
_ONE_BYTE = 0x80

# A part holds this many frames of the maximum length in the stream.
_FRAMES_PER_PART = 3
_PARTS = 8
_SMALL = 2**18

_BLOCK_SIZES = {1: 192, **{code: 144 << code for code in range(2, 6)}} | {
    code: 1 << code for code in range(8, 16)
}
_RATE_BYTES = {12: 1, 13: 2, 14: 2}


def _make_crc8() -> bytes:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte << 1 ^ (0x107 if byte & 0x80 else 0)
        table.append(byte)
    return bytes(table)


_CRC8 = _make_crc8()


class _Stream(NamedTuple):
    """The information in a stream's header, and where its frames begin."""

    start: int
    samples: int
    longest_frame: int


class _Frame(NamedTuple):
    """The first sample of a frame, and the sample after its last one."""

    first: int
    end: int


def describe_unheard(content: FileBytes) -> str:
    """Describe sound in a file that its header does not state; '' if there is none."""
    content.hold(_SMALL)
    stream = _read_stream(content)
    if stream is None or stream.samples == 0:
        return ""
    frame = _read_frame(content.read(stream.start, _HEADER), 1)
    fixed_size = None if frame is None else frame.end - frame.first
    if fixed_size is None:
        # The decoder reports what is wrong.
        return ""
    chain = _Chain()
    for part in _parts(content, stream):
        chain.follow(_frames(part, fixed_size))
        # A stream with a single frame is recognised by its magic bytes.
        if chain.restarted or (chain.repeated and _SECOND.search(part)):
            return "another stream follows the first"
    if chain.end > stream.samples:
        return f"{stream.samples} samples are promised by the header, {chain.end} are there"
    return ""


class _Chain:
    """A sequence of consecutive frames.

    Attributes:
        end: Sample after the last observed frame.
        restarted: Whether two later frames continue from an earlier sample.
        repeated: Whether a possible frame repeats the very first sample.
    """

    def __init__(self) -> None:
        self.end = 0
        self.restarted = False
        self.repeated = False

    def follow(self, frames: Iterable[_Frame]) -> None:
        """Process the frames of a part, in the order of the file."""
        before: _Frame | None = None
        for frame in frames:
            if frame.first == self.end:
                self.end = frame.end
                continue
            if before is not None and frame.first == before.end:
                # Two consecutive frames: from a part further on, or from another stream.
                self.restarted = self.restarted or before.first < self.end
                self.end = max(self.end, frame.end)
                before = None
                continue
            self.repeated = self.repeated or frame.first == 0
            before = frame


def _read_stream(content: FileBytes) -> _Stream | None:
    """Read STREAMINFO; None if the file does not begin like a FLAC file."""
    position = id3v2_length(content.read(0, _HEADER))
    head = content.read(position, len(_MAGIC) + _BLOCK_HEADER + _STREAMINFO)
    if not head.startswith(_MAGIC) or len(head) < len(_MAGIC) + _BLOCK_HEADER + _STREAMINFO:
        return None
    info = head[len(_MAGIC) + _BLOCK_HEADER :]
    packed = int.from_bytes(info[10:18], "big")
    samples = packed & (1 << 36) - 1
    bits = (packed >> 36 & 0x1F) + 1
    channels = (packed >> 41 & 0x7) + 1
    block_size = int.from_bytes(info[2:4], "big")
    longest = block_size * channels * (bits + 8) // 8 + _HEADER
    position += len(_MAGIC)
    is_last = False
    while not is_last:
        header = content.read(position, _BLOCK_HEADER)
        if len(header) < _BLOCK_HEADER:
            return None
        is_last = bool(header[0] & _LAST_BLOCK)
        position += _BLOCK_HEADER + int.from_bytes(header[1:], "big")
    return _Stream(position, samples, longest)


def _parts(content: FileBytes, stream: _Stream) -> Iterator[bytes]:
    """Yield the parts of a file to search, in order."""
    window = _FRAMES_PER_PART * stream.longest_frame
    rest = content.size - stream.start
    if rest <= max(_SMALL, (_PARTS + 1) * window):
        yield content.read(stream.start, rest)
        return
    step = (rest - window) // _PARTS
    for number in range(_PARTS):
        yield content.read(stream.start + number * step, window)
    yield content.read(content.size - window, window)


def _frames(data: bytes, fixed_size: int) -> Iterator[_Frame]:
    """Yield everything that looks like a frame header and has a valid checksum."""
    numbers = np.frombuffer(data, np.uint8)
    # One of 256 bytes is the first of a mark, so few are examined further. A header too close to
    # the end to hold its number cannot be read.
    marks = np.flatnonzero(numbers[:-_NUMBER] == _SYNC_BYTES[0])
    marks = marks[numbers[marks + 1] & _WITHOUT_VARIABLE == _SYNC_BYTES[1]]
    before = b""
    number = 0
    for start in marks.tolist():
        header = data[start : start + _HEADER]
        # Most headers differ from the previous one only in the number, which is read far faster.
        is_next = number < _ONE_BYTE and header[:_NUMBER] == before and header[_NUMBER] == number
        if is_next:
            yield _Frame(number * fixed_size, (number + 1) * fixed_size)
            number += 1
            continue
        frame = _read_frame(header, fixed_size)
        if frame is None:
            continue
        yield frame
        # Frames whose header states their size, such as the last, are excluded.
        if not header[1] & _VARIABLE and frame.end - frame.first == fixed_size:
            before = header[:_NUMBER]
            number = frame.end // fixed_size


def _read_frame(header: bytes, fixed_size: int) -> _Frame | None:
    """Read the header of a frame; None if it is not a frame.

    Args:
        fixed_size: Number of samples per frame, if frames are numbered.
    """
    if len(header) <= _NUMBER or not _SYNC.match(header):
        return None
    size_code = header[2] >> 4
    # The number is encoded as in UTF-8: leading ones count its bytes.
    ones = 8 - (header[4] ^ 0xFF).bit_length()
    number_bytes = 0 if ones in (1, 8) else max(ones, 1)
    size_bytes = {6: 1, 7: 2}.get(size_code, 0)
    after_number = 4 + number_bytes
    end = after_number + size_bytes + _RATE_BYTES.get(header[2] & 0xF, 0)
    if not number_bytes or header[3] & 1 or end >= len(header):
        return None
    crc = 0
    for byte in header[:end]:
        crc = _CRC8[crc ^ byte]
    if crc != header[end]:
        return None
    number = header[4] & (0x7F if number_bytes == 1 else 0x7F >> number_bytes)
    for byte in header[5:after_number]:
        number = number << 6 | byte & 0x3F
    if size_bytes:
        size = int.from_bytes(header[after_number : after_number + size_bytes], "big") + 1
    else:
        size = _BLOCK_SIZES[size_code]
    first = number if header[1] & _VARIABLE else number * fixed_size
    return _Frame(first, first + size)


def decode_flac(path: AnySource, frames: int) -> np.ndarray | None:
    """Decode a 16-bit FLAC file with PyAV: (frames, channels) float32 in [-1, 1).

    The result is None if PyAV is not installed, the file is not 16-bit, or the decoded samples do
    not match the header.
    """
    try:
        decoded = decode(path, containers="flac")
    except NotDecoded:
        return None
    samples = decoded.samples
    if samples.dtype != np.int16 or len(samples) != frames:
        return None
    # The sum is over interleaved channels, the memory order of (frames, channels).
    content = samples.astype("<i2").tobytes()
    with open_file(path) as file:
        header = file.read(_MD5.stop)
    # A file that does not begin like a FLAC file states no sum.
    if not header.startswith(_MAGIC) or hashlib.md5(content).digest() != header[_MD5]:
        return None
    return as_float(samples)
