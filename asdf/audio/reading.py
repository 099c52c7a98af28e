"""Recordings as 16 kHz mono float32 waveforms.

Invariant: `read_audio` returns exactly the samples that were asked for, all finite, or raises. A recording that ends
early would otherwise be scored as a shorter one, and a NaN would spoil the batch that it shares.

A path may go on into a tar (`asdf.archives`).
"""

from __future__ import annotations

import os

import numpy as np
import soundfile

from asdf.archives import open_source
from asdf.audio import fallbacks
from asdf.audio.flac import decode_flac
from asdf.audio.opening import cut_off, open_recording
from asdf.audio.resampling import SAMPLE_RATE, resample, resampled_length, source_span
from asdf.errors import AsdfError

__all__ = ["SAMPLE_RATE", "audio_length", "decoded_length", "read_audio"]

AnyPath = str | os.PathLike[str]

# A seek in these does not land on the same samples that decoding from the start gives.
_INEXACT_SEEK = {"VORBIS", "OPUS", "MPEG_LAYER_I", "MPEG_LAYER_II", "MPEG_LAYER_III"}

# Memory for so many numbers, 64 MB, is taken at a time: a header may promise more samples than there are.
_NUMBERS_AT_ONCE = 2**24

_FLAC_ADVICE = (
    " If other programs play it to its end, `pip install av`: ASDF then decodes it with FFmpeg."
)


def read_audio(
    path: AnyPath, start: int = 0, samples: int | None = None, room: np.ndarray | None = None
) -> np.ndarray:
    """Read a recording, or `samples` of it from sample `start` on, as (T,) float32 at 16 kHz, mono.

    Channels are averaged. `start` and `samples` count at 16 kHz, and only the part they name is decoded where the
    format lets one seek; the result is that of cutting the whole recording. A part that reaches beyond the end is cut
    there, as a slice is. What is not decoded is not checked.

    `room` (R,) is memory, float32, that may be written to while decoding; the result may be a part of it.

    Raises:
        AsdfError: the file is missing, empty, not audio, damaged or cut off, holds no samples or ones that are not
            finite, or `start` is beyond its end.
    """
    if start < 0 or (samples is not None and samples < 1):
        raise ValueError(f"start {start} and samples {samples} name no part of a recording")
    with open_recording(path) as file:
        rate = file.samplerate
        length = resampled_length(file.frames, rate)
        stop = length if samples is None else min(length, start + samples)
        if start >= length:
            raise AsdfError(
                f"{path} has {length} samples at 16 kHz, and a part from sample {start} on was asked for. "
                "It was likely replaced after its length was measured: measure the utterances again."
            )
        first, last = source_span(start, stop, rate)
        waveform = _decode(file, path, first, min(last, file.frames), room)
    offset = first * SAMPLE_RATE // rate
    return resample(waveform, rate)[start - offset : stop - offset]


def audio_length(path: AnyPath) -> int:
    """Samples that `read_audio(path)` returns, from the file's header alone (what PyAV decodes: from decoding it).

    Raises:
        AsdfError: as `read_audio`, as far as the header shows it.
    """
    with open_recording(path) as file:
        return resampled_length(file.frames, file.samplerate)


def decoded_length(path: AnyPath) -> int:
    """`audio_length(path)`, once the recording has been decoded to its end.

    Raises:
        AsdfError: as `read_audio` of the whole recording.
    """
    with open_recording(path) as file:
        _decode(file, path, 0, file.frames, None)
        return resampled_length(file.frames, file.samplerate)


def _decode(
    file: soundfile.SoundFile, path: AnyPath, first: int, last: int, room: np.ndarray | None
) -> np.ndarray:
    """Frames `first <= i < last` as (last - first,) float32, the mean over the channels."""
    begin = 0 if first and file.subtype in _INEXACT_SEEK else first
    block, problem = _read(file, begin, last, room)
    if problem and begin > 0:
        # Some versions of libFLAC cannot seek to some samples of sound files, and no handle survives an error.
        begin = 0
        with soundfile.SoundFile(open_source(path)) as again:
            block, problem = _read(again, 0, last, room)
    if problem and file.format == "FLAC":
        decoded = decode_flac(path, file.frames)
        if decoded is not None:
            begin, block, problem = 0, decoded, ""
            fallbacks.note(path)
    if problem:
        raise AsdfError(f"{path} {cut_off(problem, _FLAC_ADVICE if file.format == 'FLAC' else '')}")
    part = block[first - begin : last - begin]
    mono = np.ascontiguousarray(part[:, 0]) if part.shape[1] == 1 else part.mean(axis=1)
    # Whole numbers can be nothing but finite.
    if not file.subtype.startswith("PCM_") and not np.isfinite(mono).all():
        raise AsdfError(
            f"{path} holds samples that are not finite (NaN or infinity). The program that wrote it "
            "likely divided by zero: make the file again, or take it off the list."
        )
    return mono


def _read(
    file: soundfile.SoundFile, begin: int, end: int, room: np.ndarray | None
) -> tuple[np.ndarray, str]:
    """Frames `begin <= i < end`, as far as they decode, as (frames, channels) float32, and what is wrong with them."""
    channels, numbers = file.channels, (end - begin) * file.channels
    if room is None or len(room) < numbers:
        room = np.empty(min(numbers, _NUMBERS_AT_ONCE // channels * channels), np.float32)
    decoded = asked = 0
    problem = ""
    try:
        if begin:  # a file was opened at its start; to go there again decodes a part of it
            file.seek(begin)
        while decoded == asked < end - begin:
            if asked:
                room.resize(
                    min(numbers, len(room) + _NUMBERS_AT_ONCE // channels * channels),
                    refcheck=False,
                )
            part = room[asked * channels : numbers].reshape(-1, channels)
            decoded += len(file.read(out=part))
            asked += len(part)
            del part  # the next size of `room` may lie elsewhere
    except soundfile.LibsndfileError as error:
        reason = error.error_string.strip(" .")
        problem = f"{reason}; {file.frames} samples are promised by the header"
    except MemoryError:
        problem = f"{end - begin} samples are promised by the header, more than there is memory for"
    if not problem and decoded < end - begin:
        problem = f"{file.frames} samples are promised by the header, {begin + decoded} decode"
    return room[: decoded * channels].reshape(-1, channels), problem
