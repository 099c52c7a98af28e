"""Data after the samples of a file (WAV, AIFF, CAF, W64, AU, MP4), or a missing end (AVI, MKV).

Invariant: metadata, tags and zeros may follow the samples, but no sound. libsndfile reads as many
samples as a header states and ignores later ones, as well as a second file appended to the first,
although other programs may play all of them. A file with fewer bytes than its outermost element
states is never taken for a shorter recording, although FFmpeg decodes it to its end without an
error.

Sources: Microsoft's and IBM's "Multimedia Programming Interface" (RIFF), EBU Tech 3306 (RF64),
Apple's "Audio Interchange File Format" and "Core Audio Format", the W64 description of Sonic
Foundry; ISO/IEC 14496-12; RFC 8794, section 4 (EBML); for tags, ID3 2.4.0 and APEv2.
"""

from __future__ import annotations

import os
from typing import BinaryIO, NamedTuple

from asdf.audio.recording_sources import FileBytes

# Sizes of at least this are placeholders of programs that wrote to a pipe, as is 0.
_PLACEHOLDER_BYTES = 0x7FFFF000

# Maximum number of bytes that are neither a chunk nor a tag: truncated chunks, lines of text, a
# recorder's buffer. They are indistinguishable from samples; refusing them would refuse sets
# because of at most 32 ms of 16-bit sound at 16 kHz, which hardly changes a score.
_MAX_UNKNOWN = 1024

_EBML = bytes.fromhex("1A45DFA3")
_SEGMENT = bytes.fromhex("18538067")
# Maximum number of bytes of an EBML size, and of the header of a RIFF file before its content.
_SIZE_BYTES = 8
_RIFF_HEADER = 8
# Each byte of an EBML size gives seven bits, since one bit per byte encodes its length.
_BITS_OF_SIZE_BYTE = 7

_BLOCK = 2**16
_MP4_NAME = 4
_MP4_HEADER = 8
_ID3V1 = 128
_ID3V1_EXTENDED = 227
_ID3V2_HEADER = 10
_ID3V2_FOOTER_FLAG = 0x10
_APE_HEADER = 32
_LYRICS_ENDS = (b"LYRICS200", b"LYRICSEND")
_W64_START = b"riff\x2e\x91\xcf\x11"
_STARTS = (b"RIFF", b"RIFX", b"RF64", b"FORM", b"caff", b".snd", b"fLaC", b"OggS", _W64_START)


class _Layout(NamedTuple):
    """The layout of a format's chunks.

    Attributes:
        first: Offset of the first chunk.
        name, size: Number of bytes of a chunk's name, and of its size.
        order: Byte order of numbers.
        samples: Prefix of the name of the chunk with the samples.
        step: Alignment of chunks in bytes.
        counts_header: Whether the size includes the chunk's name and size.
    """

    first: int
    name: int
    size: int
    order: str
    samples: bytes
    step: int
    counts_header: bool = False

    @property
    def header(self) -> int:
        return self.name + self.size


_LAYOUTS = {
    b"RIFF": _Layout(12, 4, 4, "little", b"data", 2),
    b"RF64": _Layout(12, 4, 4, "little", b"data", 2),
    b"RIFX": _Layout(12, 4, 4, "big", b"data", 2),
    b"FORM": _Layout(12, 4, 4, "big", b"SSND", 2),
    b"caff": _Layout(8, 4, 8, "big", b"data", 1),
    b"riff": _Layout(40, 16, 8, "little", b"data", 8, counts_header=True),
}


def describe_unheard(content: FileBytes) -> str:
    """Describe the sound in a file after its stated samples; '' if there is none."""
    if content.read(_MP4_NAME, 4) == b"ftyp":
        return _find_second_movie(content)
    end = _find_end_of_samples(content)
    if end is None:
        return ""
    layout = _LAYOUTS.get(content.read(0, 4))
    if layout is None:
        return describe_rest(content, end)
    position = end
    while True:
        chunk = _read_chunk(content, layout, position)
        if chunk is None or content.read(position, 4) in _LAYOUTS:
            return describe_rest(content, position)
        name, stop = chunk
        if name.startswith(layout.samples):
            return f"other samples follow at byte {position:,}"
        position = stop


def end_to_heed(content: FileBytes) -> int | None:
    """Return the offset at which libsndfile must stop; None if it stops by itself.

    libsndfile reads W64 files to the end, and chunks and tags there would become noise.
    """
    if not content.read(0, len(_W64_START)).startswith(_W64_START):
        return None
    end = _find_end_of_samples(content)
    return end if end is not None and end < content.size else None


def _find_second_movie(content: FileBytes) -> str:
    """Describe the position of a second description of tracks in an MP4 file; '' if none."""
    position = 0
    movies = 0
    while position + _MP4_HEADER <= content.size:
        header = content.read(position, 2 * _MP4_HEADER)
        size = int.from_bytes(header[:_MP4_NAME], "big")
        if size == 1:
            size = int.from_bytes(header[_MP4_HEADER:], "big")
        movies += header[_MP4_NAME:_MP4_HEADER] == b"moov"
        if movies > 1:
            return f"another recording lies at byte {position:,}"
        if size < _MP4_HEADER:
            break
        position += size
    return ""


def states_no_samples(content: FileBytes) -> bool:
    """Return whether a WAV file states 0 bytes of samples, as after a pipe, but has more."""
    if content.read(0, 4) != b"RIFF":
        return False
    end = _find_end_of_samples(content)
    if end is None:
        return False
    size = int.from_bytes(content.read(end - 4, 4), "little")
    return size == 0 and bool(describe_unheard(content))


def _find_end_of_samples(content: FileBytes) -> int | None:
    """Return the end of the stated samples; None if that is the end of the file, or unknown."""
    head = content.read(0, 12)
    if head.startswith(b".snd"):
        start, size = (int.from_bytes(head[at : at + 4], "big") for at in (4, 8))
        return start + size if size < _PLACEHOLDER_BYTES else None
    layout = _LAYOUTS.get(head[:4])
    if layout is None:
        return None
    position = layout.first
    large = 0
    while position + layout.header <= content.size:
        header = content.read(position, layout.header)
        size = int.from_bytes(header[layout.name :], layout.order)  # type: ignore[arg-type]
        body = position + layout.header
        if header.startswith(b"ds64"):
            # The real size of the samples, since the chunk itself states a placeholder.
            large = int.from_bytes(content.read(body + 8, 8), "little")
        if layout.counts_header:
            size = max(0, size - layout.header)
        if header.startswith(layout.samples):
            is_open = layout.size == 4 and size >= _PLACEHOLDER_BYTES
            size = large if is_open else size
            return body + size if 0 < size < content.size or not is_open else None
        position = _align(body + size, layout.step)
    return None


def _read_chunk(content: FileBytes, layout: _Layout, position: int) -> tuple[bytes, int] | None:
    """Return the name and the end of the chunk at an offset; None if there is none.

    Programs may omit the padding byte after a chunk of odd length, or include it in the size.
    """
    aligned = _align(position, layout.step)
    for start in (aligned, position):
        header = content.read(start, layout.header)
        name = header[: layout.name]
        if len(header) < layout.header or not (
            layout.name > 4 or all(0x20 <= byte < 0x7F for byte in name)
        ):
            continue
        size = int.from_bytes(header[layout.name :], layout.order)  # type: ignore[arg-type]
        stop = start + size + (0 if layout.counts_header else layout.header)
        # Samples that look like a name are followed by a random size.
        if start < stop <= content.size:
            return name, stop
    return None


def _align(position: int, step: int) -> int:
    return -(-position // step) * step


def describe_rest(content: FileBytes, position: int) -> str:
    """Describe the data from an offset on; '' for zeros, tags and a few bytes."""
    position = skip_tags(content, position)
    rest = content.size - position
    if rest <= 0:
        return ""
    if content.read(position, 8).startswith(_STARTS):
        return f"another recording begins at byte {position:,}"
    if rest <= _MAX_UNKNOWN:
        return ""
    return f"{rest:,} bytes follow the samples that its header states"


def skip_tags(content: FileBytes, position: int) -> int:
    """Return the end of zeros and tags that begin at an offset."""
    while position < content.size:
        after = position
        while block := content.read(after, _BLOCK):
            rest = block.lstrip(b"\0")
            after += len(block) - len(rest)
            if rest:
                break
        after += _tag_length(content, after)
        if after == position:
            break
        position = after
    return position


def _tag_length(content: FileBytes, position: int) -> int:
    """Return the number of bytes of the tag at an offset; 0 if there is none."""
    head = content.read(position, _APE_HEADER)
    if head.startswith(b"TAG+"):
        return _ID3V1_EXTENDED
    if head.startswith(b"TAG"):
        return _ID3V1
    if head.startswith(b"ID3"):
        return id3v2_length(head)
    if head.startswith(b"APETAGEX"):
        is_header = bool(head[-9:-8] and head[-9] & 0x20)
        return _APE_HEADER + (int.from_bytes(head[12:16], "little") if is_header else 0)
    if head.startswith(b"LYRICSBEGIN"):
        lyrics = content.read(position, _BLOCK)
        ends = [lyrics.find(mark) + len(mark) for mark in _LYRICS_ENDS if mark in lyrics]
        return min(ends, default=0)
    return 0


def id3v2_length(head: bytes) -> int:
    """Return the length of an ID3v2 tag that begins with `head`; 0 without a whole header."""
    if not head.startswith(b"ID3") or len(head) < _ID3V2_HEADER:
        return 0
    size = 0
    for byte in head[6:_ID3V2_HEADER]:
        size = size << 7 | byte & 0x7F
    has_footer = bool(head[5] & _ID3V2_FOOTER_FLAG)
    return _ID3V2_HEADER * (1 + has_footer) + size


def missing_bytes(file: BinaryIO) -> str:
    """Describe what is missing at the end of a file; '' if nothing is known to be missing."""
    present = file.seek(0, os.SEEK_END)
    file.seek(0)
    promised = _read_promised_bytes(file)
    # Programs may omit the padding byte at the end of a RIFF file.
    if present >= promised - 1:
        return ""
    return f"{promised:,} bytes are promised by the header, {present:,} are there"


def _read_promised_bytes(file: BinaryIO) -> int:
    """Return the length of the file stated in its header; 0 if it is not stated."""
    name = file.read(4)
    if name == _EBML:
        return _find_end_of_segment(file)
    if name != b"RIFF":
        return 0
    size = int.from_bytes(file.read(4), "little")
    if 0 < size < _PLACEHOLDER_BYTES:
        return _RIFF_HEADER + size
    return 0


def _find_end_of_segment(file: BinaryIO) -> int:
    """Return the end of the segment after EBML's header; 0 if it is not stated."""
    header = _read_size(file)
    if header is None:
        return 0
    file.seek(header, os.SEEK_CUR)
    if file.read(4) != _SEGMENT:
        return 0
    size = _read_size(file)
    return 0 if size is None else file.tell() + size


def _read_size(file: BinaryIO) -> int | None:
    """Return the size of an element; None if it is unknown, as in a live recording."""
    first = file.read(1)
    if not first or not first[0]:
        return None
    # The number of leading zeros of the first byte gives the length of the size.
    length = _SIZE_BYTES + 1 - first[0].bit_length()
    largest = 2 ** (_BITS_OF_SIZE_BYTE * length) - 1
    value = int.from_bytes(first + file.read(length - 1), "big") & largest
    return None if value == largest else value
