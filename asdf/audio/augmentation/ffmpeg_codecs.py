"""Codecs that libsndfile has not, by way of PyAV, which is optional.

Invariant: as in `codecs`, what is decoded lies where it lay. Packets go from the coder to the decoder without a file,
so no container takes out the delay of the two; here it is known for each, and taken out.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE

# Two filter banks of 24 taps (ITU-T G.722), less the two samples that each takes and gives at a time.
_G722_DELAY = 22

# The frame before the first one, which every frame of AAC overlaps with.
_AAC_DELAY = 1024


def is_there(name: str) -> bool:
    """Whether PyAV is installed and can code `name`."""
    try:
        av = import_module("av")
    except ImportError:
        return False
    try:
        av.codec.Codec(name, "w")
    except (
        av.FFmpegError,
        ValueError,
    ):  # PyAV's error for an unknown codec is one of these, by version
        return False
    return True


def g722(waveform: np.ndarray, _: float) -> np.ndarray:
    """`waveform` (T,) within [-1, 1], through G.722 at 64 kbit/s: (at least T,) float32."""
    padded = np.pad(waveform, (0, _G722_DELAY + len(waveform) % 2))
    whole = np.clip(np.rint(padded * 2**15), -(2**15), 2**15 - 1).astype(np.int16)
    return _through("g722", whole, "s16", 64)[_G722_DELAY:].astype(np.float32) / 2**15


def aac(waveform: np.ndarray, kbps: float) -> np.ndarray:
    """`waveform` (T,) through AAC (low complexity) at `kbps`: (at least T,) float32."""
    padded = np.pad(waveform, (0, -len(waveform) % 1024))
    return _through("aac", padded, "fltp", kbps)[_AAC_DELAY:]


def _through(name: str, samples: np.ndarray, kind: str, kbps: float) -> np.ndarray:
    av = import_module("av")
    coder, decoder = (av.CodecContext.create(name, mode) for mode in "wr")
    for context in (coder, decoder):
        context.sample_rate, context.layout = SAMPLE_RATE, "mono"
    coder.format, coder.bit_rate, coder.time_base = (
        kind,
        round(1000 * kbps),
        Fraction(1, SAMPLE_RATE),
    )
    coder.open()
    decoder.extradata = coder.extradata
    packets, step = [], coder.frame_size or len(samples)
    for start in range(0, len(samples), step):
        block = np.ascontiguousarray(samples[None, start : start + step])
        frame = av.AudioFrame.from_ndarray(block, format=kind, layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = SAMPLE_RATE, start, coder.time_base
        packets += coder.encode(frame)
    packets += coder.encode(None)
    frames = [frame for packet in [*packets, None] for frame in decoder.decode(packet)]
    return np.concatenate([frame.to_ndarray()[0] for frame in frames])
