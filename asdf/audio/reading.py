"""Recordings as float32 waveforms, 16 kHz and mono unless the settings say otherwise.

Invariant: `read_audio` returns exactly the requested samples, all finite, or raises. Otherwise a
truncated recording would be scored as a shorter one, and a NaN would affect its batch.

A path may lead into another place than a folder (`asdf.places`); content in memory is a `Source`.
With `audio.channels = 'all'`, a waveform is (samples, channels), time first, and is cut, measured
and joined like a single channel.

A recording in chunks or blocks, resampled without holding it whole in memory.

Invariant: the samples do not depend on the division into chunks: a block of output is computed from
the same span of input, whenever that arrives. The concatenated blocks equal `read_audio` of the
whole recording (up to rounding if it is resampled). Each part of a file is decoded once, even in
formats without seeking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soundfile

from asdf.audio.channels import BLOCK_S, compare, cut_blocks
from asdf.audio.pyav import LongTrack, decode_flac
from asdf.audio.recording_files import (
    INEXACT_SEEK,
    OpenRecording,
    RecordingPart,
    cut_off,
    open_recording,
)
from asdf.audio.recording_sources import AnySource, limits_of, open_source, recall, remember
from asdf.audio.sample_rates import resample, resampled_length, resampled_position, source_span
from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.settings.sections import USUAL_AUDIO, Audio

__all__ = ["audio_length", "choose_channels", "decoded_length", "find_fault", "read_audio"]

# Memory is allocated for this many numbers, 64 MB, at a time, since a header may promise more
# samples than there are.
_NUMBERS_AT_ONCE = 2**24

# Full scale of floats is 1, with headroom for what was mixed or decoded without clipping. Larger
# samples are on another scale, on which a network gives any score.
_LARGEST = 8.0


@dataclass(frozen=True)
class _Span:
    """Frames `first <= i < first + len(samples)` of a file, as far as they can be decoded.

    Attributes:
        samples: Samples, (frames, channels) float32.
        problem: Reason why some requested frames are missing; '' if none are.
    """

    first: int
    samples: np.ndarray
    problem: str = ""


def read_audio(
    path: AnySource, start: int = 0, samples: int | None = None, audio: Audio = USUAL_AUDIO
) -> np.ndarray:
    """Read a recording, or `samples` of it from sample `start` on, as (T,) float32.

    `start` and `samples` are at the rate of `audio`, and only this part is decoded if the format
    supports seeking; the result equals a cut of the whole recording. A part that extends beyond the
    end is cut there, like a slice. Samples that are not decoded are not checked.

    Args:
        audio: Sampling rate and channels: the mean of those that are not silent, a selected one, or
            'all' for (T, channels).

    Raises:
        AsdfError: the file is missing, empty, not audio, damaged or truncated, holds no samples or
            samples that are not finite, lacks the selected channel, or exceeds its limits; or
            `start` is beyond its end.
    """
    if start < 0 or (samples is not None and samples < 1):
        raise ValueError(f"start {start} and samples {samples} are not a part of a recording")
    to = audio.sample_rate
    with open_recording(path, is_measured=samples is not None) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate, to)
        if start >= length:
            raise AsdfError(
                f"{path} has {length} samples at {to / 1000:g} kHz, but a part from sample {start} "
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
    """Return the number of samples of `read_audio(path, audio=audio)`, from the file's header.

    Formats that need PyAV are decoded for this.

    Raises:
        AsdfError: as in `read_audio`, as far as the header shows it.
    """
    with open_recording(path) as file:
        check_channel(path, file.channels, audio.channels)
        return resampled_length(file.frames, file.samplerate, audio.sample_rate)


def decoded_length(path: AnySource, audio: Audio = USUAL_AUDIO) -> int:
    """Return `audio_length(path, audio)`, after decoding the recording to its end.

    Raises:
        AsdfError: as in `read_audio` for the whole recording.
    """
    with open_recording(path) as file:
        _decode(file, path, 0, file.frames, audio.channels)
        return resampled_length(file.frames, file.samplerate, audio.sample_rate)


def choose_channels(
    samples: np.ndarray, channels: int | str = "mean", heard: tuple[int, ...] = ()
) -> np.ndarray:
    """Select the channels that `audio.channels` requests from (frames, channels), contiguous.

    The result is the mean of those that are `heard`, or one, (frames,), or with 'all' (frames,
    channels).
    """
    if channels == "all":
        return np.ascontiguousarray(samples)
    if isinstance(channels, int) or samples.shape[1] == 1:
        chosen = channels if isinstance(channels, int) else 0
        return np.ascontiguousarray(samples[:, chosen])
    if 0 < len(heard) < samples.shape[1]:
        samples = samples[:, list(heard)]
    mean: np.ndarray = samples.mean(axis=1)
    return mean


def heard_channels(
    path: AnySource, file: OpenRecording, whole: np.ndarray | None = None
) -> tuple[int, ...]:
    """Return the channels of a recording that are averaged: those that are not silent.

    Args:
        file: The same recording, open.
        whole: All its samples, (frames, channels), if they are in memory.
    """
    if file.channels == 1:
        return (0,)
    found = recall(path, "channel")
    if found is None:
        size = BLOCK_S * file.samplerate

        def blocks() -> Iterator[np.ndarray]:
            return _read_blocks(path, size) if whole is None else cut_blocks(whole, size)

        found = remember(path, "channel", compare(blocks, file.samplerate))
    return found.heard


def _read_blocks(path: AnySource, size: int) -> Iterator[np.ndarray]:
    """Yield the frames of a recording, as far as they decode: readers name what is damaged."""
    with open_recording(path, is_measured=True) as file:
        frames = size
        while frames == size:
            try:
                block = file.read(size, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError:
                return
            frames = len(block)
            if frames:
                yield block


def check_channel(name: object, count: int, channels: int | str) -> None:
    """Refuse a recording of `count` channels that lacks the selected one.

    Raises:
        AsdfError: the channel does not exist.
    """
    if isinstance(channels, int) and channels >= count:
        has = "one channel, 0" if count == 1 else f"{count} channels, 0 to {count - 1}"
        raise AsdfError(
            f"{name} has {has}, but audio.channels = {channels}. Choose another channel, or take "
            "it off the list."
        )


def check_count(waveform: np.ndarray, channels: int | None, name: object) -> None:
    """Refuse a recording (T, channels) with another number of channels than the network takes.

    Raises:
        AsdfError: the numbers differ.
    """
    if channels is not None and waveform.shape[1:] != (channels,):
        count = waveform.shape[1] if waveform.ndim == 2 else 1
        raise AsdfError(
            f"{name} has {count} channel{'s' * (count > 1)}, but the network takes {channels} "
            "(audio.channels = 'all'). Add channels to it, or take it off the list."
        )


def channels_first(waveform: np.ndarray) -> np.ndarray:
    """Return (T, channels) as (channels, T), the layout of networks, and (T,) unchanged."""
    return waveform if waveform.ndim == 1 else np.ascontiguousarray(waveform.T)


def _decode(
    file: OpenRecording, path: AnySource, first: int, last: int, channels: int | str
) -> np.ndarray:
    """Return frames `first <= i < last` of the selected channels, float32."""
    check_channel(path, file.channels, channels)
    span = _decode_span(file, path, first, last)
    if span.problem:
        raise AsdfError(f"{path} {cut_off(span.problem)}")
    start = first - span.first
    stop = last - span.first
    samples = span.samples[start:stop]
    # Integers are always finite, and on their scale.
    fault = "" if file.subtype.startswith("PCM_") else find_fault(samples)
    if fault:
        raise AsdfError(f"{path} {fault}")
    heard: tuple[int, ...] = ()
    if channels == "mean":
        heard = heard_channels(path, file, samples if len(samples) == file.frames else None)
    return choose_channels(samples, channels, heard)


def find_fault(samples: np.ndarray) -> str:
    """Return why samples (frames, channels) are no sound, to follow their name; '' if they may be.

    Called before averaging, where opposite values cancel.
    """
    if samples.size == 0:
        return ""
    level = float(max(samples.max(), -samples.min()))
    # A comparison with NaN is false.
    if not level < np.inf:
        return (
            "holds samples that are not finite (NaN or infinity): the program that wrote them "
            "likely divided by zero. Make them again."
        )
    are_integers = level > 1 and not np.any(samples % 1)
    if level <= _LARGEST and not are_integers:
        return ""
    kind = "integers written as floats" if are_integers else "floats"
    return (
        f"holds {kind} up to {level:.4g}, but the full scale of floats is 1. They were likely "
        "integers before: divide them by their full scale (32768 for 16 bits), or give them as "
        "int16."
    )


def _decode_span(file: OpenRecording, path: AnySource, first: int, last: int) -> _Span:
    """Decode a span with frames `first <= i < last`, with a second method if the first fails."""
    if isinstance(file, RecordingPart):
        span = _decode_span(file.whole, path, file.first + first, file.first + last)
        return _Span(span.first - file.first, file.chosen(span.samples), span.problem)
    begin = 0 if file.subtype in INEXACT_SEEK else first
    span = _read_span(file, begin, last)
    if span.problem and begin > 0 and not isinstance(file, LongTrack):
        # Some versions of libFLAC cannot seek to some samples, and no handle is usable after an
        # error.
        with soundfile.SoundFile(open_source(path)) as reopened:
            span = _read_span(reopened, 0, last)
    if span.problem and file.format == "FLAC":
        limits_of(path).check_memory(path, file.frames, file.channels, file.samplerate)
        decoded = decode_flac(path, file.frames)
        if decoded is not None:
            span = _Span(0, decoded)
    return span


def _read_span(file: soundfile.SoundFile, begin: int, end: int) -> _Span:
    """Read frames `begin <= i < end` of a newly opened file, as far as they can be decoded."""
    channels = file.channels
    numbers = (end - begin) * channels
    numbers_at_once = _NUMBERS_AT_ONCE // channels * channels
    memory = np.empty(min(numbers, numbers_at_once), np.float32)
    decoded = 0
    requested = 0
    problem = ""
    try:
        # The file is at its start, and seeking there would decode part of it again.
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


# Chunks are joined when there are this many, since a chunk may be a single sample.
_MAX_CHUNKS = 256


class StreamResampler:
    """Takes samples at one rate, and returns blocks at another as soon as they are determined.

    It keeps the samples that the next block depends on.

    Args:
        rate, to: Sampling rates of input and output, in Hz.

    Attributes:
        frames: Number of input samples so far.
        done: Number of output samples so far.
    """

    def __init__(self, rate: int, to: int = SAMPLE_RATE) -> None:
        self.frames = 0
        self.done = 0
        self._rate = rate
        self._to = to
        self._chunks: list[np.ndarray] = []
        # The frame at which the first chunk begins.
        self._first = 0

    def add(self, samples: np.ndarray) -> None:
        """Add the next samples, (T,) or (T, channels) float32."""
        self._chunks.append(samples)
        self.frames += len(samples)
        if len(self._chunks) > _MAX_CHUNKS:
            self._join()

    def read(self, count: int) -> np.ndarray | None:
        """Return the next `count` samples; None if they are not all determined yet."""
        _, last = source_span(self.done, self.done + count, self._rate, self._to)
        return None if last > self.frames else self.read_known(count)

    def read_rest(self) -> np.ndarray:
        """Return the remaining samples at the end of the recording: (T,)."""
        count = resampled_length(self.frames, self._rate, self._to) - self.done
        return self.read_known(count) if count else self._join()[:0]

    def read_known(self, count: int) -> np.ndarray:
        """Return the next `count` samples, as if the input ended here: (T,)."""
        first, last = source_span(self.done, self.done + count, self._rate, self._to)
        joined = self._join()
        span = joined[first - self._first : last - self._first]
        start = self.done - resampled_position(first, self._rate, self._to)
        self.done += count
        # The next block needs the input from here on.
        next_first, _ = source_span(self.done, self.done + 1, self._rate, self._to)
        # A copy, since a view would keep everything in memory.
        self._chunks = [joined[next_first - self._first :].copy()]
        self._first = next_first
        return resample(span, self._rate, self._to)[start : start + count]

    def _join(self) -> np.ndarray:
        nothing = np.zeros((0, *self._chunks[0].shape[1:]) if self._chunks else 0, np.float32)
        joined = np.concatenate([nothing, *self._chunks])
        self._chunks = [joined]
        return joined


def read_blocks(path: AnySource, samples: int, audio: Audio = USUAL_AUDIO) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32, as `read_audio` reads it.

    The last block may be shorter.

    Raises:
        AsdfError: as in `read_audio`; for a recording damaged later on, after its good blocks.
    """
    to = audio.sample_rate
    with open_recording(path) as file:
        check_channel(path, file.channels, audio.channels)
        rate = file.samplerate
        heard = heard_channels(path, file) if audio.channels == "mean" else ()
        length = resampled_length(file.frames, rate, to)
        resampler = StreamResampler(rate, to)
        while resampler.done < length:
            count = min(samples, length - resampler.done)
            first, last = source_span(resampler.done, resampler.done + count, rate, to)
            last = min(last, file.frames)
            limits_of(path).check_memory(path, last - first, file.channels, rate, to)
            missing = last - resampler.frames
            if missing > 0:
                try:
                    frames = file.read(missing, dtype="float32", always_2d=True)
                except soundfile.LibsndfileError:
                    break
                if len(frames) < missing or find_fault(frames):
                    break
                resampler.add(choose_channels(frames, audio.channels, heard))
            yield resampler.read_known(count)
    if resampler.done < length:
        # `read_audio` tries another decoder, or reports the damage.
        rest = read_audio(path, resampler.done, audio=audio)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]
