"""Where there is speech in a recording: an energy detector with hangover.

Invariant: speech is judged in relation to the loudest frame of the recording itself, so the result does not depend on
its level. A recording in which nothing is speech (digital silence) is left whole: a trial list asks for a score of
every trial, and an empty waveform has none.
"""

from __future__ import annotations

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

FRAME_S = 0.02
_FRAME = round(FRAME_S * SAMPLE_RATE)

# Below -100 dB of full scale is what rounding to 16 bits leaves, not speech.
_FLOOR = 1e-10


def speech_mask(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """Whether each sample of `waveform` (T,) lies in a frame of speech: (T,) bool.

    Frames of 20 ms do not overlap; the last may be shorter. A frame is loud when its variance is within
    `threshold_db` of the loudest frame's; the variance, since an offset of the converter has power but no sound.
    Speech goes on for `hangover_s` after the last loud frame.
    """
    starts = np.arange(0, len(waveform), _FRAME)
    lengths = np.diff(starts, append=len(waveform))
    exact = waveform.astype(np.float64)
    means = np.add.reduceat(exact, starts) / lengths
    energies = np.add.reduceat(np.square(exact - np.repeat(means, lengths)), starts) / lengths
    loud = energies >= max(energies.max() * 10 ** (-sad.threshold_db / 10), _FLOOR)
    frames = np.arange(len(starts))
    hangover = round(sad.hangover_s / FRAME_S)
    last_loud = np.maximum.accumulate(np.where(loud, frames, -hangover - 1))
    return np.repeat(frames - last_loud <= hangover, lengths)


def segments(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """The stretches of speech in `waveform` (T,), in order: (n, 2) int, from the first sample up to the stop."""
    edges = np.diff(speech_mask(waveform, sad).astype(np.int8), prepend=0, append=0)
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1)


def apply(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """`waveform` (T,) as `sad.mode` wants it: whole ('off'), without silent ends ('endpoint') or speech only ('on')."""
    if sad.mode == "off":
        return waveform
    speech = np.flatnonzero(speech_mask(waveform, sad))
    if len(speech) == 0:
        return waveform
    return waveform[speech] if sad.mode == "on" else waveform[speech[0] : speech[-1] + 1]
