"""Where there is speech in a recording: a detector of frames, by energy or by a network.

Invariant: energy is judged in relation to the loudest frame of the recording itself, so the result
does not depend on the level. A recording in which nothing is speech (digital silence) is left
whole: a trial list needs a score of every trial, and an empty waveform has none.
"""

from __future__ import annotations

import numpy as np

from asdf.audio.silero import WINDOW, silero_version, speech_probabilities
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import SpeechActivity

FRAME_S = 0.02
_FRAME = round(FRAME_S * SAMPLE_RATE)

# Below -100 dB of full scale is what rounding to 16 bits leaves, not speech.
_FLOOR = 1e-10


def speech_mask(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """Return whether each sample of `waveform` (T,), T >= 1, lies in a frame of speech: (T,) bool.

    Frames, of 20 ms ('energy') or 32 ms ('silero'), do not overlap; the last may be shorter. Speech
    goes on for `hangover_s`, rounded to whole frames, after the last frame in which it is detected.

    Raises:
        UsageError: the detector is 'silero', and it is not installed.
    """
    if sad.detector == "silero":
        frame = WINDOW
        is_speech = speech_probabilities(waveform) >= sad.silero_threshold
    else:
        frame = _FRAME
        is_speech = _find_loud_frames(waveform, sad.threshold_db)
    numbers = np.arange(len(is_speech))
    hangover = round(sad.hangover_s * SAMPLE_RATE / frame)
    # Before the first speech, the last speech is further back than the hangover reaches.
    long_ago = -hangover - 1
    speech_at = np.where(is_speech, numbers, long_ago)
    last_speech = np.maximum.accumulate(speech_at)
    goes_on = numbers - last_speech <= hangover
    mask = np.repeat(goes_on, frame)
    return mask[: len(waveform)]


def _find_loud_frames(waveform: np.ndarray, threshold_db: float) -> np.ndarray:
    """Return which frames' variance is within `threshold_db` of the loudest's: (frames,) bool.

    The variance, since an offset of the converter has power but no sound.
    """
    starts = np.arange(0, len(waveform), _FRAME)
    lengths = np.diff(starts, append=len(waveform))
    exact = waveform.astype(np.float64)
    means = np.add.reduceat(exact, starts) / lengths
    deviations = exact - np.repeat(means, lengths)
    squares = np.square(deviations)
    variances = np.add.reduceat(squares, starts) / lengths
    relative = 10 ** (-threshold_db / 10)
    threshold = max(variances.max() * relative, _FLOOR)
    is_loud: np.ndarray = variances >= threshold
    return is_loud


def check_detector(sad: SpeechActivity) -> None:
    """Raise a UsageError when the detector that the settings name is not installed."""
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


def cut_to_speech(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """Return what of `waveform` (T,) counts by `sad.mode`.

    'off': all of it; 'endpoint': without its silent ends; 'on': speech only.
    """
    if sad.mode == "off":
        return waveform
    speech = np.flatnonzero(speech_mask(waveform, sad))
    if len(speech) == 0:
        return waveform
    if sad.mode == "on":
        return waveform[speech]
    first = speech[0]
    last = speech[-1]
    return waveform[first : last + 1]
