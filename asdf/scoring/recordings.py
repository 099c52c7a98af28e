"""Recordings that a program passes to be scored: paths, file contents, file objects, samples.

Invariant: the same samples get the same score in any form. Other types are refused before anything
is read, and content is never taken for a path.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from asdf.audio import read_audio
from asdf.audio.recording_sources import Limits, Source
from asdf.audio.speech import (
    Beginning,
    SpeechLength,
    cut_to_speech,
    find_beginning,
    measure_speech,
    read_beginning,
    read_speech,
)
from asdf.audio.streaming import read_blocks
from asdf.errors import AsdfError, UsageError
from asdf.places import file_size
from asdf.scoring.waveforms import as_waveform, check_rate
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity
from asdf.text import from_here, is_address

# Minimum number of seconds of a file that are read at a time: a seek and a call for each short
# window would cost more.
_BLOCK_S = 30

_CONTENT = bytes | bytearray | memoryview
# Types that are one recording; a list of them is several recordings.
_NAMED = (str, bytes, bytearray, os.PathLike)
_READ_AT_ONCE = 2**20
# A stream may be endless.
_MAX_CONTENT = 2**31


@dataclass(frozen=True)
class Recording(ABC):
    """A recording to be scored.

    Attributes:
        index: Index of the recording among those that are scored together.
        name: Path, or the name in messages.
        path: Path of the recording; None for recordings in memory.
        audio: Rate and channels that the recording is read with.
    """

    index: int
    name: str
    path: Path | None
    audio: Audio

    def heard_as(self, audio: Audio) -> Recording:
        """Return the recording with the rate and channels that a network hears."""
        return self if audio == self.audio else replace(self, audio=audio)

    @abstractmethod
    def measure(self, sad: SpeechActivity) -> SpeechLength:
        """Measure the speech and the recording. Raises an AsdfError if it cannot be read."""

    @abstractmethod
    def read_speech(self, sad: SpeechActivity, samples: int) -> np.ndarray:
        """Read up to `samples` of speech: (T,) float32. Raises as `measure`."""

    @abstractmethod
    def read_beginning(self, sad: SpeechActivity, samples: int) -> Beginning:
        """Read speech as `read_speech`, and measure it. Raises as `measure`."""

    @abstractmethod
    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        """Read the whole recording in blocks of `window` samples or more, decoding a file once.

        Without speech activity detection. Raises as `measure`.
        """

    @abstractmethod
    def read_whole(self) -> np.ndarray:
        """Read the whole recording without speech activity detection. Raises as `measure`."""


@dataclass(frozen=True)
class FileRecording(Recording):
    """A file, or the content of one."""

    source: Path | Source

    def measure(self, sad: SpeechActivity) -> SpeechLength:
        return measure_speech(self._checked(), sad, audio=self.audio)

    def read_speech(self, sad: SpeechActivity, samples: int) -> np.ndarray:
        return read_speech(self.source, sad, 0, samples, self.audio)

    def read_beginning(self, sad: SpeechActivity, samples: int) -> Beginning:
        return read_beginning(self._checked(), sad, samples, self.audio)

    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        block = max(window, _BLOCK_S * self.audio.sample_rate)
        return read_blocks(self._checked(), block, self.audio)

    def read_whole(self) -> np.ndarray:
        return read_audio(self._checked(), audio=self.audio)

    def _checked(self) -> Path | Source:
        """Return the source after checking that it exists.

        Raises:
            AsdfError: its path is neither a file nor a member of an archive.
        """
        path = self.path
        if path is not None and not path.exists() and file_size(path) is None:
            if is_address(self.name):
                raise AsdfError(
                    f"{self.name} is an address: give the path or the content of a file, or mount "
                    "the store."
                )
            advice = "Check the path."
            if path.is_absolute():
                advice = "Check the path; one in a list is relative to the list's folder."
            raise AsdfError(f"there is no file {path}{from_here(path)}. {advice}")
        return self.source


@dataclass(frozen=True)
class ArrayRecording(Recording):
    """Samples in memory."""

    samples: Any
    sample_rate: int
    limits: Limits

    @property
    def _waveform(self) -> np.ndarray:
        """The samples as the network hears them, computed once."""
        # cached_property is not used because before Python 3.12 it shares one lock between all
        # recordings: threads would wait for each other, and a process that is forked meanwhile
        # would wait forever.
        attributes = vars(self)
        if "waveform" not in attributes:
            attributes["waveform"] = as_waveform(
                self.samples, self.sample_rate, self.limits, self.audio
            )
        waveform: np.ndarray = attributes["waveform"]
        return waveform

    def measure(self, sad: SpeechActivity) -> SpeechLength:
        speech = cut_to_speech(self._waveform, sad, self.audio.sample_rate)
        return SpeechLength(len(speech), len(self._waveform))

    def read_speech(self, sad: SpeechActivity, samples: int) -> np.ndarray:
        return cut_to_speech(self._waveform, sad, self.audio.sample_rate)[:samples]

    def read_beginning(self, sad: SpeechActivity, samples: int) -> Beginning:
        return find_beginning(self._waveform, sad, samples, self.audio.sample_rate)

    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        return [self._waveform]

    def read_whole(self) -> np.ndarray:
        return self._waveform


def as_recording(
    value: Any,
    sample_rate: Any = None,
    index: int | None = None,
    limits: Limits | None = None,
    audio: Audio = USUAL_AUDIO,
) -> Recording:
    """Return the value that a program passes as a recording; read a file object to its end.

    Args:
        value: Path; content of a file as bytes, bytearray or memoryview; file object opened in
            binary mode; samples as in `as_waveform`; or a pair (samples, sample_rate).
        sample_rate: Sampling rate of samples, in Hz.
        index: Index among several recordings, for messages.
        audio: Rate and channels that the recording is read with.

    Raises:
        UsageError: it is none of these, or samples come without a rate; the message names index and
            type.
        AsdfError: a file object cannot be read, or holds more than the limits allow.
    """
    if isinstance(value, list | tuple):
        if value and all(isinstance(part, _NAMED) for part in value):
            raise UsageError(
                f"{name_of(value, index)} names {len(value)} recordings, and this takes one: "
                "`score_many` scores several."
            )
        is_pair = isinstance(value, tuple) and len(value) == 2
        # A pair of numbers is two samples.
        if sample_rate is None and is_pair and not isinstance(value[0], int | float):
            value, sample_rate = value
    limits = limits or Limits()
    name, position = name_of(value, index), index or 0
    if isinstance(value, str | os.PathLike):
        _refuse_rate(sample_rate, name)
        path = Path(value)
        source: Path | Source = path
        if limits != Limits():
            source = Source(name, limits=limits)
        return FileRecording(position, name, path, audio, source)
    if isinstance(value, _CONTENT) or hasattr(value, "read"):
        _refuse_rate(sample_rate, name)
        if isinstance(value, _CONTENT):
            content = bytes(value)
        else:
            content = _read_to_end(value, name, limits)
        return FileRecording(position, name, None, audio, Source(name, content, limits))
    is_array = isinstance(value, list | tuple) or hasattr(value, "__array__")
    if not is_array and not hasattr(value, "detach"):
        raise UsageError(
            f"{name} cannot be scored: give a path, the content of a file as bytes, a file object, "
            "or samples with their sample_rate."
        )
    sample_rate = check_rate(sample_rate, name)
    return ArrayRecording(position, name, None, audio, value, sample_rate, limits)


def name_of(value: Any, index: int | None) -> str:
    """Return the path of a recording, or its name in messages."""
    if isinstance(value, str | os.PathLike):
        return os.fsdecode(value)
    number = "the recording" if index is None else f"recording {index}"
    return f"{number} ({type(value).__name__})"


def _refuse_rate(sample_rate: Any, name: str) -> None:
    if sample_rate is not None:
        raise UsageError(
            f"{name}: sample_rate is for samples; a file states its own. Leave it out."
        )


def _read_to_end(file: Any, name: str, limits: Limits) -> bytes:
    """Read a file object from its position to its end."""
    if isinstance(file, io.TextIOBase):
        raise UsageError(
            f"{name} is open in text mode: open it in binary mode, as open(path, 'rb')."
        )
    largest = _MAX_CONTENT if limits.memory is None else min(limits.memory, _MAX_CONTENT)
    content = io.BytesIO()
    while part := _read_part(file, name):
        content.write(part)
        if content.tell() > largest:
            raise AsdfError(
                f"{name} holds more than {largest:,} bytes. Give the path of a large file, which "
                "is read in parts; or raise the limit memory_limit."
            )
    return content.getvalue()


def _read_part(file: Any, name: str) -> bytes:
    try:
        part = file.read(_READ_AT_ONCE)
    except (OSError, ValueError) as error:
        # ValueError: the file object is closed.
        raise AsdfError(f"{name} cannot be read: {error}.") from error
    if not isinstance(part, bytes | bytearray):
        kind = type(part).__name__
        raise UsageError(
            f"{name} returns {kind} instead of bytes. Open it in binary mode; if it is "
            "asynchronous or non-blocking, read the bytes and pass them."
        )
    return bytes(part)
