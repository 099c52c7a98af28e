"""Recordings as 16 kHz mono float32 waveforms.

Invariant: `read_audio` returns exactly the samples that were asked for, all finite, or raises. A recording that ends
early would otherwise be scored as a shorter one, and a NaN would spoil the batch that it shares.

libsndfile reads what it can; PyAV, where it is installed, the rest (`asdf.audio.pyav`), whole and into memory, which is
noted (`asdf.audio.fallbacks`). A path may go on into a tar (`asdf.audio.archives`).
"""

from __future__ import annotations

import io
import os
import re
from pathlib import Path

import numpy as np
import soundfile

from asdf.audio import fallbacks, pyav
from asdf.audio.archives import find_folder, find_member, known_member
from asdf.audio.flac import decode_flac
from asdf.audio.resampling import SAMPLE_RATE, resample, resampled_length, source_span
from asdf.errors import AsdfError

__all__ = ["SAMPLE_RATE", "audio_length", "read_audio"]

AnyPath = str | os.PathLike[str]

# A seek in these does not land on the same samples that decoding from the start gives.
_INEXACT_SEEK = {"VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"}

# libsndfile's frame count where a FLAC header states none.
_UNKNOWN_FRAMES = 2**63 - 1

# libsndfile shortens WAV, AIFF and AU files that end early without an error; its log tells, in bytes.
_SHORTENED = re.compile(r"^\s*(?:data|SSND|Data Size)\s*: (\d+) \(should be (\d+)\)", re.MULTILINE)

# Of these libsndfile itself tells when it decodes them; its log, a buffer of 16 kB, need not be asked for.
_CHECKED_BY_DECODING = {"FLAC", "OGG", "MP3"}

# Sizes from here on are placeholders of programs that wrote to a pipe and could not go back to fill them in.
_PLACEHOLDER_BYTES = 0x7FFFF000


def read_audio(path: AnyPath, start: int = 0, samples: int | None = None, room: np.ndarray | None = None) -> np.ndarray:
    """Read a recording, or `samples` of it from sample `start` on, as (T,) float32 at 16 kHz, mono.

    Channels are averaged. `start` and `samples` count at 16 kHz, and only the part they name is decoded where the
    format lets one seek; the result is that of cutting the whole recording. A part that reaches beyond the end is cut
    there, as a slice is. What is not decoded is not checked.

    `room` (R,) is memory, float32, that may be written to while decoding; the result may be a part of it.

    Raises:
        AsdfError: the file is missing, empty, not audio, damaged or cut off, holds no samples or ones that are not
            finite, or `start` is beyond its end.
    """
    if start < 0 or (samples is not None and samples < 1):
        raise ValueError(f"start {start} and samples {samples} name no part of a recording")
    with _open(path) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate)
        stop = length if samples is None else min(length, start + samples)
        if start >= length:
            raise AsdfError(
                f"{path} has {length} samples at 16 kHz, and a part from sample {start} on was asked for. "
                "It was likely replaced after its length was measured: measure the utterances again."
            )
        first, last = source_span(start, stop, rate)
        whole_numbers = file.subtype.startswith("PCM_")  # so it can hold nothing but finite samples
        waveform = _decode(file, path, first, min(last, file.frames), room)
    if not whole_numbers and not np.isfinite(waveform).all():
        raise AsdfError(
            f"{path} holds samples that are not finite (NaN or infinity). The program that wrote it likely divided by "
            "zero: make the file again, or take it off the list."
        )
    offset = first * SAMPLE_RATE // rate
    return resample(waveform, rate)[start - offset : stop - offset]


def audio_length(path: AnyPath) -> int:
    """Samples that `read_audio(path)` returns, from the file's header alone (what PyAV decodes: from decoding it).

    Raises:
        AsdfError: as `read_audio`, as far as the header shows it.
    """
    with _open(path) as file:
        return resampled_length(file.frames, file.samplerate)


def _open(path: AnyPath) -> soundfile.SoundFile:
    try:
        file = _open_with_libsndfile(path)
    except soundfile.LibsndfileError as error:
        file = _open_with_pyav(Path(path), error.error_string.strip(" ."))
    except TypeError as error:  # the extension of a format without a header, .raw
        raise AsdfError(_why_not_opened(Path(path), str(error))) from error
    problem = _header_problem(file)
    if problem:
        file.close()
        raise AsdfError(f"{path} {problem}")
    return file


def _open_with_libsndfile(path: AnyPath) -> soundfile.SoundFile:
    member = known_member(path)
    if member is None:
        try:
            return soundfile.SoundFile(path)
        except soundfile.LibsndfileError:
            # Only now: an ordinary file should not wait until it is clear that it is in no archive.
            member = None if Path(path).exists() else find_member(path)
            if member is None:
                raise
    return soundfile.SoundFile(member.open())


def _open_with_pyav(path: Path, reason: str) -> soundfile.SoundFile:
    """The file as libsndfile would have opened it; `reason` is why it did not."""
    if not _is_readable(path):
        raise AsdfError(_why_not_opened(path, reason))
    try:
        decoded = pyav.decode(path)
    except pyav.NotDecoded as error:
        raise AsdfError(_why_not_opened(path, reason, error)) from None
    if decoded.cut_off:
        raise AsdfError(f"{path} {_cut_off(decoded.cut_off)}")
    fallbacks.note(path)
    content = io.BytesIO()
    soundfile.write(content, decoded.as_float(), decoded.rate, format="W64", subtype="FLOAT")
    content.seek(0)
    return soundfile.SoundFile(content)


def _is_readable(path: Path) -> bool:
    member = known_member(path)
    if member is not None:
        return member.size > 0
    return path.is_file() and os.access(path, os.R_OK) and path.stat().st_size > 0 and not path.name.startswith("._")


def _is_folder_of_archive(path: Path) -> bool:
    found = None if path.exists() else find_folder(path)
    return found is not None and found[0].is_folder(found[1])


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
    shortened = None if file.format in _CHECKED_BY_DECODING else _SHORTENED.search(file.extra_info)
    if shortened:
        promised, found = map(int, shortened.groups())
        if found < promised < _PLACEHOLDER_BYTES:
            return _cut_off(f"{promised} bytes of samples are promised by the header, {found} are there")
    return ""


def _decode(file: soundfile.SoundFile, path: AnyPath, first: int, last: int, room: np.ndarray | None) -> np.ndarray:
    """Frames `first <= i < last` as (last - first,) float32, the mean over the channels."""
    begin = 0 if first and file.subtype in _INEXACT_SEEK else first
    block, problem = _read(file, begin, last, room)
    if problem and begin > 0:
        # Some versions of libFLAC cannot seek to some samples of sound files, and no handle survives an error.
        begin = 0
        with _open_with_libsndfile(path) as again:
            block, problem = _read(again, 0, last, room)
    if problem and file.format == "FLAC":
        decoded = decode_flac(path, file.frames)
        if decoded is not None:
            begin, block, problem = 0, decoded, ""
            fallbacks.note(path)
    if problem:
        raise AsdfError(f"{path} {_cut_off(problem, flac=file.format == 'FLAC')}")
    part = block[first - begin : last - begin]
    return np.ascontiguousarray(part[:, 0]) if part.shape[1] == 1 else part.mean(axis=1)


def _read(file: soundfile.SoundFile, begin: int, end: int, room: np.ndarray | None) -> tuple[np.ndarray, str]:
    """Frames `begin <= i < end` as (end - begin, channels) float32, and what is wrong with them."""
    numbers = (end - begin) * file.channels
    if room is None or len(room) < numbers:
        room = np.empty(numbers, np.float32)
    block = room[:numbers].reshape(-1, file.channels)
    try:
        if begin:  # a file was opened at its start; to go there again decodes a part of it
            file.seek(begin)
        decoded = len(file.read(out=block))
    except soundfile.LibsndfileError as error:
        return block, error.error_string.strip(" .")
    if decoded < end - begin:
        return block, f"{file.frames} samples are promised by the header, {begin + decoded} decode"
    return block, ""


def _cut_off(detail: str, flac: bool = False) -> str:
    advice = "Copy or download it again, or take it off the list."
    if flac:
        advice += " If other programs play it to its end, `pip install av`: ASDF then decodes it with FFmpeg."
    return f"cannot be decoded to its end ({detail}). It was likely cut off or damaged by a copy. {advice}"


def _why_not_opened(path: Path, reason: str, second: pyav.NotDecoded | None = None) -> str:
    member = known_member(path)
    if path.is_dir() or (member is None and _is_folder_of_archive(path)):
        return f"{path} is a folder, not a recording. A line of the list is likely cut off: correct it."
    if member is None and not path.exists():
        return (
            f"there is no file {path}. The list and the folder of the corpus likely do not belong together: "
            "check paths.database_folder and the list."
        )
    if member is None and not os.access(path, os.R_OK):
        return f"{path} may not be read by this user. Its permissions are likely wrong: `chmod a+r` it."
    if (path.stat().st_size if member is None else member.size) == 0:
        return f"{path} is empty (0 bytes). A copy was likely interrupted: copy or download it again."
    if path.name.startswith("._"):
        return f"{path} is not audio. It is likely a file that macOS leaves beside each real one: take it off the list."
    if second is not None and second.missing:
        return (
            f"{path} is not audio that libsndfile can read ({reason}). If other programs play it (mp4, m4a, aac, "
            "webm), `pip install av`: ASDF then decodes it with FFmpeg. Else it is likely damaged: leave it out."
        )
    too = f", nor FFmpeg ({second})" if second else ""
    return (
        f"{path} is not audio that libsndfile can read ({reason}){too}. "
        "It is likely damaged or of another format: convert it to FLAC or WAV, or take it off the list."
    )
