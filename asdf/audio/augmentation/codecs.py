"""Speech coded and decoded again, in memory.

Invariant: what comes back has the length of what went in and lies where it lay: the delay that a coder adds is known
and taken out. Nothing is clipped: a peak above full scale is scaled down to it before the coder would cut it.

libsndfile has most of the codecs. Its compression level, 0 to 1, stands for a bit rate in a way of its own for each.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import soundfile

from asdf.audio.augmentation import ffmpeg_codecs
from asdf.audio.resampling import SAMPLE_RATE, resample
from asdf.errors import UsageError

_TELEPHONE_RATE = 8000

# What LAME and its decoder add together where a low bit rate leaves no room for the tag that tells a player so.
_MP3_DELAY = 576 + 529

# Given minutes of speech at once, libsndfile 1.2.2 overruns its stack in coding Vorbis.
_BLOCK = 2**14


def _in_libsndfile(
    waveform: np.ndarray, rate: int, kind: tuple[str, str], level: float | None = None
) -> np.ndarray:
    """`waveform` (T,) through a file of `kind` (format, subtype): (at least T,) float32."""
    file, (container, subtype) = io.BytesIO(), kind
    mode = "CONSTANT" if container == "MP3" else None
    with soundfile.SoundFile(
        file, "w", rate, 1, subtype, format=container, compression_level=level, bitrate_mode=mode
    ) as coder:
        for start in range(0, len(waveform), _BLOCK):
            coder.write(waveform[start : start + _BLOCK])
    file.seek(0)
    return soundfile.read(file, dtype="float32")[0]


def _telephone(waveform: np.ndarray, _: float, kind: tuple[str, str]) -> np.ndarray:
    whole = np.clip(np.rint(waveform * 2**15), -(2**15), 2**15 - 1).astype(np.int16)
    return _in_libsndfile(whole, _TELEPHONE_RATE, kind)


def _mp3(waveform: np.ndarray, kbps: float, kind: tuple[str, str]) -> np.ndarray:
    decoded = _in_libsndfile(waveform, SAMPLE_RATE, kind, (160 - kbps) / 152)
    return decoded[_MP3_DELAY:] if len(decoded) > len(waveform) else decoded


def _vorbis(waveform: np.ndarray, quality: float, kind: tuple[str, str]) -> np.ndarray:
    return _in_libsndfile(waveform, SAMPLE_RATE, kind, 1 - quality / 10)


def _opus(waveform: np.ndarray, kbps: float, kind: tuple[str, str]) -> np.ndarray:
    return _in_libsndfile(waveform, SAMPLE_RATE, kind, 1 - (kbps - 6) / 250)


@dataclass(frozen=True)
class Codec:
    """How to code and decode.

    Attributes:
        code: (T,) float32 within [-1, 1] at `rate` Hz and a quality -> (at least T,) float32.
        qualities: the bit rates in kbit/s, or oggenc's -q for Vorbis, of which one is drawn.
        kind: libsndfile's (format, subtype); None for FFmpeg.
    """

    code: Callable[[np.ndarray, float], np.ndarray]
    qualities: tuple[float, ...]
    rate: int = SAMPLE_RATE
    kind: tuple[str, str] | None = None


def _libsndfile(
    code: Callable, qualities: tuple[float, ...], kind: tuple[str, str], rate: int = SAMPLE_RATE
) -> Codec:
    return Codec(partial(code, kind=kind), qualities, rate, kind)


CODECS = {
    "mu-law": _libsndfile(_telephone, (64,), ("WAV", "ULAW"), _TELEPHONE_RATE),
    "a-law": _libsndfile(_telephone, (64,), ("WAV", "ALAW"), _TELEPHONE_RATE),
    "gsm": _libsndfile(_telephone, (13,), ("WAV", "GSM610"), _TELEPHONE_RATE),
    "mp3": _libsndfile(_mp3, (24, 32, 48, 64, 96), ("MP3", "MPEG_LAYER_III")),
    "vorbis": _libsndfile(_vorbis, (0, 2, 4, 6), ("OGG", "VORBIS")),
    "opus": _libsndfile(_opus, (8, 12, 16, 24, 32), ("OGG", "OPUS")),
    "g722": Codec(ffmpeg_codecs.g722, (64,)),
    "aac": Codec(ffmpeg_codecs.aac, (16, 24, 32, 48, 64)),
}


def check_codecs(names: Sequence[str]) -> None:
    """Raise a UsageError when one of the codecs is not there."""
    for name in names:
        kind = CODECS[name].kind
        if kind is None and not ffmpeg_codecs.is_there(name):
            raise UsageError(
                f"augmentation.codecs names '{name}', which needs PyAV: pip install av, or leave it out."
            )
        if kind is not None and not soundfile.check_format(*kind):
            raise UsageError(
                f"augmentation.codecs names '{name}', which libsndfile {soundfile.__libsndfile_version__} was built "
                "without: pip install -U soundfile brings one that has it, or leave it out."
            )


def draw_coding(names: Sequence[str], rng: np.random.Generator) -> tuple[str, float]:
    """A codec and a quality; order of the draws: as here."""
    name = names[int(rng.integers(len(names)))]
    qualities = CODECS[name].qualities
    return name, qualities[int(rng.integers(len(qualities)))]


def transcode(waveform: np.ndarray, name: str, quality: float) -> np.ndarray:
    """`waveform` (T,) at 16 kHz, coded with one of the codec's qualities, and decoded: (T,) float32."""
    codec = CODECS[name]
    # To halve the rate is to resample as from twice ours.
    source = (
        waveform if codec.rate == SAMPLE_RATE else resample(waveform, SAMPLE_RATE**2 // codec.rate)
    )
    source = (source / max(1.0, np.abs(source).max())).astype(np.float32, copy=False)
    decoded = resample(codec.code(source, quality)[: len(source)], codec.rate)
    return np.ascontiguousarray(decoded[: len(waveform)])
