"""A recording in chunks or blocks, resampled without holding it whole in memory.

Invariant: the samples do not depend on the division into chunks: a block of output is computed from
the same span of input, whenever that arrives. The concatenated blocks equal `read_audio` of the
whole recording (up to rounding if it is resampled). Each part of a file is decoded once, even in
formats without seeking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from asdf.audio.reading import (
    check_channel,
    choose_channels,
    find_fault,
    heard_channels,
    read_audio,
)
from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import AnySource, limits_of
from asdf.audio.sample_rates import resample, resampled_length, resampled_position, source_span
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import USUAL_AUDIO, Audio

# Chunks are joined when there are this many, since a chunk may be a single sample.
_MAX_CHUNKS = 256


class StreamResampler:
    """Takes samples at one rate, and returns blocks at another as soon as they are determined.

    It keeps the samples that the next block depends on.

    Args:
        rate, to: Sampling rates of input and output, in Hz.

    Attributes:
        frames: Number of input samples so far.
        done: Number of output samples so far.
    """

    def __init__(self, rate: int, to: int = SAMPLE_RATE) -> None:
        self.frames = 0
        self.done = 0
        self._rate = rate
        self._to = to
        self._chunks: list[np.ndarray] = []
        # The frame at which the first chunk begins.
        self._first = 0

    def add(self, samples: np.ndarray) -> None:
        """Add the next samples, (T,) or (T, channels) float32."""
        self._chunks.append(samples)
        self.frames += len(samples)
        if len(self._chunks) > _MAX_CHUNKS:
            self._join()

    def read(self, count: int) -> np.ndarray | None:
        """Return the next `count` samples; None if they are not all determined yet."""
        _, last = source_span(self.done, self.done + count, self._rate, self._to)
        return None if last > self.frames else self.read_known(count)

    def read_rest(self) -> np.ndarray:
        """Return the remaining samples at the end of the recording: (T,)."""
        count = resampled_length(self.frames, self._rate, self._to) - self.done
        return self.read_known(count) if count else self._join()[:0]

    def read_known(self, count: int) -> np.ndarray:
        """Return the next `count` samples, as if the input ended here: (T,)."""
        first, last = source_span(self.done, self.done + count, self._rate, self._to)
        joined = self._join()
        span = joined[first - self._first : last - self._first]
        start = self.done - resampled_position(first, self._rate, self._to)
        self.done += count
        # The next block needs the input from here on.
        next_first, _ = source_span(self.done, self.done + 1, self._rate, self._to)
        # A copy, since a view would keep everything in memory.
        self._chunks = [joined[next_first - self._first :].copy()]
        self._first = next_first
        return resample(span, self._rate, self._to)[start : start + count]

    def _join(self) -> np.ndarray:
        nothing = np.zeros((0, *self._chunks[0].shape[1:]) if self._chunks else 0, np.float32)
        joined = np.concatenate([nothing, *self._chunks])
        self._chunks = [joined]
        return joined


def read_blocks(path: AnySource, samples: int, audio: Audio = USUAL_AUDIO) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32, as `read_audio` reads it.

    The last block may be shorter.

    Raises:
        AsdfError: as in `read_audio`; for a recording damaged later on, after its good blocks.
    """
    to = audio.sample_rate
    with open_recording(path) as file:
        check_channel(path, file.channels, audio.channels)
        rate = file.samplerate
        heard = heard_channels(path, file) if audio.channels == "mean" else ()
        length = resampled_length(file.frames, rate, to)
        resampler = StreamResampler(rate, to)
        while resampler.done < length:
            count = min(samples, length - resampler.done)
            first, last = source_span(resampler.done, resampler.done + count, rate, to)
            last = min(last, file.frames)
            limits_of(path).check_memory(path, last - first, file.channels, rate, to)
            missing = last - resampler.frames
            if missing > 0:
                try:
                    frames = file.read(missing, dtype="float32", always_2d=True)
                except soundfile.LibsndfileError:
                    break
                if len(frames) < missing or find_fault(frames):
                    break
                resampler.add(choose_channels(frames, audio.channels, heard))
            yield resampler.read_known(count)
    if resampler.done < length:
        # `read_audio` tries another decoder, or reports the damage.
        rest = read_audio(path, resampler.done, audio=audio)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]
