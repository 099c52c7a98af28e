"""The speech of a recording: the samples that count in training, in measuring and in scoring.

Invariant: whoever reads a recording through this file gets the same samples for the same settings.
Without speech activity detection the speech is the whole recording, of which a part can be read by
itself. With it the whole recording is decoded first, since whether a frame is speech depends on the
loudest one, which may be the last.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from asdf.audio.reading import audio_length, decoded_length, read_audio
from asdf.audio.recording_sources import AnySource
from asdf.audio.speech_activity import cut_to_speech
from asdf.settings.sections import SpeechActivity


@dataclass(frozen=True)
class SpeechLength:
    """Samples at 16 kHz of a recording's speech, and of the recording."""

    speech: int
    recording: int


@dataclass(frozen=True)
class Beginning:
    """The first samples of a recording's speech.

    Attributes:
        waveform: (T,) float32.
        length: Length of all of the speech, and of the recording.
    """

    waveform: np.ndarray
    length: SpeechLength


def needs_whole_recording(sad: SpeechActivity) -> bool:
    """Return whether no sample of speech is known before a recording is decoded to its end."""
    return sad.mode != "off"


def read_speech(
    path: AnySource,
    sad: SpeechActivity,
    start: int = 0,
    samples: int | None = None,
) -> np.ndarray:
    """Read a recording's speech, or `samples` of it from sample `start` on.

    (T,) float32 at 16 kHz, mono. A part that reaches beyond the end of the speech is cut there, as
    a slice is.

    Raises:
        AsdfError: as `read_audio`.
        UsageError: the detector of speech is not installed.
    """
    if not needs_whole_recording(sad):
        return read_audio(path, start, samples)
    stop = None if samples is None else start + samples
    return cut_to_speech(read_audio(path), sad)[start:stop]


def read_beginning(path: AnySource, sad: SpeechActivity, samples: int) -> Beginning:
    """Read up to `samples` of a recording's speech from its start, and measure the recording.

    Raises:
        AsdfError, UsageError: as `read_speech`.
    """
    if needs_whole_recording(sad):
        return find_beginning(read_audio(path), sad, samples)
    waveform = read_audio(path, 0, samples)
    length = len(waveform)
    if length == samples:
        # Only a recording that may have been cut needs a second look at the file.
        length = audio_length(path)
    return Beginning(waveform, SpeechLength(length, length))


def find_beginning(waveform: np.ndarray, sad: SpeechActivity, samples: int) -> Beginning:
    """Return up to `samples` of the speech in a whole recording (T,), T >= 1, at 16 kHz."""
    speech = cut_to_speech(waveform, sad)
    return Beginning(speech[:samples], SpeechLength(len(speech), len(waveform)))


def measure_speech(path: AnySource, sad: SpeechActivity, decode: bool = False) -> SpeechLength:
    """Measure what `read_speech(path, sad)` returns; from the header alone where that is enough.

    Args:
        decode: True to decode the recording to its end in any case, to know that it is whole.

    Raises:
        AsdfError, UsageError: as `read_speech`; without decoding, as far as the header shows it.
    """
    if needs_whole_recording(sad):
        waveform = read_audio(path)
        return SpeechLength(len(cut_to_speech(waveform, sad)), len(waveform))
    length = decoded_length(path) if decode else audio_length(path)
    return SpeechLength(length, length)
