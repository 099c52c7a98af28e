"""A recording from its start to its end in blocks, for work that must not hold it whole.

Invariant: the blocks joined are `read_audio` of the whole recording, sample for sample (up to
rounding, where it is resampled). Each part of the file is decoded once, also in formats that cannot
be entered in the middle, and no more than a block of it is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from asdf.audio.opening import AnyPath, open_recording
from asdf.audio.reading import read_audio
from asdf.audio.resampling import SAMPLE_RATE, resample, resampled_length, source_span


def read_blocks(path: AnyPath, samples: int) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32 at 16 kHz, mono; the last one may be shorter.

    What only PyAV decodes is in memory whole, as in `read_audio`.

    Raises:
        AsdfError: as `read_audio`; of a recording that is damaged further on after its good blocks.
    """
    done = 0
    with open_recording(path) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate)
        frames = _Frames(file)
        while done < length:
            stop = min(length, done + samples)
            first, last = source_span(done, stop, rate)
            span = frames.span(first, min(last, file.frames))
            if span is None:
                break
            offset = first * SAMPLE_RATE // rate
            yield resample(span, rate)[done - offset : stop - offset]
            done = stop
    if done < length:
        # `read_audio` knows another decoder, or what to say of a damaged file.
        rest = read_audio(path, done)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]


class _Frames:
    """The frames of an open file, read forwards only; what lies before the last span is forgotten."""

    def __init__(self, file: soundfile.SoundFile) -> None:
        self._file = file
        self._held = np.zeros(0, np.float32)
        self._first = 0

    def span(self, first: int, last: int) -> np.ndarray | None:
        """Frames `first <= i < last` as (last - first,), the mean over the channels; None: they do not decode."""
        self._held = self._held[first - self._first :]
        self._first = first
        missing = last - first - len(self._held)
        if missing > 0:
            try:
                block = self._file.read(missing, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError:
                return None
            if len(block) < missing or not np.isfinite(block).all():
                return None
            mono = block[:, 0] if block.shape[1] == 1 else block.mean(axis=1)
            self._held = np.concatenate([self._held, mono])
        return self._held[: last - first]
