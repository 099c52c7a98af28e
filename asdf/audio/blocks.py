"""A recording from its start to its end in blocks, for work that must not hold it whole.

Invariant: the blocks joined are `read_audio` of the whole recording, sample for sample (up to
rounding, where it is resampled). Each part of the file is decoded once, also in formats that cannot
be entered in the middle, and no more than a block of it is in memory.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from asdf.audio.opening import open_recording
from asdf.audio.reading import are_plausible, average_channels, read_audio
from asdf.audio.resampling import resample, resampled_length, resampled_position, source_span
from asdf.audio.sources import AnySource, limits_of


def read_blocks(path: AnySource, samples: int) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32 at 16 kHz, mono.

    The last block may be shorter.

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
            last = min(last, file.frames)
            limits_of(path).check_memory(path, last - first, file.channels, rate)
            span = frames.read_span(first, last)
            if span is None:
                break
            offset = resampled_position(first, rate)
            resampled = resample(span, rate)
            yield resampled[done - offset : stop - offset]
            done = stop
    if done < length:
        # `read_audio` knows another decoder, or what to say of a damaged file.
        rest = read_audio(path, done)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]


class _Frames:
    """The frames of an open file, read forwards only; those before the last span are dropped."""

    def __init__(self, file: soundfile.SoundFile) -> None:
        self._file = file
        self._held = np.zeros(0, np.float32)
        self._first = 0

    def read_span(self, first: int, last: int) -> np.ndarray | None:
        """Return the mean over the channels of frames `first <= i < last`: (last - first,) float32.

        None where they do not decode.
        """
        # Neighbouring spans overlap by the width of the resampling filter.
        self._held = self._held[first - self._first :]
        self._first = first
        missing = last - first - len(self._held)
        if missing > 0:
            try:
                block = self._file.read(missing, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError:
                return None
            if len(block) < missing or not are_plausible(block):
                return None
            self._held = np.concatenate([self._held, average_channels(block)])
        return self._held[: last - first]
