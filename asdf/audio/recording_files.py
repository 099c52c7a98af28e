"""Opening of recordings with a suitable decoder, after checks of their headers and ends.

Invariant: an opened file is an ordinary file that states a length, is not known to be truncated,
and has a plausible sampling rate. libsndfile opens what it can; PyAV, if installed, decodes the
rest (`asdf.audio.pyav`), which is recorded (`asdf.audio.fallbacks`): into memory, or while reading
if that would be large.
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

# libsndfile's number of frames for a FLAC header that states none.
_UNKNOWN_FRAMES = 2**63 - 1

# libsndfile shortens truncated WAV, AIFF and AU files without an error; its log states both sizes,
# in bytes.
_SHORTENED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)

# Truncation of these is found elsewhere, so libsndfile's log, a 16 kB buffer, is not read.
_CHECKED_BY_DECODING = {"FLAC", "OGG", "MP3"}

# Sizes of at least this are placeholders of programs that wrote to a pipe and could not fill them
# in later.
_PLACEHOLDER_BYTES = 0x7FFFF000

# Maximum size of samples decoded by PyAV in memory, 6 minutes of stereo at 44.1 kHz; longer ones
# are decoded again while they are read.
_MAX_HELD = 2**27
# Copies of samples in memory: blocks, joined, as float32, as a file, and read from it.
_COPIES = 5

_ESTIMATED = "it counts the tag of an MP3 without a stated length as audio"
_UNSTATED = "its header, likely written to a pipe, states no samples"
_CHAINED = "it reads only the first of several consecutive streams"
_OGG_ADVICE = (
    " If it was recorded from a stream that never ended, "
    "`ffmpeg -i OLD.ogg -c copy NEW.ogg` ends it."
)

# A rate outside this range, in Hz, is that of a damaged header.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000


OpenRecording: TypeAlias = soundfile.SoundFile | LongTrack | RecordingPart
"""An open recording, or an open part of one."""

_last_opened: AnySource | None = None


class _Inspection(NamedTuple):
    """Findings about a file's container that libsndfile does not report; '' for none.

    Attributes:
        misread: Reason why libsndfile, which opens the file, reads it incorrectly.
        missing_end: Description of the part missing at its end.
        unheard: Description of sound in it that libsndfile would not read.
        end: Offset after the samples at which libsndfile must stop; None if it stops by itself.
    """

    misread: str = ""
    missing_end: str = ""
    unheard: str = ""
    end: int | None = None


def open_recording(path: AnySource) -> OpenRecording:
    """Open a recording, or a part of one, without decoding its samples.

    The caller closes it.

    Raises:
        AsdfError: it is missing, not audio, without samples, truncated, longer than its limits
            allow, or has a damaged header; or the part is not in it.
    """
    global _last_opened
    _last_opened = path
    file = _open_whole(path)
    name = path_of(path)
    opened: OpenRecording = file
    if name is not None and "#" in name:
        _, part = split_part(name)
        if part is not None:
            opened = RecordingPart(file, part, path)
    limits_of(path).check_seconds(path, opened.frames / opened.samplerate)
    return opened


def _open_whole(path: AnySource) -> soundfile.SoundFile | LongTrack:
    inspection = _Inspection()
    try:
        # By descriptor, since a name may not be text, which libsndfile's binding requires.
        opened = open_source(path)
        file = soundfile.SoundFile(opened)
        inspection = _inspect_container(file, FileBytes(opened), path)
        if inspection.end is not None:
            file.close()
            file = soundfile.SoundFile(FirstBytes(open_file(path), inspection.end))
    except soundfile.LibsndfileError as error:
        file = _open_with_pyav(path, error.error_string.strip(" ."))
    except (OSError, ValueError) as error:
        raise AsdfError(_why_not_opened(Path(str(path)), error)) from error
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
    # soundfile seeks to its current position after each read, and after a seek MP3 and Ogg decode
    # to other samples. It does not do so if it believes that the file cannot seek; `seek` itself
    # still works.
    file.seekable = lambda: False
    return file


def last_opened() -> AnySource | None:
    """Return what this process last started to open, for the message about a hanging read."""
    return _last_opened


def _inspect_container(
    file: soundfile.SoundFile,
    opened: FileBytes,
    path: AnySource,
) -> _Inspection:
    """Check the aspects of a container that libsndfile does not."""
    if file.format == "FLAC":
        return _Inspection(unheard=flac.describe_unheard(opened))
    if file.format == "OGG":
        with open_file(path) as content:
            # PyAV, which then reads it, checks for a missing end itself.
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
    """Decode a file with PyAV, and open the samples as if libsndfile had opened the file.

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
    # Bytes of decoded samples in memory at once.
    memory = limits_of(path).memory
    max_bytes = _MAX_HELD if memory is None else min(_MAX_HELD, memory // _COPIES)
    try:
        decoded = pyav.decode(path, max_bytes=max_bytes)
    except pyav.NotDecoded as error:
        raise AsdfError(_why_not_decoded(path, reason, error)) from None
    if decoded.cut_off:
        raise AsdfError(f"{path} {cut_off(decoded.cut_off)}")
    # FFmpeg also reads only as far as the header says; without a length it reads everything.
    if reason != _UNSTATED:
        with open_file(path) as opened:
            unheard = file_ends.describe_unheard(FileBytes(opened))
        if unheard:
            raise AsdfError(f"{path} {_heard_in_part(unheard)}")
    file_path = path_of(path)
    # A service would collect names of recordings that nobody asks for.
    if file_path is not None:
        fallbacks.note(file_path)
    if decoded.dropped:
        return LongTrack(path, decoded)
    # As a file in memory, so that readers handle a single kind of recording. Writing and reading it
    # takes a tenth of the decoding time, and preserves float32 exactly.
    content = io.BytesIO()
    soundfile.write(
        content, pyav.as_float(decoded.samples), decoded.rate, format="W64", subtype="FLOAT"
    )
    content.seek(0)
    return soundfile.SoundFile(content)


def _find_problem(file: soundfile.SoundFile | LongTrack) -> str:
    """Return the problem shown by a file's header, as a message; '' for none."""
    if file.frames == 0:
        return (
            "holds no samples. The program that wrote it likely stopped before the end: "
            "make the file again, or take it off the list."
        )
    if file.frames == _UNKNOWN_FRAMES:
        return (
            "does not state its length in its header. It was likely written to a pipe: write it "
            "again to a file (flac or ffmpeg do), or take it off the list."
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
    """Return the message, without the path, for a recording that cannot be decoded to its end."""
    return (
        f"cannot be decoded to its end ({detail}). It was likely cut off or damaged by a copy. "
        f"Copy or download it again, or take it off the list.{advice}"
    )


def _heard_in_part(detail: str) -> str:
    """Return the message, without the path, for a recording with sound after its stated end."""
    return (
        f"would be heard in part only ({detail}). Its header was likely damaged or changed, or "
        "several files were joined into one. Decode it with a program that plays all of it and "
        "write the result to a new file, or take it off the list."
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
            f"{path} is not readable by this user. Its permissions are likely wrong: `chmod a+r` "
            "it."
        )
    if error.errno == errno.ENXIO:
        return not_ordinary(path)
    reason = error.strerror or error
    return f"{path} cannot be opened: {reason}. Is its disk or file server available?"


def _why_not_decoded(path: AnySource, reason: str, by_ffmpeg: pyav.NotDecoded) -> str:
    if by_ffmpeg.missing:
        return (
            f"{path} is not audio that libsndfile can read ({reason}). If other programs play it "
            "(mp4, m4a, aac, webm), `pip install av`: ASDF then decodes it with FFmpeg. Otherwise "
            "it is likely damaged: leave it out."
        )
    return (
        f"{path} is not audio that libsndfile can read ({reason}), nor FFmpeg ({by_ffmpeg}). "
        "It is likely damaged or of another format: convert it to FLAC or WAV, or take it off the "
        "list."
    )
