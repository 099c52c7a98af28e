"""Decoding of recordings to samples, in bounded memory and time.

Invariant: sizes in a header are checked before memory is allocated, and decoding ends between two
blocks if nobody waits for it any more. A thread cannot be terminated from outside.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from asdf.audio.recording_sources import Limits, Source
from asdf.audio.streaming import read_blocks
from asdf.scoring.waveforms import as_waveform
from asdf.service.limits import Refusal, ServiceLimits
from asdf.service.uploads import Upload
from asdf.settings.sections import USUAL_AUDIO, Audio

NAME = "the recording"
"""Name of a recording without a name, in messages."""

# At a high rate with many channels, each block takes far more memory than at 16 kHz.
_BLOCK_S = 4
_BLOCK_BYTES = 2**28


@dataclass(frozen=True)
class Wait:
    """A client that waits, until a time of the monotonic clock or until `is_over` is set."""

    until_s: float
    is_over: threading.Event

    def check(self) -> None:
        """Raise a Refusal if nobody waits any more."""
        if self.is_over.is_set() or time.monotonic() > self.until_s:
            raise Refusal(503, "decoding took too long: send a shorter recording.", 1)


def decode_upload(
    upload: Upload, limits: ServiceLimits, wait: Wait, audio: Audio = USUAL_AUDIO
) -> np.ndarray:
    """Return the samples of a recording as the network hears it: (T,) float32, T >= 1.

    Raises:
        AsdfError: the recording cannot be decoded, or is too long.
        UsageError: its samples, or their rate, are not valid.
        Refusal: nobody waits for it any more.
    """
    blocks = []
    wait.check()
    if upload.rate is not None:
        samples = np.frombuffer(upload.content, "<f4")
        return as_waveform(samples, upload.rate, Limits(max_seconds=limits.max_seconds), audio)
    length = _BLOCK_S * audio.sample_rate
    bounds = Limits(max_seconds=limits.max_seconds, memory=_BLOCK_BYTES)
    source = Source(upload.name or NAME, upload.content, bounds)
    for block in read_blocks(source, length, audio):
        blocks.append(block)
        wait.check()
    return np.concatenate(blocks)


def outline(waveform: np.ndarray, points: int) -> dict[str, list[float]]:
    """Return the lowest and highest sample of each of up to `points` equal parts of (T,) samples.

    The values are rounded to the precision of a plot.
    """
    if waveform.ndim == 2:
        waveform = waveform.mean(axis=1)
    # At most one part per sample, since reduceat needs increasing starts.
    starts = np.linspace(0, len(waveform), min(points, len(waveform)), endpoint=False).astype(int)
    lowest = np.minimum.reduceat(waveform, starts).astype(float)
    highest = np.maximum.reduceat(waveform, starts).astype(float)
    return {"low": lowest.round(4).tolist(), "high": highest.round(4).tolist()}
