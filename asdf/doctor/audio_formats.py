"""Decodable audio formats: those of libsndfile, and of FFmpeg through PyAV.

Each format is encoded and decoded here, because a library may list a format without its codec.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence

import numpy as np
import soundfile

from asdf.doctor.finding import MISSING, OK, WARNING, Finding, Step
from asdf.facts import SAMPLE_RATE

_NEWER = "pip install --upgrade soundfile"
_PYAV = "pip install --force-reinstall --only-binary av av"
# Format, subtype, and whether public corpora need it.
_FORMATS = {
    "wav": ("WAV", "PCM_16", True),
    "flac": ("FLAC", "PCM_16", True),
    "ogg": ("OGG", "VORBIS", False),
    "opus": ("OGG", "OPUS", False),
    "mp3": ("MP3", "MPEG_LAYER_III", False),
}
_FFMPEG_DECODERS = ("aac", "mp3", "opus", "vorbis", "flac", "wmav2", "amrnb")


def steps() -> Sequence[Step]:
    """Return the steps of this group."""
    return [
        Step("libsndfile", look_at_libsndfile, _NEWER),
        Step("FFmpeg", look_at_ffmpeg, _PYAV, failed=WARNING),
    ]


def look_at_libsndfile() -> Iterable[Finding]:
    """Yield which formats survive a round trip through libsndfile."""
    works = []
    fails = []
    is_needed = False
    for name, (container, subtype, needed) in _FORMATS.items():
        if _comes_back(container, subtype):
            works.append(name)
        else:
            fails.append(name)
            is_needed |= needed
    version = soundfile.__libsndfile_version__
    text = f"{version}: {', '.join(works)}"
    if not fails:
        yield Finding("libsndfile", OK, text)
        return
    status = MISSING if is_needed else WARNING
    yield Finding("libsndfile", status, f"{text}; not {', '.join(fails)}", _NEWER)


def _comes_back(container: str, subtype: str) -> bool:
    """Whether half a second of a tone can be encoded and decoded."""
    time_s = np.arange(SAMPLE_RATE // 2) / SAMPLE_RATE
    tone = 0.5 * np.sin(2 * np.pi * 440 * time_s)
    file = io.BytesIO()
    try:
        soundfile.write(file, tone, SAMPLE_RATE, format=container, subtype=subtype)
        file.seek(0)
        decoded, rate = soundfile.read(file)
    except (soundfile.LibsndfileError, ValueError):
        return False
    # Lossy codecs delay and pad; their level is correct within a tenth.
    return bool(rate == SAMPLE_RATE and abs(decoded.std() / tone.std() - 1) < 0.1)


def look_at_ffmpeg() -> Iterable[Finding]:
    """Yield which decoders PyAV's FFmpeg has."""
    import av

    lacking = [name for name in _FFMPEG_DECODERS if name not in av.codecs_available]
    version = ".".join(map(str, av.library_versions["libavcodec"]))
    text = f"PyAV {av.__version__}, libavcodec {version}"
    if lacking:
        yield Finding("FFmpeg", WARNING, f"{text}, without {', '.join(lacking)}", _PYAV)
        return
    yield Finding("FFmpeg", OK, f"{text}: m4a, mp4, aac, webm and others")
