"""Recordings as float32 waveforms: of 16 kHz and mono, unless the settings say otherwise.

Invariant: `read_audio` returns exactly the samples that were requested, all finite, or raises. A
recording that ends early would otherwise be scored as a shorter one, and a NaN would spoil the
batch that it shares.

A path may go on into a tar (`asdf.archives`); content in memory is a `Source`. With
`audio.channels = 'all'` a waveform is (samples, channels), time first: it is cut, measured and
joined like one of a single channel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import soundfile

from asdf.audio import fallbacks
from asdf.audio.flac import decode_flac
from asdf.audio.pyav import LongTrack
from asdf.audio.recording_files import OpenRecording, cut_off, open_recording
from asdf.audio.recording_parts import INEXACT_SEEK, RecordingPart
from asdf.audio.recording_sources import AnySource, limits_of, open_source, path_of
from asdf.audio.sample_rates import (
    resample,
    resampled_length,
    resampled_position,
    source_span,
)
from asdf.errors import AsdfError
from asdf.settings.sections import USUAL_AUDIO, Audio

__all__ = ["are_plausible", "audio_length", "choose_channels", "decoded_length", "read_audio"]

# Memory for this many numbers, 64 MB, is taken at a time: a header may promise more samples than
# there are.
_NUMBERS_AT_ONCE = 2**24

# Full scale is 1. Samples of 16 bits that a program put into a file of floats unscaled reach this;
# what is larger has no loudness that a recording can have, and next to it speech is silence.
_LARGEST = 2.0**15

_FLAC_ADVICE = (
    " If other programs play it to its end, `pip install av`: ASDF then decodes it with FFmpeg."
)


@dataclass(frozen=True)
class _Span:
    """Frames `first <= i < first + len(samples)` of a file, as far as they decode.

    Attributes:
        samples: (frames, channels) float32.
        problem: Reason why they are not all that were requested; '' where they are.
    """

    first: int
    samples: np.ndarray
    problem: str = ""


def read_audio(
    path: AnySource,
    start: int = 0,
    samples: int | None = None,
    audio: Audio = USUAL_AUDIO,
) -> np.ndarray:
    """Read a recording, or `samples` of it from sample `start` on, as (T,) float32.

    `start` and `samples` count at the rate of `audio`, and only the part they name is decoded where
    the format lets one seek; the result is that of cutting the whole recording. A part that reaches
    beyond the end is cut there, as a slice is. What is not decoded is not checked.

    Args:
        audio: Rate and channels: the mean of them, or a chosen one; of 'all' (T, channels).

    Raises:
        AsdfError: the file is missing, empty, not audio, damaged or cut off, holds no samples or
            ones that are not finite, lacks the chosen channel, or `start` is beyond its end; or its
            limits do not allow it.
    """
    if start < 0 or (samples is not None and samples < 1):
        raise ValueError(f"start {start} and samples {samples} name no part of a recording")
    to = audio.sample_rate
    with open_recording(path) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate, to)
        if start >= length:
            raise AsdfError(
                f"{path} has {length} samples at {to / 1000:g} kHz, and a part from sample {start} "
                "on was requested. It was likely replaced after its length was measured: measure "
                "the utterances again."
            )
        stop = length
        if samples is not None:
            stop = min(length, start + samples)
        first, last = source_span(start, stop, rate, to)
        last = min(last, file.frames)
        limits_of(path).check_memory(path, last - first, file.channels, rate, to)
        waveform = _decode(file, path, first, last, audio.channels)
    offset = resampled_position(first, rate, to)
    resampled = resample(waveform, rate, to)
    return resampled[start - offset : stop - offset]


def audio_length(path: AnySource, audio: Audio = USUAL_AUDIO) -> int:
    """Return how many samples `read_audio(path, audio=audio)` returns, from the file's header.

    What PyAV decodes is decoded for it.

    Raises:
        AsdfError: as `read_audio`, as far as the header shows it.
    """
    with open_recording(path) as file:
        check_channel(path, file.channels, audio.channels)
        return resampled_length(file.frames, file.samplerate, audio.sample_rate)


def decoded_length(path: AnySource, audio: Audio = USUAL_AUDIO) -> int:
    """Return `audio_length(path, audio)`, once the recording has been decoded to its end.

    Raises:
        AsdfError: as `read_audio` of the whole recording.
    """
    with open_recording(path) as file:
        _decode(file, path, 0, file.frames, audio.channels)
        return resampled_length(file.frames, file.samplerate, audio.sample_rate)


def choose_channels(samples: np.ndarray, channels: int | str = "mean") -> np.ndarray:
    """Return of (frames, channels) what `audio.channels` says, contiguous.

    Their mean or one of them, (frames,); 'all': (frames, channels) as they are.
    """
    if channels == "all":
        return np.ascontiguousarray(samples)
    if isinstance(channels, int) or samples.shape[1] == 1:
        chosen = channels if isinstance(channels, int) else 0
        return np.ascontiguousarray(samples[:, chosen])
    mean: np.ndarray = samples.mean(axis=1)
    return mean


def check_channel(name: object, count: int, channels: int | str) -> None:
    """Refuse a recording of `count` channels that lacks the chosen one.

    Raises:
        AsdfError: it does.
    """
    if isinstance(channels, int) and channels >= count:
        has = "one channel, 0" if count == 1 else f"{count} channels, 0 to {count - 1}"
        raise AsdfError(
            f"{name} has {has}, and audio.channels = {channels}. Choose another channel, or take "
            "it off the list."
        )


def check_count(waveform: np.ndarray, channels: int | None, name: object) -> None:
    """Refuse a recording (T, channels) of another number of channels than the network takes.

    Raises:
        AsdfError: it has another one.
    """
    if channels is not None and waveform.shape[1:] != (channels,):
        count = waveform.shape[1] if waveform.ndim == 2 else 1
        raise AsdfError(
            f"{name} has {count} channel{'s' * (count > 1)}, and the network takes {channels} "
            "(audio.channels = 'all'). Add channels to it, or take it off the list."
        )


def channels_first(waveform: np.ndarray) -> np.ndarray:
    """Return (T, channels) as (channels, T), as networks take it, and (T,) as it is."""
    return waveform if waveform.ndim == 1 else np.ascontiguousarray(waveform.T)


def _decode(
    file: OpenRecording, path: AnySource, first: int, last: int, channels: int | str
) -> np.ndarray:
    """Return frames `first <= i < last` of the chosen channels, float32."""
    check_channel(path, file.channels, channels)
    span = _decode_span(file, path, first, last)
    if span.problem:
        advice = _FLAC_ADVICE if file.format == "FLAC" else ""
        raise AsdfError(f"{path} {cut_off(span.problem, advice)}")
    start = first - span.first
    stop = last - span.first
    chosen = choose_channels(span.samples[start:stop], channels)
    # Whole numbers can be nothing but finite.
    is_integer = file.subtype.startswith("PCM_")
    if not is_integer and not are_plausible(span.samples[start:stop]):
        raise AsdfError(f"{path} {_implausible(chosen)}")
    return chosen


def are_plausible(samples: np.ndarray) -> bool:
    """Return whether all samples are finite, and none is beyond what any full scale may be."""
    if samples.size == 0:
        return True
    # A comparison with NaN is false. Before channels are averaged: opposite ones cancel out.
    return bool(samples.max() <= _LARGEST and samples.min() >= -_LARGEST)


def _implausible(waveform: np.ndarray) -> str:
    """Return the message, to follow the path, on samples that cannot be of a recording."""
    if not np.isfinite(waveform).all():
        return (
            "holds samples that are not finite (NaN or infinity). The program that wrote "
            "it likely divided by zero: make the file again, or take it off the list."
        )
    return (
        f"holds samples beyond {_LARGEST:,.0f} times full scale. The program that wrote it likely "
        "did not scale them, or it is damaged: make the file again, or take it off the list."
    )


def _decode_span(file: OpenRecording, path: AnySource, first: int, last: int) -> _Span:
    """Decode a span that holds frames `first <= i < last`, by another way where the first fails."""
    if isinstance(file, RecordingPart):
        span = _decode_span(file.whole, path, file.first + first, file.first + last)
        return _Span(span.first - file.first, file.chosen(span.samples), span.problem)
    begin = 0 if file.subtype in INEXACT_SEEK else first
    span = _read_span(file, begin, last)
    if span.problem and begin > 0 and not isinstance(file, LongTrack):
        # Some versions of libFLAC cannot seek to some samples of sound files, and no handle
        # survives an error.
        with soundfile.SoundFile(open_source(path)) as reopened:
            span = _read_span(reopened, 0, last)
    if span.problem and file.format == "FLAC":
        limits_of(path).check_memory(path, file.frames, file.channels, file.samplerate)
        decoded = decode_flac(path, file.frames)
        if decoded is not None:
            span = _Span(0, decoded)
            file_path = path_of(path)
            if file_path is not None:
                fallbacks.note(file_path)
    return span


def _read_span(file: soundfile.SoundFile, begin: int, end: int) -> _Span:
    """Read frames `begin <= i < end` of a file that was not read before, as far as they decode."""
    channels = file.channels
    numbers = (end - begin) * channels
    numbers_at_once = _NUMBERS_AT_ONCE // channels * channels
    memory = np.empty(min(numbers, numbers_at_once), np.float32)
    decoded = 0
    requested = 0
    problem = ""
    try:
        # A file was opened at its start; to seek there again decodes a part of it.
        if begin:
            file.seek(begin)
        while decoded == requested < end - begin:
            if requested:
                more = min(numbers, len(memory) + numbers_at_once)
                memory.resize(more, refcheck=False)
            part = memory[requested * channels : numbers].reshape(-1, channels)
            decoded += len(file.read(out=part))
            requested += len(part)
            # `memory` may move when it is resized.
            del part
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip(" .")
        problem = f"{reason}; {file.frames} samples are promised by the header"
    except MemoryError:
        problem = f"{end - begin} samples are promised by the header, more than there is memory for"
    if not problem and decoded < end - begin:
        problem = f"{file.frames} samples are promised by the header, {begin + decoded} decode"
    samples = memory[: decoded * channels]
    return _Span(begin, samples.reshape(-1, channels), problem)
