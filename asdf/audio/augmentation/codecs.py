"""Speech coded and decoded in memory.

Invariant: the result has the length of the input and is not shifted, since the known delay of the
coder is removed. Nothing is clipped: a peak above full scale is scaled down before the coder would
cut it.

libsndfile has most of the codecs; its compression level, 0 to 1, maps to other bit rates for each.
PyAV has the others. Its packets go from the coder to the decoder without a file, so no container
removes their delay; it is known for each codec and removed here.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import soundfile
from numpy.random import Generator

from asdf.audio.augmentation.part import Part, PartSettings, draw_item
from asdf.audio.sample_rates import resample
from asdf.errors import UsageError
from asdf.facts import SAMPLE_RATE

# Two filter banks of 24 taps (ITU-T G.722), minus the two samples that each processes at a time.
_G722_DELAY = 22
_G722_KBPS = 64

# The frame before the first, with which the first frame of AAC overlaps.
_AAC_DELAY = 1024
_AAC_FRAME = 1024

# The coder of AMR looks 5 ms ahead (3GPP TS 26.090), minus the delay of its filters; measured.
_AMR_DELAY = 39
_AMR_FRAME = 160
_AMR_RATE = 8000
_AMR_CODER = "libopencore_amrnb"
# FFmpeg's names of a coder and its decoder, if they differ from that of the codec.
_NAMES = {"amr-nb": (_AMR_CODER, "amrnb")}


def is_available(name: str) -> bool:
    """Whether PyAV's FFmpeg can code `name`."""
    import av

    # PyAV's error for an unknown codec is one of the two, depending on the version.
    try:
        av.codec.Codec(_NAMES.get(name, (name,))[0], "w")
    except (av.FFmpegError, ValueError):
        return False
    return True


def to_16_bits(waveform: np.ndarray) -> np.ndarray:
    """Round `waveform` (T,) within [-1, 1] to (T,) int16."""
    full_scale = 2**15
    rounded = np.rint(waveform * full_scale)
    clipped: np.ndarray = np.clip(rounded, -full_scale, full_scale - 1)
    return clipped.astype(np.int16)


def code_g722(waveform: np.ndarray, _: float) -> np.ndarray:
    """Code `waveform` (T,) within [-1, 1] by G.722, and decode it: (at least T,) float32."""
    # A byte holds two samples.
    fill_up = len(waveform) % 2
    padded = np.pad(waveform, (0, _G722_DELAY + fill_up))
    decoded = _code_and_decode("g722", to_16_bits(padded), "s16", _G722_KBPS)
    return decoded[_G722_DELAY:].astype(np.float32) / 2**15


def code_aac(waveform: np.ndarray, kbps: float) -> np.ndarray:
    """Code `waveform` (T,) by AAC (low complexity), and decode it: (at least T,) float32."""
    fill_up = -len(waveform) % _AAC_FRAME
    padded = np.pad(waveform, (0, fill_up))
    return _code_and_decode("aac", padded, "fltp", kbps)[_AAC_DELAY:]


def code_amr(waveform: np.ndarray, kbps: float) -> np.ndarray:
    """Code `waveform` (T,) at 8 kHz by AMR (narrow band), and decode it: (at least T,) float32."""
    missing = -(len(waveform) + _AMR_DELAY) % _AMR_FRAME
    padded = np.pad(waveform, (0, _AMR_DELAY + missing))
    decoded = _code_and_decode("amr-nb", to_16_bits(padded), "s16", kbps, _AMR_RATE)
    # FFmpeg's decoder overshoots, unlike the standard's 16-bit decoder.
    limited: np.ndarray = np.clip(decoded[_AMR_DELAY:], -1, 1)
    return limited


def _code_and_decode(
    name: str, samples: np.ndarray, kind: str, kbps: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Send (T,) samples, in FFmpeg's format `kind`, through a coder and its decoder."""
    import av

    coder_name, decoder_name = _NAMES.get(name, (name, name))
    coder = _create_context(av, coder_name, "w", rate)
    decoder = _create_context(av, decoder_name, "r", rate)
    coder.format = kind
    coder.bit_rate = round(1000 * kbps)
    coder.time_base = Fraction(1, rate)
    coder.open()
    decoder.extradata = coder.extradata
    packets = []
    # A coder without frames takes everything at once.
    step = coder.frame_size or len(samples)
    for start in range(0, len(samples), step):
        block = np.ascontiguousarray(samples[None, start : start + step])
        frame = av.AudioFrame.from_ndarray(block, format=kind, layout="mono")
        frame.sample_rate = rate
        frame.pts = start
        frame.time_base = coder.time_base
        packets += coder.encode(frame)
    # None flushes the coder and the decoder.
    packets += coder.encode(None)
    decoded = []
    for packet in [*packets, None]:
        for frame in decoder.decode(packet):
            decoded.append(frame.to_ndarray()[0])
    return np.concatenate(decoded)


def _create_context(av: Any, name: str, mode: str, rate: int) -> Any:
    context = av.CodecContext.create(name, mode)
    context.sample_rate = rate
    context.layout = "mono"
    return context


_TELEPHONE_RATE = 8000

# The delay of LAME and its decoder if a low bit rate leaves no room for the tag that tells players
# about it.
_MP3_DELAY = 576 + 529

# With minutes of speech in one block, libsndfile 1.2.2 overflows its stack in coding Vorbis.
_BLOCK = 2**14


class Coding(Part):
    """A choice of codecs, one of which is drawn for an example with one of its qualities.

    Raises:
        UsageError: as in `check_codecs`.
    """

    def __init__(self, settings: PartSettings, base: Path) -> None:
        section = settings.augmentation
        self.rate = settings.audio.sample_rate
        check_codecs(section.codecs, self.rate)
        self.probability = section.codec_probability
        self.codecs = section.codecs

    def apply(self, clip: np.ndarray, rng: Generator) -> np.ndarray:
        """Code and decode `clip` (T,) float32: (T,) float32."""
        name, quality = self.draw(rng)
        return transcode(clip, name, quality, self.rate)

    def draw(self, rng: Generator) -> tuple[str, float]:
        """Draw a codec, then one of its qualities."""
        name = draw_item(self.codecs, rng)
        return name, draw_item(CODECS[name].qualities, rng)

    def describe(self) -> str:
        """Describe the part for the log."""
        return f"codec ({', '.join(self.codecs)})"


@dataclass(frozen=True)
class Kind:
    """A kind of file that libsndfile writes, with libsndfile's names."""

    container: str
    subtype: str


@dataclass(frozen=True)
class Codec:
    """A codec with its function and qualities.

    Attributes:
        code: Function from (T,) float32 within [-1, 1] at `rate` Hz and a quality to (at least T,)
            float32.
        qualities: Bit rates in kbit/s, or values of oggenc's -q for Vorbis, one of which is drawn.
        kind: Kind of file; None for FFmpeg.
    """

    code: Callable[[np.ndarray, float], np.ndarray]
    qualities: tuple[float, ...]
    rate: int = SAMPLE_RATE
    kind: Kind | None = None


def check_codecs(names: Sequence[str], rate: int = SAMPLE_RATE) -> None:
    """Raise a UsageError if one of the codecs is not installed.

    The same applies to a codec below 16 kHz for wide-band speech, which would remove too much.

    Args:
        rate: Sampling rate of the coded speech, in Hz.
    """
    for name in names:
        if rate != SAMPLE_RATE and CODECS[name].rate != _TELEPHONE_RATE:
            telephone = [each for each, codec in CODECS.items() if codec.rate == _TELEPHONE_RATE]
            raise UsageError(
                f"augmentation.codecs names '{name}', which runs at 16 kHz here, but "
                f"audio.sample_rate = {rate}: it would change the bandwidth of every clip. Choose "
                f"a telephone codec ({', '.join(telephone)}), or write a part of your own."
            )
        kind = CODECS[name].kind
        missing = ""
        if kind is None and not is_available(name):
            missing = "for which PyAV's FFmpeg has no encoder"
        elif kind is not None and not soundfile.check_format(kind.container, kind.subtype):
            missing = (
                f"which libsndfile {soundfile.__libsndfile_version__} was built without: pip "
                "install -U soundfile brings one that has it"
            )
        if missing:
            raise UsageError(f"augmentation.codecs names '{name}', {missing}. Leave it out.")


def transcode(
    waveform: np.ndarray, name: str, quality: float, rate: int = SAMPLE_RATE
) -> np.ndarray:
    """Code `waveform` (T,) at `rate` Hz with a quality of the codec, and decode it: (T,)."""
    codec = CODECS[name]
    source = resample(waveform, rate, codec.rate)
    peak = max(1.0, np.abs(source).max())
    source = (source / peak).astype(np.float32, copy=False)
    coded = codec.code(source, quality)[: len(source)]
    decoded = resample(coded, codec.rate, rate)
    return np.ascontiguousarray(decoded[: len(waveform)])


def _code_in_libsndfile(
    waveform: np.ndarray,
    quality: float,
    rate: int,
    kind: Kind,
    level: Callable[[float], float] | None,
) -> np.ndarray:
    """Code `waveform` (T,) as a file of `kind`, and decode it: (at least T,) float32.

    Args:
        level: Function that returns libsndfile's compression level for a quality; None for
            telephone codecs, which have none.
    """
    samples = to_16_bits(waveform) if level is None else waveform
    file = io.BytesIO()
    with soundfile.SoundFile(
        file,
        "w",
        samplerate=rate,
        channels=1,
        subtype=kind.subtype,
        format=kind.container,
        compression_level=None if level is None else level(quality),
        bitrate_mode="CONSTANT" if kind.container == "MP3" else None,
    ) as coder:
        for start in range(0, len(samples), _BLOCK):
            coder.write(samples[start : start + _BLOCK])
    file.seek(0)
    decoded: np.ndarray
    decoded, _ = soundfile.read(file, dtype="float32")
    # If there is a tag, the decoder of MP3 has removed the delay.
    has_delay = kind.container == "MP3" and len(decoded) > len(waveform)
    return decoded[_MP3_DELAY:] if has_delay else decoded


def _by_libsndfile(
    container: str,
    subtype: str,
    qualities: tuple[float, ...],
    level: Callable[[float], float] | None = None,
) -> Codec:
    rate = _TELEPHONE_RATE if level is None else SAMPLE_RATE
    kind = Kind(container, subtype)
    code = partial(_code_in_libsndfile, rate=rate, kind=kind, level=level)
    return Codec(code, qualities, rate, kind)


CODECS = {
    "mu-law": _by_libsndfile("WAV", "ULAW", (64,)),
    "a-law": _by_libsndfile("WAV", "ALAW", (64,)),
    "gsm": _by_libsndfile("WAV", "GSM610", (13,)),
    "mp3": _by_libsndfile(
        "MP3", "MPEG_LAYER_III", (24, 32, 48, 64, 96), lambda kbps: (160 - kbps) / 152
    ),
    "vorbis": _by_libsndfile("OGG", "VORBIS", (0, 2, 4, 6), lambda quality: 1 - quality / 10),
    "opus": _by_libsndfile("OGG", "OPUS", (8, 12, 16, 24, 32), lambda kbps: 1 - (kbps - 6) / 250),
    "g722": Codec(code_g722, (64,)),
    "aac": Codec(code_aac, (16, 24, 32, 48, 64)),
    "amr-nb": Codec(code_amr, (4.75, 5.9, 7.4, 12.2), _TELEPHONE_RATE),
}
