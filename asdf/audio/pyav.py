"""FFmpeg, through PyAV, for formats that libsndfile lacks: mp4, m4a, aac, webm and others.

Invariant: only the named file is read. FFmpeg also supports playlists, which may name any other
file or address, so it gets an open file, a list of allowed containers, and no protocol.

A decoded track is read like a sound file (`DecodedTrack`). One that is too long for memory is
decoded again: the samples are those that `decode` would have returned, but memory holds only the
requested part and a frame of the codec, even if a small file decodes to many hours.
"""

from __future__ import annotations

import errno
import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from asdf.audio.channels import Relation, compare_samples, cut_blocks, is_silent, recall, remember
from asdf.audio.recording_sources import FileBytes, Source, missing_end
from asdf.errors import AsdfError

CONTAINERS = (
    "mov,matroska,webm,aac,asf,avi,flv,mpegts,mpeg,amr,ac3,eac3,wav,w64,mp3,ogg,aiff,caf,wv,tta,"
    "ape,tak,mpc,mpc8,dts,dtshd,mlp,truehd,loas,oma"
)
"""Containers to try if libsndfile does not support a file: those that refer to no other file. For
FLAC, see `decode_flac`."""

# Containers whose files state the duration, instead of FFmpeg estimating it.
_STATES_DURATION = ("mov", "wav", "aiff", "caf", "wv", "tta", "ape", "tak", "mpc8")

# Containers of lossless codecs, whose frames have checksums; FFmpeg checks them on request only.
_HAS_CHECKSUMS = ("wv", "tta", "tak", "ape")

# The first bytes of files that are not opened, for messages.
_NOT_OPENED = {
    b"#EXTM3U": "a playlist",
    b"ffconcat": "a list of files to join",
    b".RMF": "RealMedia",
    b"\x06\x0e\x2b\x34": "MXF",
}

# Encoders pad the ends by up to two frames, which the stated duration may include.
_PADDING_S = 0.25

# Full scale of integer samples, and the value that means zero.
_SCALES = {"u1": (128.0, 128), "i2": (2.0**15, 0), "i4": (2.0**31, 0), "i8": (2.0**63, 0)}

_READ_AT_ONCE = 2**16

# Position of the sum in a FLAC file that begins with its magic bytes.
_FLAC_MD5 = slice(26, 42)


class NotDecoded(Exception):
    """The reason why there are no samples."""


@dataclass(frozen=True)
class Decoded:
    """A whole sound track: samples (frames, channels) in the type of its codec, at `rate` Hz.

    Attributes:
        dropped: Number of decoded frames that are not among the samples; see `decode`.
        stated_s: Duration stated in the file, in seconds; None if it states none.
        missing_end: Description of the part missing at its end, by its container; '' for none.
        track: Number of the track, from 1.
        tracks: Number of sound tracks of the file.
    """

    samples: np.ndarray
    rate: int
    dropped: int = 0
    stated_s: float | None = None
    missing_end: str = ""
    track: int = 1
    tracks: int = 1

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


def decode(
    source: Source,
    max_bytes: int | None = None,
    containers: str = CONTAINERS,
    track: int | None = None,
) -> Decoded:
    """Decode a sound track of a file from its start to its end.

    Args:
        max_bytes: Maximum size of the samples in bytes. Samples of a longer track are only counted
            as `dropped`, since a small file may hold many hours.
        track: Number of the track, from 1; None for the default one of players.

    Raises:
        NotDecoded: the file has another container, has no sound or is damaged.
        AsdfError: it is longer than its limits allow.
    """
    held: list[np.ndarray] = []
    held_bytes = frames = dropped = 0
    formats = set()
    with _opened(source, containers, track) as (container, stream):
        tracks = list(container.streams.audio)
        track = tracks.index(stream) + 1
        for frame in container.decode(stream):
            block = _read_frame(frame, stream.codec_context.channels)
            formats.add((frame.sample_rate, block.shape[1]))
            held.append(block)
            frames += len(block)
            held_bytes += block.nbytes
            if max_bytes is not None and held_bytes > max_bytes:
                held, dropped = [block[:0]], frames
            # The decoded sound may differ from the header.
            source.limits.check_seconds(source, frames / frame.sample_rate)
        stated_s = None
        if container.format.name.startswith(_STATES_DURATION) and stream.duration is not None:
            stated_s = float(stream.duration * stream.time_base)
    if not held:
        raise NotDecoded("nothing in it can be decoded")
    if len(formats) > 1:
        raise NotDecoded("its sampling rate or its number of channels changes within it")
    rate, _ = formats.pop()
    with source.open_file() as file:
        missing = missing_end(FileBytes(file))
    return Decoded(np.concatenate(held), rate, dropped, stated_s, missing, track, len(tracks))


def decode_track(source: Source, max_bytes: int, track: int | None) -> Decoded:
    """Decode a track as `decode`; remember of a file with several whether they are the same sound.

    Args:
        track: Number of the track, from 1; None for the first that is not silent, beginning with
            the default one of players.

    Raises:
        NotDecoded: as in `decode`; without `track`, for any of the tracks.
    """
    found = recall(source, "track")
    if track is None and found is not None:
        track = found.heard[0]
    first = decode(source, max_bytes, track=track)
    if track is not None or first.tracks == 1:
        return first
    chosen = first
    heard: list[int] = []
    why = ""
    for track in sorted(range(1, first.tracks + 1), key=lambda number: number != first.track):
        try:
            decoded = first
            if track != first.track:
                decoded = decode(source, max_bytes, track=track)
        except NotDecoded as error:
            choice = f"#track={first.track} behind its path chooses another"
            raise NotDecoded(f"sound track {track}: {error}; {choice}") from None
        if not decoded.dropped and is_silent(as_float(decoded.samples)):
            continue
        if heard:
            why = why or _compare_tracks(chosen, decoded)
        else:
            chosen = decoded
        heard.append(track)
    remember(source, "track", Relation(tuple(heard) or (first.track,), why))
    return chosen


def _compare_tracks(one: Decoded, other: Decoded) -> str:
    """Return how two tracks differ; '' if they are the same sound."""
    names = f"sound tracks {one.track} and {other.track}"
    if one.rate != other.rate or abs(one.frames - other.frames) > one.rate * _PADDING_S:
        return f"{names} have other rates or lengths"
    if one.dropped or other.dropped:
        return f"{names} are too long to be compared"
    length = min(one.frames, other.frames)
    means = [as_float(each.samples[:length]).mean(axis=1) for each in (one, other)]
    why = compare_samples(np.stack(means, axis=1), one.rate, needs_speech=False).why
    return f"{names} are not the same sound" if why else ""


def decode_blocks(source: Source, track: int) -> Generator[np.ndarray]:
    """Yield the decoded samples as blocks of (frames, channels) float32, on demand.

    Raises:
        NotDecoded: as in `decode`.
    """
    with _opened(source, CONTAINERS, track) as (container, stream):
        for frame in container.decode(stream):
            yield as_float(_read_frame(frame, stream.codec_context.channels))


def decode_flac(source: Source, frames: int) -> np.ndarray | None:
    """Decode a 16-bit FLAC file that libsndfile cannot: (frames, channels) float32 in [-1, 1).

    libsndfile 1.2.2 cannot decode more than a third of the ASVspoof 2021 recordings although they
    are intact. FFmpeg decodes damaged frames without an error, so the result is None if the samples
    do not have the length and the MD5 sum in the file's header.
    """
    try:
        samples = decode(source, containers="flac").samples
    except NotDecoded:
        return None
    with source.open_file() as file:
        header = file.read(_FLAC_MD5.stop)
    if samples.dtype != np.int16 or len(samples) != frames or not header.startswith(b"fLaC"):
        return None
    # The sum is over interleaved channels, the memory order of (frames, channels).
    is_whole = hashlib.md5(samples.astype("<i2").tobytes()).digest() == header[_FLAC_MD5]
    return as_float(samples) if is_whole else None


def count_samples(source: Source, rate: int) -> int | None:
    """Return the samples at `rate` Hz of all packets in a file, whatever its header states.

    Nothing is decoded; None if FFmpeg cannot read the file.
    """
    try:
        with _opened(source, f"{CONTAINERS},flac") as (container, stream):
            ticks = sum(packet.duration or 0 for packet in container.demux(stream))
            samples: int = round(ticks * stream.time_base * rate)
            return samples
    except NotDecoded:
        return None


@contextmanager
def _opened(
    source: Source, containers: str, track: int | None = None
) -> Generator[tuple[Any, Any]]:
    """Open a file's container and a sound track for the block; errors become `NotDecoded`."""
    # On demand, since most recordings need no FFmpeg, whose libraries take a moment to load.
    import av

    options = {"format_whitelist": containers, "protocol_whitelist": "none"}
    # Tags, which nobody reads here, may be in any encoding.
    how: Any = {"options": options, "metadata_errors": "replace"}
    is_open = False
    try:
        with source.open_file() as file, av.open(file, **how) as container:
            is_open = True
            if not container.streams.audio:
                raise NotDecoded("it contains no audio")
            tracks = list(container.streams.audio)
            if track is not None and track > len(tracks):
                raise AsdfError(
                    f"{source}: the sound tracks of its recording are 1 to {len(tracks)}."
                )
            # Of the default tracks, or else of all, the first one.
            by_default = sorted(tracks, key=lambda each: not int(each.disposition) & 1)
            stream = by_default[0] if track is None else tracks[track - 1]
            if container.format.name in _HAS_CHECKSUMS:
                stream.codec_context.options = {"err_detect": "crccheck+explode"}
            yield container, stream
    except (av.FFmpegError, OSError) as error:
        reason = error.strerror or str(error)
        with source.open_file() as file:
            head = file.read(16)
        names = (name for start, name in _NOT_OPENED.items() if head.startswith(start))
        container_name = next(names, "")
        # FFmpeg's answer to a container that is not among the allowed ones.
        if not is_open and error.errno == errno.EINVAL and not container_name:
            container_name = PurePath(source.name).suffix or "unknown"
        if container_name:
            reason = f"ASDF does not open this container, {container_name}"
        raise NotDecoded(reason) from None


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
    # A packed frame has the shape (1, frames * channels), with interleaved channels.
    return array.T if frame.format.is_planar else array.reshape(-1, channels)


class DecodedTrack:
    """The part of `soundfile.SoundFile`'s interface that readers use, for reading forwards.

    Attributes:
        frames, samplerate, channels: Properties as in a sound file.
    """

    format = "FFMPEG"
    subtype = "FLOAT"
    extra_info = ""

    def __init__(self, source: Source, decoded: Decoded) -> None:
        """Read a decoded track from memory, or decode it again if it was only counted."""
        self.frames = decoded.frames
        self.samplerate = decoded.rate
        self.channels = decoded.samples.shape[1]
        self._source = source
        # Converted while they are read, so that no copy of all is held beside those.
        held = (as_float(samples) for samples in cut_blocks(decoded.samples, _READ_AT_ONCE))
        self._blocks = decode_blocks(source, decoded.track) if decoded.dropped else held
        self._block = np.zeros((0, self.channels), np.float32)
        self._position = 0

    def __enter__(self) -> DecodedTrack:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file being decoded."""
        self._blocks.close()

    def seek(self, frame: int) -> None:
        """Move to a later frame."""
        skip(self, frame - self._position)

    def read(self, frames: int = -1, dtype: str = "float32", always_2d: bool = True) -> np.ndarray:
        """Read up to `frames`: (frames, channels) float32.

        Raises:
            AsdfError: the file has changed meanwhile and cannot be decoded.
        """
        remaining = self.frames - self._position
        count = remaining if frames < 0 else min(frames, remaining)
        samples = np.empty((count, self.channels), np.float32)
        done = 0
        while done < count:
            if not len(self._block):
                try:
                    # An empty block is not the end.
                    self._block = next(filter(len, self._blocks), self._block)
                except NotDecoded as error:
                    raise AsdfError(
                        f"{self._source} was decoded a moment ago, but can no longer be ({error}). "
                        "It was likely changed meanwhile: score it again."
                    ) from None
            part = self._block[: count - done]
            if not len(part):
                break
            samples[done : done + len(part)] = part
            self._block = self._block[len(part) :]
            done += len(part)
        self._position += done
        return samples[:done]


def skip(file: Any, frames: int) -> None:
    """Decode frames of an open recording that cannot seek exactly, and drop them."""
    while frames > 0:
        passed = len(file.read(min(frames, _READ_AT_ONCE), dtype="float32", always_2d=True))
        if not passed:
            return
        frames -= passed
