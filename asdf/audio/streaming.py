"""A recording in chunks or blocks, for work that must not hold it whole, resampled.

Invariant: the samples do not depend on how the recording is divided into chunks: a block of output
is computed from the same span of input, whenever that arrives. The blocks joined are `read_audio`
of the whole recording, sample for sample (up to rounding, where it is resampled). Each part of a
file is decoded once, also in formats that cannot be entered in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from asdf.audio.reading import are_plausible, check_channel, choose_channels, read_audio
from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import AnySource, limits_of
from asdf.audio.sample_rates import resample, resampled_length, resampled_position, source_span
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import USUAL_AUDIO, Audio

# Joined when there are so many: a chunk may be a single sample.
_MAX_CHUNKS = 256


class StreamResampler:
    """Takes samples at any rate, and gives blocks at another as soon as their samples are known.

    It holds what the next block depends on.

    Args:
        rate, to: Sampling rates of what comes in and of what goes out, in Hz.

    Attributes:
        frames: Samples that came in.
        done: Samples that went out.
    """

    def __init__(self, rate: int, to: int = SAMPLE_RATE) -> None:
        self.frames = 0
        self.done = 0
        self._rate = rate
        self._to = to
        self._chunks: list[np.ndarray] = []
        # The frame that the first chunk begins with.
        self._first = 0

    def add(self, samples: np.ndarray) -> None:
        """Take the next samples, (T,) or (T, channels) float32."""
        self._chunks.append(samples)
        self.frames += len(samples)
        if len(self._chunks) > _MAX_CHUNKS:
            self._join()

    def read(self, count: int) -> np.ndarray | None:
        """Return the next `count` samples; None where not all of them are known yet."""
        _, last = source_span(self.done, self.done + count, self._rate, self._to)
        return None if last > self.frames else self.read_known(count)

    def read_rest(self) -> np.ndarray:
        """Return the samples that remain when the recording is at its end: (T,)."""
        count = resampled_length(self.frames, self._rate, self._to) - self.done
        return self.read_known(count) if count else self._join()[:0]

    def read_known(self, count: int) -> np.ndarray:
        """Return the next `count` samples, as if nothing followed what came in: (T,)."""
        first, last = source_span(self.done, self.done + count, self._rate, self._to)
        joined = self._join()
        span = joined[first - self._first : last - self._first]
        start = self.done - resampled_position(first, self._rate, self._to)
        self.done += count
        # Of what has come, the next block needs the samples from here on.
        next_first, _ = source_span(self.done, self.done + 1, self._rate, self._to)
        # A copy: a view would hold all.
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
        AsdfError: as `read_audio`; of a recording that is damaged further on after its good blocks.
    """
    to = audio.sample_rate
    with open_recording(path) as file:
        check_channel(path, file.channels, audio.channels)
        rate = file.samplerate
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
                if len(frames) < missing or not are_plausible(frames):
                    break
                resampler.add(choose_channels(frames, audio.channels))
            yield resampler.read_known(count)
    if resampler.done < length:
        # `read_audio` knows another decoder, or what to say of a damaged file.
        rest = read_audio(path, resampler.done, audio=audio)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]
