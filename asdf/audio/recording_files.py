"""Opening of recordings, and of parts of them, after checks of their headers and ends.

Invariant: an opened file is an ordinary file that states a length, is not known to be truncated,
and has a plausible sampling rate. libsndfile opens what it can; PyAV decodes the rest
(`asdf.audio.pyav`): into memory, or while reading if that would be large. The frames of a part are
those of the whole recording.
"""

from __future__ import annotations

import errno
import io
import re
from pathlib import Path
from typing import TypeAlias

import numpy as np
import soundfile

from asdf.audio import pyav
from asdf.audio.pyav import DecodedTrack, skip
from asdf.audio.recording_sources import (
    PLACEHOLDER_BYTES,
    AnySource,
    FileBytes,
    Source,
    end_of_samples,
    missing_end,
    sound_after,
)
from asdf.errors import AsdfError
from asdf.places import Part, find_container, near_name, not_ordinary, split_part
from asdf.text import from_here, is_address

# libsndfile's number of frames for a FLAC header that states none.
_UNKNOWN_FRAMES = 2**63 - 1

# libsndfile shortens truncated WAV, AIFF and AU files without an error; its log states both sizes,
# in bytes.
_SHORTENED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)

# Truncation of these is found elsewhere, so libsndfile's log, a 16 kB buffer, is not read.
_CHECKED_BY_DECODING = {"FLAC", "OGG", "MP3"}

# Of these, libsndfile reads what there is.
_CHECKED_HERE = {"OGG", "RF64", "W64", "CAF"}

# FFmpeg counts the samples of these: up to so many more than libsndfile reads are an encoder's
# padding: four frames of an MP3, a packet of Opus or Vorbis.
_PADDING = {"FLAC": 0, "MP3": 4 * 1152, "OGG": 1600}

# Maximum length of a frame of an MP3 in bytes; encoders state the length in the first one.
_MP3_FRAME = 1441
_MP3_STATES = (b"Xing", b"Info", b"VBRI")

# Maximum size of samples decoded by PyAV in memory, 6 minutes of stereo at 44.1 kHz; longer ones
# are decoded again while they are read.
_MAX_HELD = 2**27
# Copies of samples in memory: blocks, joined, as float32, and those that are read.
_COPIES = 4

_ESTIMATED = "it estimates the length of an MP3 that states none"
_UNSTATED = "its header, likely written to a pipe, states no samples"
_CHAINED = "it reads only the first of several consecutive streams"
_OGG_ADVICE = (
    " If it was recorded from a stream that never ended, "
    "`ffmpeg -i OLD.ogg -c copy NEW.ogg` ends it."
)

# A rate outside this range, in Hz, is that of a damaged header.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000


# In these formats, seeking does not give exactly the samples of decoding from the start.
INEXACT_SEEK = {"VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"}

# A part cut by times at another sampling rate may end a frame or two late.
_LATE_S = 0.01


class RecordingPart:
    """The part of `soundfile.SoundFile`'s interface that readers use, for reading forwards.

    Attributes:
        whole: Recording that contains the part.
        first: First frame of the part in the recording.
        channel: Channel of the recording; None for all channels.
    """

    def __init__(
        self, whole: soundfile.SoundFile | DecodedTrack, part: Part, source: Source
    ) -> None:
        """Store an open recording, which is closed with its part.

        Raises:
            AsdfError: the recording ends before the part, or lacks the channel.
        """
        self.whole = whole
        self.first = part.first_frame(whole.samplerate)
        self.channel = part.channel
        self.frames = part.frames(whole.samplerate, whole.frames)
        self.samplerate: int = whole.samplerate
        self.channels: int = whole.channels
        if part.channel is not None:
            self.channels = 1
        self.format: str = whole.format
        self.subtype: str = whole.subtype
        self.extra_info: str = ""
        self._position: int | None = None
        seconds = whole.frames / whole.samplerate
        problem = ""
        if not self.frames or (part.stop is not None and float(part.stop) > seconds + _LATE_S):
            problem = (
                f"is not part of its recording, which is {seconds:.3f} s long. Make the list "
                "again, or take it off the list."
            )
        elif part.channel is not None and part.channel >= whole.channels:
            problem = (
                f"names no channel: the channels of its recording are 0 to {whole.channels - 1}."
            )
        if problem:
            whole.close()
            raise AsdfError(f"{source} {problem}")

    def __enter__(self) -> RecordingPart:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the recording."""
        self.whole.close()

    def chosen(self, samples: np.ndarray) -> np.ndarray:
        """Select the part's channel from (frames, all channels): (frames, channels)."""
        if self.channel is None:
            return samples
        return samples[:, self.channel : self.channel + 1]

    def read(self, frames: int = -1, dtype: str = "float32", always_2d: bool = True) -> np.ndarray:
        """Read up to `frames`: (frames, channels)."""
        if self._position is None:
            self._position = 0
            if self.whole.subtype in INEXACT_SEEK:
                skip(self.whole, self.first)
            else:
                self.whole.seek(self.first)
        remaining = self.frames - self._position
        count = remaining if frames < 0 else min(frames, remaining)
        samples = self.chosen(self.whole.read(count, dtype=dtype, always_2d=True))
        self._position += len(samples)
        return samples


class _StreamedFlac(soundfile.SoundFile):  # type: ignore[misc]
    """A FLAC whose header states no length, such as one from a pipe, decoded once to count it."""

    frames = 0

    def __init__(self, source: Source) -> None:
        """Open it; raises an AsdfError if it is damaged or cut off."""
        with soundfile.SoundFile(source.open()) as file:
            # soundfile would seek after each read.
            file.seekable = lambda: False
            try:
                while count := len(file.read(2**12, dtype="float32", always_2d=True)):
                    self.frames += count
                    source.limits.check_seconds(source, self.frames / file.samplerate)
            except soundfile.LibsndfileError:
                detail = f"it is damaged after {self.frames:,} samples"
                raise AsdfError(f"{source} {cut_off(detail)}") from None
        super().__init__(source.open())


OpenRecording: TypeAlias = soundfile.SoundFile | DecodedTrack | RecordingPart
"""An open recording, or an open part of one."""

_last_opened: Source | None = None


def open_recording(path: AnySource, *, is_measured: bool = False) -> OpenRecording:
    """Open a recording, or a part of one, without decoding its samples.

    The caller closes it.

    Args:
        is_measured: Whether its length is known, so that sound after the stated end of a FLAC, for
            which all of it must be read, was looked for already.

    Raises:
        AsdfError: it is missing, not audio, without samples, truncated, longer than its limits
            allow, or has a damaged header; or the part is not in it.
    """
    global _last_opened
    _last_opened = source = Source.of(path)
    part = source.part
    if source.is_file and "#" in source.name:
        _, part = split_part(source.name)
    file = _open_whole(source, is_measured or part is not None, part.track if part else None)
    opened: OpenRecording = file if part is None else RecordingPart(file, part, source)
    source.limits.check_seconds(source, opened.frames / opened.samplerate)
    return opened


def _open_whole(
    source: Source, is_measured: bool, track: int | None
) -> soundfile.SoundFile | DecodedTrack:
    misread = problem = ""
    try:
        # By descriptor, since a name may not be text, which libsndfile's binding requires.
        opened = source.open()
        file = soundfile.SoundFile(opened)
        content = FileBytes(opened)
        if file.frames == _UNKNOWN_FRAMES:
            file.close()
            file = _StreamedFlac(source)
        elif file.format != "FLAC" or not is_measured:
            misread, problem = _inspect(file, content, source)
        end = end_of_samples(content) if file.format == "W64" else None
        if end is not None and end < content.size:
            # libsndfile reads chunks after the samples as samples.
            before = content.read(0, end)
            file.close()
            file = soundfile.SoundFile(io.BytesIO(before))
        if not misread and track not in (None, 1):
            file.close()
            raise AsdfError(f"{source}: its recording has one sound track, 1. Correct the track.")
    except soundfile.LibsndfileError as error:
        file = _open_with_pyav(source, error.error_string.strip(" ."), track)
    except (OSError, ValueError) as error:
        raise AsdfError(_why_not_opened(source.name, error)) from error
    if misread:
        file.close()
        file = _open_with_pyav(source, misread, track)
    problem = _find_problem(file) or problem
    if problem:
        file.close()
        raise AsdfError(f"{source} {problem}")
    # soundfile seeks to its current position after each read, and after a seek MP3 and Ogg decode
    # to other samples. It does not do so if it believes that the file cannot seek; `seek` itself
    # still works.
    file.seekable = lambda: False
    return file


def last_opened() -> Source | None:
    """Return what this process last started to open, for the message about a hanging read."""
    return _last_opened


def _inspect(file: soundfile.SoundFile, content: FileBytes, source: Source) -> tuple[str, str]:
    """Return why libsndfile misreads a file, and a message about its end; '' for none."""
    unheard = sound_after(content)
    if not file.frames and unheard and content.read(0, 4) == b"RIFF":
        return _UNSTATED, ""
    if not unheard and file.format in _PADDING:
        counted = pyav.count_samples(source, file.samplerate)
        more = 0 if counted is None else counted - file.frames
        if file.format == "MP3" and more < 0:
            head = content.read(0, 10)
            start = 0
            if head.startswith(b"ID3"):
                for byte in head[6:]:
                    start = start << 7 | byte & 0x7F
                start += len(head)
            first = content.read(start, _MP3_FRAME)
            if not any(mark in first for mark in _MP3_STATES):
                return _ESTIMATED, ""
        is_more = more > _PADDING[file.format]
        # PyAV, which then reads it, checks for a missing end itself.
        if file.format == "OGG" and is_more:
            return _CHAINED, ""
        if is_more:
            unheard = f"{file.frames} samples are promised by the header, {counted} are there"
    missing = missing_end(content) if file.format in _CHECKED_HERE else ""
    if missing:
        return "", cut_off(missing, _OGG_ADVICE if file.format == "OGG" else "")
    return "", _heard_in_part(unheard) if unheard else ""


def _open_with_pyav(source: Source, reason: str, track: int | None) -> DecodedTrack:
    """Decode a file with PyAV.

    Args:
        reason: Reason why libsndfile did not.
        track: Sound track to decode, from 1; None for the first in the order of players that is not
            silent.
    """
    if not source.size:
        raise AsdfError(
            f"{source} is empty (0 bytes). A copy was likely interrupted: copy or download it "
            "again."
        )
    if Path(source.name).name.startswith("._"):
        raise AsdfError(
            f"{source} is not audio, but likely a file that macOS leaves next to each real one: "
            "take it off the list."
        )
    # Bytes of decoded samples in memory at once.
    memory = source.limits.memory
    max_bytes = _MAX_HELD if memory is None else min(_MAX_HELD, memory // _COPIES)
    try:
        decoded = pyav.decode_track(source, max_bytes, track)
    except pyav.NotDecoded as error:
        raise AsdfError(
            f"{source} is not audio that libsndfile can read ({reason}), nor FFmpeg ({error}): "
            "convert it to FLAC or WAV, or take it off the list."
        ) from None
    if decoded.cut_off:
        raise AsdfError(f"{source} {cut_off(decoded.cut_off)}")
    # FFmpeg also reads only as far as the header says; without a length it reads everything.
    if reason != _UNSTATED:
        with source.open_file() as opened:
            unheard = sound_after(FileBytes(opened))
        if unheard:
            raise AsdfError(f"{source} {_heard_in_part(unheard)}")
    return DecodedTrack(source, decoded)


def _find_problem(file: soundfile.SoundFile | DecodedTrack) -> str:
    """Return the problem shown by a file's header, as a message; '' for none."""
    if file.frames == 0:
        return "holds no samples: make the file again, or take it off the list."
    if not _LOWEST_RATE <= file.samplerate <= _HIGHEST_RATE:
        return (
            f"states a sampling rate of {file.samplerate:,} Hz, likely in a damaged header: copy "
            "or download it again, or take it off the list."
        )
    if file.format in _CHECKED_BY_DECODING:
        return ""
    shortened = _SHORTENED.search(file.extra_info)
    if shortened is None:
        return ""
    promised, present = map(int, shortened.groups())
    if not present < promised < PLACEHOLDER_BYTES:
        return ""
    return cut_off(f"{promised} bytes of samples are promised by the header, {present} are there")


def cut_off(detail: str, advice: str = "") -> str:
    """Return the message, without the path, for a recording that cannot be decoded to its end."""
    return (
        f"cannot be decoded to its end ({detail}), likely cut off or damaged by a copy. Copy or "
        f"download it again, or take it off the list.{advice}"
    )


def _heard_in_part(detail: str) -> str:
    """Return the message, without the path, for a recording with sound after its stated end."""
    return (
        f"would be heard in part only ({detail}). Decode it with a program that plays all of it "
        "and write the result to a new file, or take it off the list."
    )


def _why_not_opened(name: str, error: OSError | ValueError) -> str:
    path = Path(name)
    if isinstance(error, ValueError):
        return f"{str(path)!r} is not a path: {error}. Correct the list."
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    is_folder = isinstance(error, IsADirectoryError)
    if is_missing:
        place = find_container(path)
        is_folder = place is not None and place.is_folder()
    if is_folder:
        return f"{path} is a folder, not a recording. Is a line of the list cut off?"
    if is_missing:
        if is_address(name):
            return f"{name} is an address, not a file. Download it, or mount the store."
        return (
            f"there is no file {path}{from_here(path)}.{near_name(path)} Check the path, and the "
            "folder that the list is relative to (paths.database_folder, --folder)."
        )
    if isinstance(error, PermissionError):
        return f"{path} is not readable by this user: `chmod a+r` it."
    if error.errno == errno.ENXIO:
        return not_ordinary(path)
    reason = error.strerror or error
    return f"{path} cannot be opened: {reason}. Is its disk or file server available?"
