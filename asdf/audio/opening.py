"""Recordings opened by whatever decodes them, or refused for what their headers and ends show.

Invariant: a file that is opened here is an ordinary one that states a length, is not known to be
cut off, and has a sampling rate that speech may have. libsndfile opens what it can; PyAV, where it
is installed, decodes the rest (`asdf.audio.pyav`), whole and into memory, which is noted
(`asdf.audio.fallbacks`).
"""

from __future__ import annotations

import errno
import io
import os
import re
from pathlib import Path

import soundfile

from asdf.archives import file_size, find_folder, not_ordinary, open_file, open_source
from asdf.audio import fallbacks, pyav
from asdf.audio.mp3 import is_estimated
from asdf.audio.ogg import is_chained, missing_end
from asdf.errors import AsdfError

AnyPath = str | os.PathLike[str]

# libsndfile's frame count where a FLAC header states none.
_UNKNOWN_FRAMES = 2**63 - 1

# libsndfile shortens WAV, AIFF and AU files that end early without an error; its log tells, in
# bytes.
_SHORTENED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)

# Of these it shows elsewhere, so that libsndfile's log, a buffer of 16 kB, need not be asked for.
_CHECKED_BY_DECODING = {"FLAC", "OGG", "MP3"}

# Sizes from here on are placeholders of programs that wrote to a pipe and could not go back to fill
# them in.
_PLACEHOLDER_BYTES = 0x7FFFF000

_ESTIMATED = "it counts the tag of an MP3 that states no length as sound"
_CHAINED = "it reads only the first of the streams that follow one another in it"
_OGG_ADVICE = " If it was recorded from a stream that never ended, `ffmpeg -i OLD.ogg -c copy NEW.ogg` ends it."

# A rate outside of these, in Hz, is that of a damaged header: no one records speech at it.
_LOWEST_RATE, _HIGHEST_RATE = 1000, 1_000_000


def open_recording(path: AnyPath) -> soundfile.SoundFile:
    """A recording with its samples still to be decoded; the caller closes it.

    Raises:
        AsdfError: it is missing, not audio, without samples, cut off, or its header is damaged.
    """
    try:
        # By a descriptor, since a name may be no text at all, which libsndfile's binding cannot
        # pass on.
        file = soundfile.SoundFile(open_source(path))
    except soundfile.LibsndfileError as error:
        file = _open_with_pyav(Path(path), error.error_string.strip(" ."))
    except (OSError, ValueError) as error:
        raise AsdfError(_why_not_opened(Path(path), error)) from error
    missing = ""
    if file.format == "OGG":
        with open_file(path) as content:
            missing, chained = missing_end(content), is_chained(content)
        if chained:
            file.close()
            file, missing = _open_with_pyav(Path(path), _CHAINED), ""  # which looks for itself
    elif file.format == "MP3":
        with open_file(path) as content:
            estimated = is_estimated(content)
        if estimated:
            file.close()
            file = _open_with_pyav(Path(path), _ESTIMATED)
    problem = _header_problem(file) or (missing and cut_off(missing, _OGG_ADVICE))
    if problem:
        file.close()
        raise AsdfError(f"{path} {problem}")
    # soundfile seeks to where it is after each read, and after a seek MP3 and Ogg decode to other
    # samples. Of a file that it takes for one without seeks it reads on; `seek` itself works as
    # before.
    file.seekable = lambda: False
    return file


def _open_with_pyav(path: Path, reason: str) -> soundfile.SoundFile:
    """The file as libsndfile would have opened it; `reason` is why it did not."""
    if not file_size(path):
        raise AsdfError(
            f"{path} is empty (0 bytes). A copy was likely interrupted: copy or download it again."
        )
    if path.name.startswith("._"):
        raise AsdfError(
            f"{path} is not audio. It is likely a file that macOS leaves beside each real one: "
            "take it off the list."
        )
    try:
        decoded = pyav.decode(path)
    except pyav.NotDecoded as error:
        raise AsdfError(_why_not_decoded(path, reason, error)) from None
    if decoded.cut_off:
        raise AsdfError(f"{path} {cut_off(decoded.cut_off)}")
    fallbacks.note(path)
    content = io.BytesIO()
    soundfile.write(content, decoded.as_float(), decoded.rate, format="W64", subtype="FLOAT")
    content.seek(0)
    return soundfile.SoundFile(content)


def _header_problem(file: soundfile.SoundFile) -> str:
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
    shortened = None if file.format in _CHECKED_BY_DECODING else _SHORTENED.search(file.extra_info)
    if shortened:
        promised, found = map(int, shortened.groups())
        if found < promised < _PLACEHOLDER_BYTES:
            return cut_off(
                f"{promised} bytes of samples are promised by the header, {found} are there"
            )
    return ""


def cut_off(detail: str, advice: str = "") -> str:
    """What a message says of a recording, behind its path, that does not decode to its end."""
    return (
        f"cannot be decoded to its end ({detail}). It was likely cut off or damaged by a copy. "
        f"Copy or download it again, or take it off the list.{advice}"
    )


def _why_not_opened(path: Path, error: OSError | ValueError) -> str:
    if isinstance(error, ValueError):
        return (
            f"{str(path)!r} is no path: {error}. A line of the list is likely damaged: correct it."
        )
    missing = isinstance(error, FileNotFoundError | NotADirectoryError)
    if isinstance(error, IsADirectoryError) or (missing and _is_folder_of_archive(path)):
        return f"{path} is a folder, not a recording. A line of the list is likely cut off: correct it."
    if missing:
        return (
            f"there is no file {path}. The list and the folder of the corpus likely do not belong together: "
            "check paths.database_folder and the list."
        )
    if isinstance(error, PermissionError):
        return f"{path} may not be read by this user. Its permissions are likely wrong: `chmod a+r` it."
    if error.errno == errno.ENXIO:
        return not_ordinary(path)
    return (
        f"{path} cannot be opened: {error.strerror or error}. Is its disk or file server at work?"
    )


def _is_folder_of_archive(path: Path) -> bool:
    found = find_folder(path)
    return found is not None and found.archive.is_folder(found.name)


def _why_not_decoded(path: Path, reason: str, second: pyav.NotDecoded) -> str:
    if second.missing:
        return (
            f"{path} is not audio that libsndfile can read ({reason}). If other programs play it (mp4, m4a, aac, "
            "webm), `pip install av`: ASDF then decodes it with FFmpeg. Else it is likely damaged: leave it out."
        )
    return (
        f"{path} is not audio that libsndfile can read ({reason}), nor FFmpeg ({second}). "
        "It is likely damaged or of another format: convert it to FLAC or WAV, or take it off the list."
    )
