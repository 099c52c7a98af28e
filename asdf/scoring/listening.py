"""What of a recording the network is to hear: samples of a file or an array, in one piece or in windows."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from asdf.archives import find_member
from asdf.audio import read_audio, repeat_to
from asdf.audio.blocks import read_blocks
from asdf.audio.resampling import SAMPLE_RATE
from asdf.audio.speech import (
    Beginning,
    SpeechLength,
    find_beginning,
    measure_speech,
    read_beginning,
    read_speech,
)
from asdf.errors import AsdfError, UsageError
from asdf.scoring.scorer import Scorer
from asdf.scoring.waveforms import as_waveform
from asdf.scoring.whole_recording import is_silent

# What is read of a file at a time, at least: a seek and a call for each short window would cost
# more.
_BLOCK = 30 * SAMPLE_RATE


def measure(scorer: Scorer, path: Path) -> SpeechLength:
    """Samples of speech in a file, and of the file; without speech activity detection from the header alone.

    Raises:
        AsdfError: the file cannot be read.
    """
    return measure_speech(present(path), scorer.sad)


def hear(scorer: Scorer, recording: Any, sample_rate: int | None = None) -> Beginning:
    """As much of a recording as counts in a trial.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if is_path(recording):
        _refuse_rate(sample_rate)
        return read_beginning(present(recording), scorer.sad, scorer.most)
    return find_beginning(as_waveform(recording, sample_rate), scorer.sad, scorer.most)


def hear_repeated(scorer: Scorer, path: Path, samples: int) -> tuple[np.ndarray, bool]:
    """(samples,) of a file's speech, repeated where there are fewer, and whether it is silent.

    Raises:
        AsdfError: the file cannot be read.
    """
    speech = read_speech(path, scorer.sad, 0, samples)
    return repeat_to(speech, samples), is_silent(speech)


def blocks_of(recording: Any, sample_rate: int | None, window: int) -> Iterable[np.ndarray]:
    """A whole recording in blocks of a window or more, without speech activity detection; a file is decoded once.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if not is_path(recording):
        return [as_waveform(recording, sample_rate)]
    _refuse_rate(sample_rate)
    return read_blocks(present(recording), max(window, _BLOCK))


def whole_waveform(recording: Any, sample_rate: int | None) -> np.ndarray:
    """All samples of a file or an array, at 16 kHz.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if not is_path(recording):
        return as_waveform(recording, sample_rate)
    _refuse_rate(sample_rate)
    return read_audio(present(recording))


def is_path(recording: Any) -> bool:
    """Whether a recording is the name of a file."""
    return isinstance(recording, str | os.PathLike)


def present(path: str | os.PathLike[str]) -> Path:
    """`path`, which is a file or in an archive.

    Raises:
        AsdfError: there is no such file.
    """
    if not Path(path).exists() and find_member(path) is None:
        raise AsdfError(
            f"there is no file {path}. Check the path; a relative one is relative to {Path.cwd()}."
        )
    return Path(path)


def _refuse_rate(sample_rate: int | None) -> None:
    if sample_rate is not None:
        raise UsageError("sample_rate is for arrays: a file states its own. Leave it out.")
