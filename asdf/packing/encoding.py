"""Encoding of a recording in a shard: its bytes unchanged, or FLAC or Opus.

Invariant: a recording is fully decoded before it is packed, so that nothing damaged gets into a
shard. FLAC preserves the samples that ASDF reads, bit for bit, except for recordings of floats,
which are rounded to 24 bits; the result is compared, and rounded recordings are counted.
"""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np
import soundfile

from asdf.archives import open_file, split_part
from asdf.audio.reading import decoded_length, read_audio
from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import AnySource, Source
from asdf.audio.sample_rates import resample
from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES
from asdf.settings.sections import Audio

FORMATS = ("keep", "flac", "opus")
"""Formats: bytes unchanged; lossless; lossy."""

# Formats with samples of at most 16 bits.
_SHORT = {"PCM_16", "PCM_S8", "PCM_U8", "ULAW", "ALAW"}
_OPUS_RATES = (8000, 12000, 16000, 24000, 48000)
# Half a step of 24 bits, and the same again for float32's own rounding.
_ROUNDING = 2.0**-23


@dataclass(frozen=True)
class Encoded:
    """A recording as a member of a shard.

    Attributes:
        suffix: Suffix of its name: '.flac'.
        frames, rate: Number of samples per channel and sampling rate in Hz, as decoded.
        is_rounded: Whether samples of floats were rounded to 24 bits.
    """

    content: bytes
    suffix: str
    frames: int
    rate: int
    is_rounded: bool = False


def encode(path: str, form: str) -> Encoded | str:
    """Return a recording, or a part of one, as it is packed; or its problem, in words.

    Args:
        form: Format, one of `FORMATS`. A part of a recording has no bytes of its own, so 'keep'
            makes it FLAC.
    """
    try:
        return _encode(path, form)
    except AsdfError as error:
        return str(error)
    except (OSError, soundfile.LibsndfileError) as error:
        return f"{path} cannot be packed: {error}"


def _encode(path: str, form: str) -> Encoded:
    whole, part = split_part(path)
    source: AnySource = path
    content = b""
    if part is None:
        with open_file(path) as opened:
            # Read once: what is checked is what is packed.
            content = opened.read()
        source = Source(path, content)
    with open_recording(source) as file:
        frames, rate = int(file.frames), int(file.samplerate)
        kind, subtype = str(file.format), str(file.subtype)
    # Recordings that have the format already stay as they are; Opus is a subtype, of OGG.
    if part is None and (form == "keep" or form.upper() in (kind, subtype)):
        # Decoded to its end although its bytes stay, since a header promises nothing.
        decoded_length(source)
        suffix = PurePosixPath(whole).suffix.lower()
        if suffix not in AUDIO_SUFFIXES:
            # Rows of a table often lack names, which readers of shards use to identify recordings.
            suffix = f".{kind.lower()}"
        return Encoded(content, suffix, frames, rate)
    samples = read_audio(source, audio=Audio(sample_rate=rate, channels="all"))
    if form == "opus":
        return _as_opus(path, samples, rate)
    return _as_flac(path, samples, rate, "PCM_16" if subtype in _SHORT else "PCM_24")


def _as_flac(path: str, samples: np.ndarray, rate: int, subtype: str) -> Encoded:
    bits = 16 if subtype == "PCM_16" else 24
    integers = np.rint(np.ldexp(samples.astype(np.float64), bits - 1))
    # libsndfile takes the highest bits of 32-bit numbers.
    largest = 2 ** (bits - 1) - 1
    shifted = (np.clip(integers, -largest - 1, largest)).astype(np.int32) << (32 - bits)
    buffer = io.BytesIO()
    soundfile.write(buffer, shifted, rate, format="FLAC", subtype=subtype)
    content = buffer.getvalue()
    decoded = read_audio(Source(path, content), audio=Audio(sample_rate=rate, channels="all"))
    # Of another length, the two cannot be subtracted, and are not the same.
    difference = math.inf
    if decoded.shape == samples.shape:
        difference = float(np.abs(decoded - samples).max(initial=0.0))
    if difference > _ROUNDING:
        raise AsdfError(
            f"{path} has samples beyond full scale, which FLAC cannot hold: pack it as it is "
            "(--format keep), or scale it."
        )
    return Encoded(content, ".flac", len(samples), rate, difference > 0)


def _as_opus(path: str, samples: np.ndarray, rate: int) -> Encoded:
    # The next higher rate preserves all frequencies of the recording.
    to = next((known for known in _OPUS_RATES if known >= rate), _OPUS_RATES[-1])
    resampled = resample(samples, rate, to)
    buffer = io.BytesIO()
    soundfile.write(buffer, resampled, to, format="OGG", subtype="OPUS")
    content = buffer.getvalue()
    source = Source(path, content)
    decoded_length(source)
    with open_recording(source) as file:
        frames, read_rate = int(file.frames), int(file.samplerate)
    if (frames, read_rate) != (len(resampled), to):
        raise AsdfError(
            f"{path}: as Opus it has {frames} samples at {read_rate} Hz instead of "
            f"{len(resampled)} at {to}. Pack it as FLAC (--format flac)."
        )
    return Encoded(content, ".ogg", frames, to)
