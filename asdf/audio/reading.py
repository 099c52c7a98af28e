"""Recordings as float32 waveforms, 16 kHz and mono unless the settings say otherwise.

Invariant: `read_audio` returns exactly the requested samples, all finite, or raises. Otherwise a
truncated recording would be scored as a shorter one, and a NaN would affect its batch.

A path may lead into another place than a folder (`asdf.places`); content in memory is a `Source`.
With `audio.channels = 'all'`, a waveform is (samples, channels), time first, and is cut, measured
and joined like a single channel.

The concatenated blocks of `read_blocks` equal `read_audio` of the whole recording (up to rounding
if it is resampled). Each part of a file is decoded once, even in formats without seeking.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import soundfile

from asdf.audio.channels import (
    BLOCK_S,
    check_channel,
    choose_channels,
    compare,
    cut_blocks,
    recall,
    remember,
)
from asdf.audio.pyav import DecodedTrack, decode_flac
from asdf.audio.recording_files import (
    INEXACT_SEEK,
    OpenRecording,
    RecordingPart,
    cut_off,
    open_recording,
)
from asdf.audio.recording_sources import AnySource, Source
from asdf.audio.sample_rates import (
    StreamResampler,
    resample,
    resampled_length,
    resampled_position,
    source_span,
)
from asdf.errors import AsdfError
from asdf.settings.sections import USUAL_AUDIO, Audio

# Full scale of floats is 1, with headroom for what was mixed or decoded without clipping. Larger
# samples are on another scale, on which a network gives any score.
_LARGEST = 8.0
_FRAMES_AT_ONCE = 2**22


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
    source, to = Source.of(path), audio.sample_rate
    with open_recording(source, is_measured=samples is not None) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate, to)
        if start >= length:
            raise AsdfError(
                f"{source} has {length} samples at {to / 1000:g} kHz, but a part from sample "
                f"{start} on was requested. It was likely replaced after its length was measured: "
                "measure the utterances again."
            )
        stop = length
        if samples is not None:
            stop = min(length, start + samples)
        first, last = source_span(start, stop, rate, to)
        last = min(last, file.frames)
        source.limits.check_memory(source, last - first, file.channels, rate, to)
        waveform = _decode(file, source, first, last, audio.channels)
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
    source = Source.of(path)
    with open_recording(source) as file:
        _decode(file, source, 0, file.frames, audio.channels)
        return resampled_length(file.frames, file.samplerate, audio.sample_rate)


def heard_channels(
    source: Source, file: OpenRecording, whole: np.ndarray | None = None
) -> tuple[int, ...]:
    """Return the channels of a recording that are averaged: those that are not silent.

    Args:
        file: The same recording, open.
        whole: All its samples, (frames, channels), if they are in memory.
    """
    if file.channels == 1:
        return (0,)
    found = recall(source, "channel")
    if found is None:
        size = BLOCK_S * file.samplerate

        def blocks() -> Iterator[np.ndarray]:
            return _read_blocks(source, size) if whole is None else cut_blocks(whole, size)

        found = remember(source, "channel", compare(blocks, file.samplerate))
    return found.heard


def _read_blocks(source: Source, size: int) -> Iterator[np.ndarray]:
    """Yield the frames of a recording, as far as they decode: readers name what is damaged."""
    with open_recording(source, is_measured=True) as file:
        frames = size
        while frames == size:
            try:
                block = file.read(size, dtype="float32", always_2d=True)
            except soundfile.LibsndfileError:
                return
            frames = len(block)
            if frames:
                yield block


def _decode(
    file: OpenRecording, source: Source, first: int, last: int, channels: int | str
) -> np.ndarray:
    """Return frames `first <= i < last` of the selected channels, float32."""
    check_channel(source, file.channels, channels)
    samples, problem = _decode_frames(file, source, first, last)
    if problem:
        raise AsdfError(f"{source} {cut_off(problem)}")
    # Integers are always finite, and on their scale.
    fault = "" if file.subtype.startswith("PCM_") else find_fault(samples)
    if fault:
        raise AsdfError(f"{source} {fault}")
    heard: tuple[int, ...] = ()
    if channels == "mean":
        heard = heard_channels(source, file, samples if len(samples) == file.frames else None)
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


def _decode_frames(
    file: OpenRecording, source: Source, first: int, last: int
) -> tuple[np.ndarray, str]:
    """Return frames `first <= i < last`, (frames, channels), and why some are missing; '' if none.

    A second method is tried if the first fails.
    """
    if isinstance(file, RecordingPart):
        samples, problem = _decode_frames(file.whole, source, file.first + first, file.first + last)
        return file.chosen(samples), problem
    begin = 0 if file.subtype in INEXACT_SEEK else first
    samples, problem = _read_frames(file, begin, last)
    if problem and begin > 0 and not isinstance(file, DecodedTrack):
        # Some versions of libFLAC cannot seek to some samples, and no handle is usable after an
        # error.
        begin = 0
        with soundfile.SoundFile(source.open()) as reopened:
            samples, problem = _read_frames(reopened, 0, last)
    if problem and file.format == "FLAC":
        source.limits.check_memory(source, file.frames, file.channels, file.samplerate)
        decoded = decode_flac(source, file.frames)
        if decoded is not None:
            # The whole recording, as after a second reading.
            samples, problem = decoded, ""
    return samples[first - begin : last - begin], problem


def _read_frames(
    file: soundfile.SoundFile | DecodedTrack, begin: int, end: int
) -> tuple[np.ndarray, str]:
    """Read frames `begin <= i < end` of a newly opened file; as `_decode_frames`."""
    promised = f"{file.frames} samples are promised by the header"
    blocks = [np.zeros((0, file.channels), np.float32)]
    done = begin
    problem = ""
    try:
        # The file is at its start, and seeking there would decode part of it again.
        if begin:
            file.seek(begin)
        # In blocks, since a header may promise more samples than there are.
        while done < end:
            count = min(end - done, _FRAMES_AT_ONCE)
            block = file.read(count, dtype="float32", always_2d=True)
            blocks.append(block)
            done += len(block)
            if len(block) < count:
                break
    except soundfile.LibsndfileError as error:
        problem = f"{error.error_string.strip(' .')}; {promised}"
    except MemoryError:
        problem = f"{promised}, more than there is memory for"
    if not problem and done < end:
        problem = f"{promised}, {done} decode"
    # Most recordings are a single block, which is not copied.
    if len(blocks) < 3:
        return blocks[-1], problem
    samples = np.empty((done - begin, file.channels), np.float32)
    # Each block is released once it is copied: `memory_limit` counts the samples once.
    while blocks:
        last = blocks.pop()
        done -= len(last)
        samples[done - begin : done - begin + len(last)] = last
    return samples, problem


def read_blocks(path: AnySource, samples: int, audio: Audio = USUAL_AUDIO) -> Iterator[np.ndarray]:
    """Yield a recording as blocks of (samples,) float32, as `read_audio` reads it.

    The last block may be shorter.

    Raises:
        AsdfError: as in `read_audio`; for a recording damaged later on, after its good blocks.
    """
    source, to = Source.of(path), audio.sample_rate
    with open_recording(source) as file:
        check_channel(source, file.channels, audio.channels)
        rate = file.samplerate
        heard = heard_channels(source, file) if audio.channels == "mean" else ()
        length = resampled_length(file.frames, rate, to)
        resampler = StreamResampler(rate, to)
        while resampler.done < length:
            count = min(samples, length - resampler.done)
            first, last = source_span(resampler.done, resampler.done + count, rate, to)
            last = min(last, file.frames)
            source.limits.check_memory(source, last - first, file.channels, rate, to)
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
        rest = read_audio(source, resampler.done, audio=audio)
        for start in range(0, len(rest), samples):
            yield rest[start : start + samples]
