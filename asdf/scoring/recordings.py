"""Recordings that a program passes to be scored: paths, file contents, file objects, samples.

Invariant: the same samples get the same score in any form. Other types are refused before anything
is read, and content is never taken for a path. Ambiguous or invalid samples (no sampling rate, NaN,
a batch of utterances) are refused, because a network gives a score for anything.
"""

from __future__ import annotations

import io
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from asdf.audio import audio_length, read_audio
from asdf.audio.channels import (
    Comparison,
    check_channel,
    choose_channels,
    compare_samples,
    difference_of,
)
from asdf.audio.reading import find_fault, read_blocks
from asdf.audio.recording_sources import Limits, Source
from asdf.audio.sample_rates import resample
from asdf.audio.speech import (
    SpeechLength,
    cut_to_speech,
    measure_speech,
    needs_whole_recording,
    read_speech,
)
from asdf.errors import AsdfError, UsageError
from asdf.places import Part, part_path, split_part
from asdf.settings.sections import USUAL_AUDIO, Audio, SpeechActivity

MAX_CHANNELS = 16
# Same limit as in `asdf.audio.recording_files`: at 1 Hz, a second of samples becomes hours.
_LOWEST_RATE = 1000
_HIGHEST_RATE = 1_000_000
_INTEGERS = {"int16": 2.0**15, "int32": 2.0**31}

# Minimum number of seconds of a file that are read at a time: a seek and a call for each short
# window would cost more.
_BLOCK_S = 30
_CONTENT = bytes | bytearray | memoryview
# Types that are one recording; a list of them is several recordings.
_NAMED = (str, bytes, bytearray, os.PathLike)
_READ_AT_ONCE = 2**20
# A stream may be endless.
_MAX_CONTENT = 2**31


def as_waveform(
    array: Any, sample_rate: Any, limits: Limits | None = None, audio: Audio = USUAL_AUDIO
) -> np.ndarray:
    """Return samples of any rate in the format that `asdf.audio.read_audio` returns.

    Args:
        array: Samples, (samples,), (samples, channels) or (channels, samples), where the longer
            axis is that of the samples; an array or tensor of floats with full scale 1, of int16 or
            of int32.
        sample_rate: Sampling rate of the array, in Hz.
        limits: Limits on what is computed from the array.
        audio: Rate and channels that the network hears.

    Raises:
        UsageError: the rate is missing or not a whole number, the type or shape is not supported,
            there are no samples, samples are not finite, or floats are on an integer scale.
        AsdfError: the array is longer than the limits allow, or lacks the chosen channel.
    """
    rate = check_rate(sample_rate)
    frames = _as_frames(array, audio)
    if not len(frames):
        raise UsageError("the array holds no samples.")
    check_channel("the array", frames.shape[1], audio.channels)
    averaged: tuple[int, ...] = ()
    if audio.channels == "mean" and frames.shape[1] > 1:
        averaged = compare_samples(frames, rate).heard
    heard = choose_channels(frames, audio.channels, averaged)
    if limits is not None:
        limits.check_seconds("the array", len(heard) / rate)
        limits.check_memory("the array", len(heard), 1, rate, audio.sample_rate)
    return resample(heard, rate, audio.sample_rate)


def as_chunk(
    array: Any, channels: int | str = "mean", compared: Comparison | None = None
) -> np.ndarray:
    """Return the next samples of a recording as float32 at their rate, for the chosen channels.

    Args:
        array: Samples, (samples,) or (samples, channels), of the types of `as_waveform`; may be
            empty.
        compared: Comparison of the channels that are averaged, which goes on with this chunk.

    Raises:
        UsageError: as `as_waveform`.
    """
    samples = _as_floats(array)
    is_frames = samples.ndim == 2 and 1 <= samples.shape[1] <= MAX_CHANNELS
    if samples.ndim != 1 and not is_frames:
        raise UsageError(
            f"an array of shape {samples.shape} is no chunk: give (samples,) or (samples, "
            f"channels) with up to {MAX_CHANNELS} channels."
        )
    if is_frames and channels == "mean":
        if compared is not None:
            compared.add(samples)
        samples = samples.mean(axis=1, dtype=np.float32)
    if channels != "mean":
        frames = samples if samples.ndim == 2 else samples[:, None]
        check_channel("the array", frames.shape[1], channels)
        samples = choose_channels(frames, channels)
    # Copy the samples, because the program may refill its buffer.
    return np.array(samples)


def _as_floats(array: Any) -> np.ndarray:
    """Return an array or tensor as float32 with full scale 1."""
    # numpy cannot read a tensor that requires gradients or is on a GPU.
    if hasattr(array, "detach"):
        array = array.detach().cpu()
    samples = np.asarray(array)
    if samples.dtype.name in _INTEGERS:
        samples = samples.astype(np.float64) / _INTEGERS[samples.dtype.name]
    elif samples.dtype.kind != "f":
        raise UsageError(
            f"samples of type {samples.dtype}: give floats with full scale 1, int16 or int32."
        )
    samples = samples.astype(np.float32)
    fault = find_fault(samples)
    if fault:
        raise UsageError(f"the array {fault}")
    return samples


def _as_frames(array: Any, audio: Audio) -> np.ndarray:
    """Return a recording as (samples, channels) float32."""
    samples = _as_floats(array)
    if samples.ndim == 1:
        return samples[:, None]
    is_plane = samples.ndim == 2
    if not is_plane or samples.shape[0] == samples.shape[1] or min(samples.shape) > MAX_CHANNELS:
        raise UsageError(
            f"an array of shape {samples.shape} is not one recording: give (samples,), (samples, "
            f"channels) or (channels, samples) with up to {MAX_CHANNELS} channels."
        )
    frames: np.ndarray = samples if samples.shape[0] > samples.shape[1] else samples.T
    if frames is not samples and audio.channels == "mean" and frames.shape[1] > 2:
        raise UsageError(
            f"an array of shape {samples.shape} may be a batch of utterances, for `score_many`: "
            "give channels as (samples, channels)."
        )
    return frames


def check_rate(sample_rate: Any, name: str = "an array") -> int:
    """Return a sampling rate as a whole number.

    Raises:
        UsageError: it is not a whole number, or not a rate at which speech is recorded.
    """
    try:
        rate = int(sample_rate)
    except (TypeError, ValueError, OverflowError):
        rate = 0
    if rate != sample_rate or not _LOWEST_RATE <= rate <= _HIGHEST_RATE:
        raise UsageError(
            f"{name} needs its sample_rate in Hz, a whole number from {_LOWEST_RATE:,} to "
            f"{_HIGHEST_RATE:,}; it is {sample_rate!r}."
        )
    return rate


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

    def differing(self) -> tuple[str, Sequence[Recording]]:
        """Return the channels or sound tracks that are not the same sound, and why they are not.

        Known once the recording was read; without any, ('', ()).
        """
        return "", ()

    @abstractmethod
    def read_whole(self) -> np.ndarray:
        """Read the whole recording without speech activity detection: (T,) float32.

        Raises:
            AsdfError: it cannot be read.
        """

    @abstractmethod
    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        """Read the whole recording in blocks of `window` samples or more, decoding a file once.

        Raises as `read_whole`.
        """

    def measure(self, sad: SpeechActivity) -> SpeechLength:
        """Measure the speech and the recording. Raises as `read_whole`."""
        whole = self.read_whole()
        speech = cut_to_speech(whole, sad, self.audio.sample_rate)
        return SpeechLength(len(speech), len(whole))

    def read_speech(self, sad: SpeechActivity, samples: int) -> np.ndarray:
        """Read up to `samples` of speech. Raises as `read_whole`."""
        return cut_to_speech(self.read_whole(), sad, self.audio.sample_rate)[:samples]

    def read_beginning(self, sad: SpeechActivity, samples: int) -> tuple[np.ndarray, SpeechLength]:
        """Read speech as `read_speech`, and measure it as `measure`."""
        whole = self.read_whole()
        speech = cut_to_speech(whole, sad, self.audio.sample_rate)
        return speech[:samples], SpeechLength(len(speech), len(whole))


@dataclass(frozen=True)
class FileRecording(Recording):
    """A file, or the content of one."""

    source: Source

    def measure(self, sad: SpeechActivity) -> SpeechLength:
        return measure_speech(self.source, sad, audio=self.audio)

    def read_speech(self, sad: SpeechActivity, samples: int) -> np.ndarray:
        return read_speech(self.source, sad, 0, samples, self.audio)

    def read_beginning(self, sad: SpeechActivity, samples: int) -> tuple[np.ndarray, SpeechLength]:
        if needs_whole_recording(sad):
            return super().read_beginning(sad, samples)
        waveform = read_audio(self.source, 0, samples, self.audio)
        length = len(waveform)
        if length == samples:
            # Only a recording that may have been cut requires reading its header again.
            length = audio_length(self.source, self.audio)
        return waveform, SpeechLength(length, length)

    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        block = max(window, _BLOCK_S * self.audio.sample_rate)
        return read_blocks(self.source, block, self.audio)

    def read_whole(self) -> np.ndarray:
        return read_audio(self.source, audio=self.audio)

    def differing(self) -> tuple[str, Sequence[FileRecording]]:
        found = difference_of(self.source)
        if found is None or (found[0] == "channel" and self.audio.channels != "mean"):
            return "", ()
        name, part = self.name, None
        if self.path is not None:
            name, part = split_part(name)
        kind, relation = found
        sides = []
        for number in relation.heard:
            chosen = part or Part()
            if kind == "track":
                chosen = chosen._replace(track=number)
            else:
                chosen = chosen._replace(channel=number)
            side = part_path(name, chosen)
            path = None if self.path is None else Path(side)
            source = replace(self.source, name=side, part=chosen)
            sides.append(replace(self, name=side, path=path, source=source))
        return relation.why, sides


@dataclass(frozen=True)
class ArrayRecording(Recording):
    """Samples in memory."""

    samples: Any
    sample_rate: int
    limits: Limits

    def read_whole(self) -> np.ndarray:
        """Return the samples as the network hears them, computed once."""
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

    def differing(self) -> tuple[str, Sequence[Recording]]:
        frames = _as_frames(self.samples, self.audio)
        if self.audio.channels != "mean" or frames.shape[1] == 1:
            return "", ()
        relation = compare_samples(frames, self.sample_rate)
        sides = []
        for number in relation.heard if relation.why else ():
            name = part_path(self.name, Part(channel=number))
            sides.append(replace(self, name=name, audio=replace(self.audio, channels=number)))
        return relation.why, sides

    def read_in_blocks(self, window: int) -> Iterable[np.ndarray]:
        return [self.read_whole()]


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
            raise UsageError(f"{name_of(value, index)}: `score_many` scores several recordings.")
        is_pair = isinstance(value, tuple) and len(value) == 2
        # A pair of numbers is two samples.
        if sample_rate is None and is_pair and not isinstance(value[0], int | float):
            value, sample_rate = value
    limits = limits or Limits()
    name, position = name_of(value, index), index or 0
    is_path = isinstance(value, str | os.PathLike)
    is_content = isinstance(value, _CONTENT)
    is_file = is_path or is_content or hasattr(value, "read")
    if is_file and sample_rate is not None:
        raise UsageError(f"{name}: sample_rate is for samples; a file states its own.")
    if is_path:
        return FileRecording(position, name, Path(value), audio, Source(name, limits=limits))
    if is_file:
        content = bytes(value) if is_content else _read_to_end(value, name, limits)
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


def _read_to_end(file: Any, name: str, limits: Limits) -> bytes:
    """Read a file object from its position to its end."""
    largest = _MAX_CONTENT if limits.memory is None else min(limits.memory, _MAX_CONTENT)
    content = io.BytesIO()
    while True:
        try:
            part = file.read(_READ_AT_ONCE)
        except (OSError, ValueError) as error:
            # ValueError: the file object is closed.
            raise AsdfError(f"{name} cannot be read: {error}.") from error
        if not isinstance(part, bytes | bytearray):
            raise UsageError(
                f"{name} returns {type(part).__name__} instead of bytes. Open it in binary mode, "
                "as open(path, 'rb'); if it is asynchronous, read the bytes and pass them."
            )
        if not part:
            return content.getvalue()
        content.write(part)
        if content.tell() > largest:
            raise AsdfError(
                f"{name} holds more than {largest:,} bytes. Give its path, or raise memory_limit."
            )
