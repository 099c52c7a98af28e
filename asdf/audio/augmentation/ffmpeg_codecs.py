"""Codecs that libsndfile lacks, through PyAV.

Invariant: as in `codecs`, the result is not shifted. Packets go from the coder to the decoder
without a file, so no container removes their delay; it is known for each codec and removed here.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

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
