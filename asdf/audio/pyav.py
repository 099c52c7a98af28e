"""FFmpeg, through PyAV, for formats that libsndfile lacks: mp4, m4a, aac, webm and others.

Invariant: only the named file is read. FFmpeg also supports playlists, which may name any other
file or address, so it gets an open file and a list of allowed containers.

A sound track that is too long for memory is read like a sound file (`LongTrack`): the samples are
those that `decode` would have returned, but memory holds only the requested part and a frame of the
codec, even if a small file decodes to many hours.

PyAV is optional: without it, `NotDecoded` says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO

import numpy as np

from asdf.audio.file_ends import missing_bytes
from asdf.audio.ogg import missing_end
from asdf.audio.recording_sources import AnySource, limits_of, open_file
from asdf.errors import AsdfError

CONTAINERS = "mov,matroska,webm,aac,asf,avi,flv,mpegts,mpeg,amr,ac3,eac3,wav,mp3,ogg"
"""Containers to try if libsndfile does not support a file; for FLAC, see `asdf.audio.flac`."""

# Containers whose files state the duration, instead of FFmpeg estimating it.
_STATES_DURATION = ("mov", "wav")

# Encoders pad the ends by up to two frames, which the stated duration may include.
_PADDING_S = 0.25

# Full scale of integer samples, and the value that means zero.
_SCALES = {
    "u1": (128.0, 128),
    "i2": (2.0**15, 0),
    "i4": (2.0**31, 0),
    "i8": (2.0**63, 0),
}


class NotDecoded(Exception):
    """The reason why there are no samples; `missing` if only because PyAV is not installed."""

    def __init__(self, reason: str, missing: bool = False) -> None:
        super().__init__(reason)
        self.missing = missing


@dataclass(frozen=True)
class Decoded:
    """A whole sound track: samples (frames, channels) in the type of its codec, at `rate` Hz.

    Attributes:
        dropped: Number of decoded frames that are not among the samples; see `decode`.
        stated_s: Duration stated in the file, in seconds; None if it states none.
        missing_end: Description of the part missing at its end, by its container; '' for none.
    """

    samples: np.ndarray
    rate: int
    dropped: int = 0
    stated_s: float | None = None
    missing_end: str = ""

    @property
    def frames(self) -> int:
        return len(self.samples) + self.dropped

    @property
    def cut_off(self) -> str:
        """Describe what is missing at the end; '' if nothing is, or it is unknown."""
        if self.missing_end:
            return self.missing_end
        if self.stated_s is None:
            return ""
        decoded_s = self.frames / self.rate
        if self.stated_s - decoded_s <= _PADDING_S:
            return ""
        return f"{self.stated_s:.2f} s are promised by the header, {decoded_s:.2f} s decode"


def decode(path: AnySource, containers: str = CONTAINERS, max_bytes: int | None = None) -> Decoded:
    """Decode the first sound track of a file from its start to its end.

    Args:
        max_bytes: Maximum size of the samples in bytes. Samples of a longer track are only counted
            as `dropped`, since a small file may hold many hours.

    Raises:
        NotDecoded: PyAV is not installed, or the file has another container, has no sound or is
        damaged.
        AsdfError: it is longer than its limits allow.
    """
    with _opened(path, containers) as (file, container):
        return _decode_container(container, file, path, max_bytes)


def decode_blocks(path: AnySource) -> Iterator[np.ndarray]:
    """Yield the decoded samples as blocks of (frames, channels) float32, on demand.

    Raises:
        NotDecoded: as in `decode`.
    """
    with _opened(path, CONTAINERS) as (_, container):
        stream = container.streams.audio[0]
        for frame in container.decode(stream):
            yield as_float(_read_frame(frame, stream.codec_context.channels))


@contextmanager
def _opened(path: AnySource, containers: str) -> Iterator[tuple[BinaryIO, Any]]:
    """Open a file and its container for the block; errors become `NotDecoded`."""
    try:
        av = import_module("av")
    except ImportError:
        raise NotDecoded("PyAV is not installed", missing=True) from None
    try:
        with (
            open_file(path) as file,
            av.open(file, options={"format_whitelist": containers}) as container,
        ):
            yield file, container
    except (av.FFmpegError, OSError) as error:
        raise NotDecoded(error.strerror or str(error)) from None


def _decode_container(
    container: Any,
    file: BinaryIO,
    path: AnySource,
    max_bytes: int | None,
) -> Decoded:
    """Decode the first sound track of an open container, which lies in `file`."""
    if not container.streams.audio:
        raise NotDecoded("it contains no audio")
    stream = container.streams.audio[0]
    limits = limits_of(path)
    blocks = _Blocks(max_bytes)
    formats = set()
    for frame in container.decode(stream):
        block = _read_frame(frame, stream.codec_context.channels)
        blocks.add(block)
        formats.add((frame.sample_rate, block.shape[1]))
        # The decoded sound may differ from the header.
        limits.check_seconds(path, blocks.frames / frame.sample_rate)
    if not blocks.held:
        raise NotDecoded("nothing in it can be decoded")
    if len(formats) > 1:
        raise NotDecoded("its sampling rate or its number of channels changes within it")
    rate, _ = formats.pop()
    stated_s = None
    if container.format.name.startswith(_STATES_DURATION) and stream.duration is not None:
        stated_s = float(stream.duration * stream.time_base)
    is_ogg = container.format.name == "ogg"
    missing = missing_end(file) if is_ogg else missing_bytes(file)
    return Decoded(np.concatenate(blocks.held), rate, blocks.dropped, stated_s, missing)


class _Blocks:
    """Blocks of samples, kept up to a number of bytes; beyond it, they are only counted.

    Attributes:
        held: Blocks in memory; an empty one if none are kept.
        frames: Number of frames of all blocks.
        dropped: Number of frames that are not kept.
    """

    def __init__(self, max_bytes: int | None) -> None:
        self.held: list[np.ndarray] = []
        self.frames = 0
        self.dropped = 0
        self._max_bytes = max_bytes
        self._bytes = 0

    def add(self, block: np.ndarray) -> None:
        self.held.append(block)
        self.frames += len(block)
        self._bytes += block.nbytes
        if self._max_bytes is not None and self._bytes > self._max_bytes:
            self.held = [block[:0]]
            self.dropped = self.frames


def as_float(samples: np.ndarray) -> np.ndarray:
    """Return samples as float32 with full scale 1."""
    kind = samples.dtype.str[1:]
    if kind not in _SCALES:
        return samples.astype(np.float32, copy=False)
    full_scale, middle = _SCALES[kind]
    centred = samples.astype(np.float64) - middle
    return (centred / full_scale).astype(np.float32)


def _read_frame(frame: Any, channels: int) -> np.ndarray:
    """Return a frame's samples as (frames, channels)."""
    array: np.ndarray = frame.to_ndarray()
    samples: np.ndarray
    if frame.format.is_planar:
        samples = array.T
    else:
        # A packed frame has the shape (1, frames * channels), with interleaved channels.
        samples = array.reshape(-1, channels)
    return samples


class LongTrack:
    """The part of `soundfile.SoundFile`'s interface that readers use, for reading forwards.

    Attributes:
        frames, samplerate, channels: Properties as in a sound file.
    """

    format = "FFMPEG"
    subtype = "FLOAT"
    extra_info = ""

    def __init__(self, source: AnySource, decoded: Decoded) -> None:
        """Read the track, which was decoded before to count its frames."""
        self.frames = decoded.frames
        self.samplerate = decoded.rate
        self.channels = decoded.samples.shape[1]
        self._source = source
        self._blocks: Iterator[np.ndarray] = decode_blocks(source)
        self._block = np.zeros((0, self.channels), np.float32)
        self._position = 0

    def __enter__(self) -> LongTrack:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file being decoded."""
        close: Any = getattr(self._blocks, "close", None)
        if close is not None:
            close()

    def seek(self, frame: int) -> int:
        """Move to a later frame; frames before it are decoded and dropped."""
        while self._position < frame:
            if not len(self._block) and not self._decode_more():
                break
            skipped = min(len(self._block), frame - self._position)
            self._block = self._block[skipped:]
            self._position += skipped
        return self._position

    def read(
        self,
        frames: int = -1,
        dtype: str = "float32",
        always_2d: bool = True,
        out: np.ndarray | None = None,
    ) -> np.ndarray:
        """Read up to `frames`, or as many as `out` has: (frames, channels) float32.

        Raises:
            AsdfError: the file has changed meanwhile and cannot be decoded.
        """
        remaining = self.frames - self._position
        if out is None:
            count = remaining if frames < 0 else min(frames, remaining)
            out = np.empty((count, self.channels), np.float32)
        done = 0
        while done < len(out):
            if not len(self._block) and not self._decode_more():
                break
            part = self._block[: len(out) - done]
            out[done : done + len(part)] = part
            self._block = self._block[len(part) :]
            done += len(part)
        self._position += done
        return out[:done]

    def _decode_more(self) -> bool:
        """Decode the next block; False at the end."""
        try:
            block = next(self._blocks, None)
        except NotDecoded as error:
            raise AsdfError(
                f"{self._source} was decoded a moment ago, but can no longer be ({error}). It was "
                "likely changed meanwhile: score it again."
            ) from None
        if block is None:
            return False
        self._block = block
        return True
