"""Where there is speech in a recording: a detector of frames, by energy or by a network, with hangover.

Invariant: energy is judged in relation to the loudest frame of the recording itself, so what it finds does not depend
on the level. A recording in which nothing is speech (digital silence) is left whole: a trial list asks for a score of
every trial, and an empty waveform has none.
"""

from __future__ import annotations

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.audio.silero import WINDOW, silero_version, speech_probabilities
from asdf.settings.sections import SpeechActivity

FRAME_S = 0.02
_FRAME = round(FRAME_S * SAMPLE_RATE)

# Below -100 dB of full scale is what rounding to 16 bits leaves, not speech.
_FLOOR = 1e-10


def speech_mask(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """Whether each sample of `waveform` (T,), T >= 1, lies in a frame of speech: (T,) bool.

    Frames, of 20 ms ('energy') or 32 ms ('silero'), do not overlap; the last may be shorter. Speech goes on for
    `hangover_s`, rounded to whole frames, after the last frame that the detector finds it in.

    Raises:
        UsageError: the detector is 'silero', and it is not installed.
    """
    if sad.detector == "silero":
        frame, found = WINDOW, speech_probabilities(waveform) >= sad.silero_threshold
    else:
        frame, found = _FRAME, _loud(waveform, sad.threshold_db)
    frames = np.arange(len(found))
    hangover = round(sad.hangover_s * SAMPLE_RATE / frame)
    last_found = np.maximum.accumulate(np.where(found, frames, -hangover - 1))
    return np.repeat(frames - last_found <= hangover, frame)[: len(waveform)]


def _loud(waveform: np.ndarray, threshold_db: float) -> np.ndarray:
    """Which frames' variance is within `threshold_db` of the loudest frame's: (frames,) bool.

    The variance, since an offset of the converter has power but no sound.
    """
    starts = np.arange(0, len(waveform), _FRAME)
    lengths = np.diff(starts, append=len(waveform))
    exact = waveform.astype(np.float64)
    means = np.add.reduceat(exact, starts) / lengths
    energies = np.add.reduceat(np.square(exact - np.repeat(means, lengths)), starts) / lengths
    return energies >= max(energies.max() * 10 ** (-threshold_db / 10), _FLOOR)


def check_detector(sad: SpeechActivity) -> None:
    """Raise a UsageError when the detector that is asked for is not installed."""
    if sad.mode != "off" and sad.detector == "silero":
        silero_version()


def identity(sad: SpeechActivity) -> str:
    """Return a cache key: every setting that affects which samples `cut_to_speech` returns.

    Raises:
        UsageError: as `speech_mask`, before there is any work.
    """
    if sad.mode == "off":
        return "off"
    if sad.detector == "silero":
        return f"{sad.mode}, silero {silero_version()}, {sad.silero_threshold}, {sad.hangover_s}"
    return f"{sad.mode}, energy, {sad.threshold_db}, {sad.hangover_s}"


def segments(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """The stretches of speech in `waveform` (T,), in order: (n, 2) int, from the first sample up to the stop."""
    edges = np.diff(speech_mask(waveform, sad).astype(np.int8), prepend=0, append=0)
    return np.stack([np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)], axis=1)


def cut_to_speech(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """`waveform` (T,) as `sad.mode` wants it: whole ('off'), without silent ends ('endpoint') or speech only ('on')."""
    if sad.mode == "off":
        return waveform
    speech = np.flatnonzero(speech_mask(waveform, sad))
    if len(speech) == 0:
        return waveform
    return waveform[speech] if sad.mode == "on" else waveform[speech[0] : speech[-1] + 1]
