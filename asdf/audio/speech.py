"""The speech of a recording, for training, measuring and scoring, cut or repeated to a length.

Invariant: all readers of this module get the same samples for the same settings. Without speech
activity detection, the speech is the whole recording, of which a part can be read separately. With
it, the whole recording is decoded first, since whether a frame is speech depends on the loudest
one, which may be the last.

Energy is relative to the loudest frame of the recording, so the result does not depend on the
level. A recording without any speech (digital silence) is kept whole: a trial list needs a score
for every trial, and an empty waveform has none.

No sample is invented. A long waveform is cut; a short one is repeated from its start, as in the
published recipes of the field, rather than padded with zeros, which a network learns to recognise.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from asdf.audio.reading import audio_length, decoded_length, read_audio
from asdf.audio.recording_sources import AnySource
from asdf.audio.sample_rates import resample
from asdf.audio.speech_check import WINDOW, silero_version, speech_probabilities
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity

FRAME_S = 0.02

# Below -100 dB of full scale is rounding noise of 16 bits, not speech.
_FLOOR = 1e-10


@dataclass(frozen=True)
class SpeechLength:
    """Numbers of samples of a recording's speech, and of the recording, at the network's rate."""

    speech: int
    recording: int


def needs_whole_recording(sad: SpeechActivity) -> bool:
    """Return whether reading any speech requires decoding the whole recording."""
    return sad.mode != "off"


def read_speech(
    path: AnySource,
    sad: SpeechActivity,
    start: int = 0,
    samples: int | None = None,
    audio: Audio = USUAL_AUDIO,
) -> np.ndarray:
    """Read a recording's speech, or `samples` of it from sample `start` on.

    The result is (T,) float32, or (T, channels), depending on `audio`. A part that extends beyond
    the end of the speech is cut there, like a slice.

    Raises:
        AsdfError: as in `read_audio`.
        UsageError: the speech detector is not installed.
    """
    if not needs_whole_recording(sad):
        return read_audio(path, start, samples, audio)
    stop = None if samples is None else start + samples
    whole = read_audio(path, audio=audio)
    return cut_to_speech(whole, sad, audio.sample_rate)[start:stop]


def measure_speech(
    path: AnySource, sad: SpeechActivity, decode: bool = False, audio: Audio = USUAL_AUDIO
) -> SpeechLength:
    """Measure the result of `read_speech` for a recording, from the header if possible.

    Args:
        decode: Whether to decode the recording to its end in any case, to check that it is
            complete.

    Raises:
        AsdfError, UsageError: as in `read_speech`; without decoding, as far as the header shows it.
    """
    if needs_whole_recording(sad):
        waveform = read_audio(path, audio=audio)
        speech = cut_to_speech(waveform, sad, audio.sample_rate)
        return SpeechLength(len(speech), len(waveform))
    length = decoded_length(path, audio) if decode else audio_length(path, audio)
    return SpeechLength(length, length)


def speech_mask(waveform: np.ndarray, sad: SpeechActivity, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return whether each sample of `waveform` (T,), T >= 1, lies in a frame of speech: (T,) bool.

    Frames of 20 ms ('energy') or 32 ms ('silero') do not overlap; the last may be shorter. Speech
    continues for `hangover_s`, rounded to whole frames, after the last frame in which it is
    detected. For (T, channels), the mean is used. At rates other than 16 kHz, 'silero' gets a
    resampled copy.

    Args:
        rate: Sampling rate of the waveform, in Hz.

    Raises:
        UsageError: the detector is 'silero', and it is not installed.
    """
    if waveform.ndim == 2:
        waveform = waveform.mean(axis=1)
    if sad.detector == "silero" and rate != SAMPLE_RATE:
        mask = speech_mask(resample(waveform, rate), sad)
        return mask[np.arange(len(waveform)) * SAMPLE_RATE // rate]
    if sad.detector == "silero":
        frame = WINDOW
        is_speech = speech_probabilities(waveform) >= sad.silero_threshold
    else:
        frame = round(FRAME_S * rate)
        is_speech = _find_loud_frames(waveform, sad.threshold_db, frame)
    numbers = np.arange(len(is_speech))
    hangover = round(sad.hangover_s * rate / frame)
    # Before the first speech, the last speech is further back than the hangover.
    long_ago = -hangover - 1
    speech_at = np.where(is_speech, numbers, long_ago)
    last_speech = np.maximum.accumulate(speech_at)
    goes_on = numbers - last_speech <= hangover
    mask = np.repeat(goes_on, frame)
    return mask[: len(waveform)]


def _find_loud_frames(waveform: np.ndarray, threshold_db: float, frame: int) -> np.ndarray:
    """Return which frames' variance is within `threshold_db` of the loudest's: (frames,) bool.

    The variance is used since a converter's offset has power but no sound.

    Args:
        frame: Number of samples of a frame.
    """
    starts = np.arange(0, len(waveform), frame)
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
    """Raise a UsageError if the detector in the settings is not installed."""
    if sad.mode != "off" and sad.detector == "silero":
        silero_version()


def identity(sad: SpeechActivity, audio: Audio = USUAL_AUDIO) -> str:
    """Return a cache key: every setting that affects which samples `read_speech` returns.

    Raises:
        UsageError: as in `speech_mask`, before any work.
    """
    # Keys of files from before this choice existed are unchanged.
    of_audio = (
        "" if audio == USUAL_AUDIO else f", {audio.sample_rate} Hz, channels {audio.channels}"
    )
    if sad.mode == "off":
        return f"off{of_audio}"
    if sad.detector == "silero":
        settings = f"silero {silero_version()}, {sad.silero_threshold}, {sad.hangover_s}"
    else:
        settings = f"energy, {sad.threshold_db}, {sad.hangover_s}"
    return f"{sad.mode}, {settings}{of_audio}"


def cut_to_speech(waveform: np.ndarray, sad: SpeechActivity, rate: int = SAMPLE_RATE) -> np.ndarray:
    """Return the part of `waveform` (T,) at `rate` Hz that `sad.mode` selects.

    'off' keeps all of it, 'endpoint' removes silent ends, and 'on' keeps only speech.
    """
    found = find_speech(waveform, sad, rate)
    return waveform if found is None else waveform[found]


def find_speech(
    waveform: np.ndarray, sad: SpeechActivity, rate: int = SAMPLE_RATE
) -> np.ndarray | slice | None:
    """Return the indices of the selected samples of `waveform` (T,); None for all of them."""
    if sad.mode == "off":
        return None
    speech = np.flatnonzero(speech_mask(waveform, sad, rate))
    if len(speech) == 0:
        return None
    if sad.mode == "on":
        return speech
    return slice(int(speech[0]), int(speech[-1]) + 1)


def crop_start(length: int, samples: int, rng: Generator) -> int:
    """Draw the start of a crop of `samples` from `length`; 0 if there is no choice.

    All positions are equally likely.
    """
    latest = max(length - samples, 0)
    return int(rng.integers(latest, endpoint=True))


def repeat_to(waveform: np.ndarray, samples: int) -> np.ndarray:
    """Repeat `waveform` (T,) and cut it to exactly (samples,); return it if it has that length.

    The same works for (T, channels).

    Raises:
        ValueError: the waveform is empty.
    """
    if len(waveform) >= samples:
        return waveform
    if len(waveform) == 0:
        raise ValueError("a waveform without samples cannot be repeated")
    repeated = np.empty((samples, *waveform.shape[1:]), waveform.dtype)
    done = len(waveform)
    repeated[:done] = waveform
    # The result so far is a whole number of repetitions, so it can itself be repeated.
    while done < samples:
        more = min(done, samples - done)
        repeated[done : done + more] = repeated[:more]
        done += more
    return repeated
