"""Recordings opened by whatever decodes them, or refused for what their headers and ends show.

Invariant: a file that is opened here is an ordinary one that states a length, is not known to be
cut off, and has a sampling rate that speech may have. libsndfile opens what it can; PyAV, where it
is installed, decodes the rest (`asdf.audio.pyav`), which is noted (`asdf.audio.fallbacks`): into
memory, or while it is read where that would be large.
"""

from __future__ import annotations

import errno
import io
import re
from pathlib import Path
from typing import NamedTuple, TypeAlias

import soundfile

from asdf.archives import find_folder, not_ordinary, split_part
from asdf.audio import fallbacks, file_ends, flac, mp3, pyav
from asdf.audio.ogg import is_chained, missing_end
from asdf.audio.pyav import LongTrack
from asdf.audio.recording_parts import RecordingPart
from asdf.audio.recording_sources import (
    AnySource,
    FileBytes,
    FirstBytes,
    limits_of,
    open_file,
    open_source,
    path_of,
    size_of,
)
from asdf.errors import AsdfError
from asdf.remote import as_path

# libsndfile's frame count where a FLAC header states none.
_UNKNOWN_FRAMES = 2**63 - 1

# libsndfile shortens WAV, AIFF and AU files that end early without an error; its log has both
# sizes, in bytes.
_SHORTENED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)

# These show it elsewhere, so that libsndfile's log, a buffer of 16 kB, need not be read.
_CHECKED_BY_DECODING = {"FLAC", "OGG", "MP3"}

# Sizes from here on are placeholders of programs that wrote to a pipe and could not go back to fill
# them in.
_PLACEHOLDER_BYTES = 0x7FFFF000

# Of what PyAV decodes, 6 minutes of stereo at 44.1 kHz; what takes more is decoded again while it
# is read.
_MAX_HELD = 2**27
# Of samples that are held: blocks, joined, as float32, as a file, and read from it.
_COPIES = 5

_ESTIMATED = "it counts the tag of an MP3 that states no length as sound"
_UNSTATED = "its header, likely written to a pipe, states no samples"
_CHAINED = "it reads only the first of the streams that follow one another in it"
_OGG_ADVICE = (
    " If it was recorded from a stream that never ended, "
    "`ffmpeg -i OLD.ogg -c copy NEW.ogg` ends it."
)

# A rate outside of these, in Hz, is that of a damaged header: no one records speech at it.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000


OpenRecording: TypeAlias = soundfile.SoundFile | LongTrack | RecordingPart
"""A recording, or a part of one, as it is read."""

_last_opened: AnySource | None = None


class _Inspection(NamedTuple):
    """What a file's container shows that libsndfile does not; '' for nothing.

    Attributes:
        misread: Reason why libsndfile, which opens the file, reads it wrongly.
        missing_end: Part that is missing at its end.
        unheard: Sound in it that libsndfile would not read.
        end: Position behind the samples, where libsndfile would read on; None where it would not.
    """

    misread: str = ""
    missing_end: str = ""
    unheard: str = ""
    end: int | None = None


def open_recording(path: AnySource) -> OpenRecording:
    """Open a recording, or a part of one, with its samples still to be decoded.

    The caller closes it.

    Raises:
        AsdfError: it is missing, not audio, without samples, cut off, longer than its limits allow,
            or its header is damaged; or the part is not in it.
    """
    global _last_opened
    _last_opened = path
    file = _open_whole(path)
    name = path_of(path)
    part = None if name is None else split_part(name)[1]
    opened = file if part is None else RecordingPart(file, part, path)
    limits_of(path).check_seconds(path, opened.frames / opened.samplerate)
    return opened


def _open_whole(path: AnySource) -> soundfile.SoundFile | LongTrack:
    inspection = _Inspection()
    try:
        # By a descriptor, since a name need not be text, which libsndfile's binding cannot
        # pass on.
        opened = open_source(path)
        file = soundfile.SoundFile(opened)
        inspection = _inspect_container(file, FileBytes(opened), path)
        if inspection.end is not None:
            file.close()
            file = soundfile.SoundFile(FirstBytes(open_file(path), inspection.end))
    except soundfile.LibsndfileError as error:
        file = _open_with_pyav(path, error.error_string.strip(" ."))
    except (OSError, ValueError) as error:
        raise AsdfError(_why_not_opened(as_path(str(path)), error)) from error
    if inspection.misread:
        file.close()
        file = _open_with_pyav(path, inspection.misread)
    problem = _find_problem(file)
    if not problem and inspection.missing_end:
        problem = cut_off(inspection.missing_end, _OGG_ADVICE)
    if not problem and inspection.unheard:
        problem = _heard_in_part(inspection.unheard)
    if problem:
        file.close()
        raise AsdfError(f"{path} {problem}")
    # soundfile seeks to where it is after each read, and after a seek MP3 and Ogg decode to other
    # samples. A file that it takes for one without seeks it reads on; `seek` itself works as
    # before.
    file.seekable = lambda: False
    return file


def last_opened() -> AnySource | None:
    """Return what this process began to open last, for the message on a read that hangs."""
    return _last_opened


def _inspect_container(
    file: soundfile.SoundFile,
    opened: FileBytes,
    path: AnySource,
) -> _Inspection:
    """Look at what libsndfile does not in a file of its format."""
    if file.format == "FLAC":
        return _Inspection(unheard=flac.describe_unheard(opened))
    if file.format == "OGG":
        with open_file(path) as content:
            # PyAV, which then reads it, looks for a missing end itself.
            if is_chained(content):
                return _Inspection(misread=_CHAINED)
            return _Inspection(missing_end=missing_end(content))
    if file.format == "MP3":
        with open_file(path) as content:
            if mp3.is_estimated(content):
                return _Inspection(misread=_ESTIMATED)
        return _Inspection(unheard=mp3.describe_unheard(opened, file.frames))
    if not file.frames and file_ends.states_no_samples(opened):
        return _Inspection(misread=_UNSTATED)
    unheard = file_ends.describe_unheard(opened)
    return _Inspection(unheard=unheard, end=file_ends.end_to_heed(opened))


def _open_with_pyav(path: AnySource, reason: str) -> soundfile.SoundFile | LongTrack:
    """Decode a file with PyAV, and open the samples as libsndfile would have opened the file.

    Args:
        reason: Reason why libsndfile did not.
    """
    if not size_of(path):
        raise AsdfError(
            f"{path} is empty (0 bytes). A copy was likely interrupted: copy or download it again."
        )
    if Path(str(path)).name.startswith("._"):
        raise AsdfError(
            f"{path} is not audio. It is likely a file that macOS leaves next to each real file: "
            "take it off the list."
        )
    # Bytes of decoded samples that are held at once.
    memory = limits_of(path).memory
    max_bytes = _MAX_HELD if memory is None else min(_MAX_HELD, memory // _COPIES)
    try:
        decoded = pyav.decode(path, max_bytes=max_bytes)
    except pyav.NotDecoded as error:
        raise AsdfError(_why_not_decoded(path, reason, error)) from None
    if decoded.cut_off:
        raise AsdfError(f"{path} {cut_off(decoded.cut_off)}")
    # FFmpeg too reads as far as the header says; without a length it reads all.
    if reason != _UNSTATED:
        with open_file(path) as opened:
            unheard = file_ends.describe_unheard(FileBytes(opened))
        if unheard:
            raise AsdfError(f"{path} {_heard_in_part(unheard)}")
    file_path = path_of(path)
    # A service would note the names of recordings that no one asks for again.
    if file_path is not None:
        fallbacks.note(file_path)
    if decoded.dropped:
        return LongTrack(path, decoded)
    # As a file in memory, so that readers know a single kind of recording. To write it and read it
    # again takes a tenth of the time of decoding, and changes no bit of float32.
    content = io.BytesIO()
    soundfile.write(
        content, pyav.as_float(decoded.samples), decoded.rate, format="W64", subtype="FLOAT"
    )
    content.seek(0)
    return soundfile.SoundFile(content)


def _find_problem(file: soundfile.SoundFile | LongTrack) -> str:
    """Return what is wrong with a file by its header, as a message; '' for nothing."""
    if file.frames == 0:
        return (
            "holds no samples. The program that wrote it likely stopped before the end: "
            "make the file again, or take it off the list."
        )
    if file.frames == _UNKNOWN_FRAMES:
        return (
            "does not say in its header how long it is. It was likely written to a pipe: "
            "write it again to a file (flac or ffmpeg do), or take it off the list."
        )
    if not _LOWEST_RATE <= file.samplerate <= _HIGHEST_RATE:
        return (
            f"states a sampling rate of {file.samplerate:,} Hz. Its header is likely damaged: "
            "copy or download it again, or take it off the list."
        )
    if file.format in _CHECKED_BY_DECODING:
        return ""
    shortened = _SHORTENED.search(file.extra_info)
    if shortened is None:
        return ""
    promised, present = map(int, shortened.groups())
    if not present < promised < _PLACEHOLDER_BYTES:
        return ""
    return cut_off(f"{promised} bytes of samples are promised by the header, {present} are there")


def cut_off(detail: str, advice: str = "") -> str:
    """Return the message, to follow the path, on a recording that does not decode to its end."""
    return (
        f"cannot be decoded to its end ({detail}). It was likely cut off or damaged by a copy. "
        f"Copy or download it again, or take it off the list.{advice}"
    )


def _heard_in_part(detail: str) -> str:
    """Return the message, to follow the path, on a recording that goes on behind its stated end."""
    return (
        f"would be heard in part only ({detail}). Its header was likely damaged or changed, or "
        "several files were joined to one. Decode it with a program that plays all of it and write "
        "that to a new file, or take it off the list."
    )


def _why_not_opened(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return (
            f"{str(path)!r} is not a path: {error}. A line of the list is likely damaged: correct "
            "it."
        )
    is_missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    is_folder = isinstance(error, IsADirectoryError)
    if is_missing:
        inside = find_folder(path)
        is_folder = inside is not None and inside.archive.is_folder(inside.name)
    if is_folder:
        return (
            f"{path} is a folder, not a recording. A line of the list is likely cut off: "
            "correct it."
        )
    if is_missing:
        return (
            f"there is no file {path}. The list and the folder of the corpus likely do not belong "
            "together: check paths.database_folder and the list."
        )
    if isinstance(error, PermissionError):
        return (
            f"{path} may not be read by this user. Its permissions are likely wrong: "
            "`chmod a+r` it."
        )
    if error.errno == errno.ENXIO:
        return not_ordinary(path)
    reason = error.strerror or error
    return f"{path} cannot be opened: {reason}. Is its disk or file server at work?"


def _why_not_decoded(path: AnySource, reason: str, by_ffmpeg: pyav.NotDecoded) -> str:
    if by_ffmpeg.missing:
        return (
            f"{path} is not audio that libsndfile can read ({reason}). If other programs play it "
            "(mp4, m4a, aac, webm), `pip install av`: ASDF then decodes it with FFmpeg. Else it is "
            "likely damaged: leave it out."
        )
    return (
        f"{path} is not audio that libsndfile can read ({reason}), nor FFmpeg ({by_ffmpeg}). "
        "It is likely damaged or of another format: convert it to FLAC or WAV, or take it off the "
        "list."
    )
