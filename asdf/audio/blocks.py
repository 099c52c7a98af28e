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
from asdf.audio.resampling import resampled_length, source_span
from asdf.audio.sources import AnySource, limits_of
from asdf.audio.streaming import StreamResampler


def read_blocks(path: AnySource, samples: int) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32 at 16 kHz, mono.

    The last block may be shorter.

    Raises:
        AsdfError: as `read_audio`; of a recording that is damaged further on after its good blocks.
    """
    with open_recording(path) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate)
        resampler = StreamResampler(rate)
        while resampler.done < length:
            count = min(samples, length - resampler.done)
            first, last = source_span(resampler.done, resampler.done + count, rate)
            last = min(last, file.frames)
            limits_of(path).check_memory(path, last - first, file.channels, rate)
            if last > resampler.frames:
                frames = _read_frames(file, last - resampler.frames)
                if frames is None:
                    break
                resampler.add(frames)
            yield resampler.read_known(count)
    if resampler.done < length:
        # `read_audio` knows another decoder, or what to say of a damaged file.
        rest = read_audio(path, resampler.done)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]


def _read_frames(file: soundfile.SoundFile, count: int) -> np.ndarray | None:
    """Return the next frames, the mean over the channels, (count,); None if they do not decode."""
    try:
        block = file.read(count, dtype="float32", always_2d=True)
    except soundfile.LibsndfileError:
        return None
    if len(block) < count or not are_plausible(block):
        return None
    return average_channels(block)
