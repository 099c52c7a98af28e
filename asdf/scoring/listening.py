"""What of a recording the network hears: samples of a file or an array, at once or in blocks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from asdf.archives import find_member
from asdf.audio import read_audio
from asdf.audio.blocks import read_blocks
from asdf.audio.speech import Beginning, find_beginning, read_beginning
from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.scoring.waveforms import as_waveform
from asdf.settings.sections import SpeechActivity

# At least so much of a file is read at a time: a seek and a call for each short window would cost
# more.
_BLOCK = 30 * SAMPLE_RATE


def read_trial(
    recording: Any, sample_rate: int | None, sad: SpeechActivity, max_samples: int
) -> Beginning:
    """Read as much of a recording as counts in a trial: up to `max_samples` of its speech.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if not is_path(recording):
        return find_beginning(as_waveform(recording, sample_rate), sad, max_samples)
    _refuse_rate(sample_rate)
    return read_beginning(check_exists(recording), sad, max_samples)


def read_in_blocks(recording: Any, sample_rate: int | None, window: int) -> Iterable[np.ndarray]:
    """Read a whole recording in blocks of `window` samples or more; a file is decoded once.

    Without speech activity detection.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if not is_path(recording):
        return [as_waveform(recording, sample_rate)]
    _refuse_rate(sample_rate)
    return read_blocks(check_exists(recording), max(window, _BLOCK))


def read_whole(recording: Any, sample_rate: int | None) -> np.ndarray:
    """Read all samples of a file or an array, at 16 kHz, without speech activity detection.

    Raises:
        AsdfError: it cannot be read, or is no recording.
    """
    if not is_path(recording):
        return as_waveform(recording, sample_rate)
    _refuse_rate(sample_rate)
    return read_audio(check_exists(recording))


def is_path(recording: Any) -> bool:
    """Return whether a recording is the name of a file.

    Raises:
        UsageError: it is bytes, which are neither a path nor samples.
    """
    if isinstance(recording, bytes | bytearray | memoryview):
        raise UsageError(
            f"a recording cannot be {type(recording).__name__}: give the path of a file, or its "
            "samples as an array with their sample_rate. The content of an audio file that is in "
            "memory is decoded by soundfile.read(io.BytesIO(content)), which gives both."
        )
    return isinstance(recording, str | os.PathLike)


def check_exists(path: str | os.PathLike[str]) -> Path:
    """Return `path`, which is a file or a member of an archive.

    Raises:
        AsdfError: it is neither.
    """
    if not Path(path).exists() and find_member(path) is None:
        raise AsdfError(
            f"there is no file {path}. Check the path; a relative one is relative to {Path.cwd()}."
        )
    return Path(path)


def _refuse_rate(sample_rate: int | None) -> None:
    if sample_rate is not None:
        raise UsageError("sample_rate is for arrays: a file states its own. Leave it out.")
