"""FLAC files that libsndfile cannot decode, and MP3 files that state no length."""

from __future__ import annotations

from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import audio_length, read_audio
from asdf.audio.pyav import decode_flac
from asdf.audio.recording_sources import Source
from asdf.errors import AsdfError


def flac(path: Path, channels: int, subtype: str = "PCM_16") -> tuple[np.ndarray, Path]:
    samples = np.random.default_rng(0).integers(-3000, 3000, (20000, channels), dtype=np.int16)
    soundfile.write(path, samples, 16000, subtype=subtype)
    return samples, path


def damage(path: Path, back: int) -> None:
    """Flip a bit `back` bytes before the end: the last two bytes are the last frame's checksum."""
    content = bytearray(path.read_bytes())
    content[-back] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("channels", [1, 2])
def test_a_wrong_checksum_around_right_samples_is_read(tmp_path, channels):
    samples, path = flac(tmp_path / "a.flac", channels)
    damage(path, back=1)
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.read(path)
    assert_array_equal(decode_flac(Source.of(path), 20000), samples / 32768)
    assert_array_equal(read_audio(path), (samples / 32768).mean(axis=1))
    assert_array_equal(read_audio(path, 15000, 5000), (samples / 32768).mean(axis=1)[15000:])


def test_wrong_samples_are_refused(tmp_path):
    _, path = flac(tmp_path / "a.flac", 1)
    damage(path, back=200)
    with pytest.raises(AsdfError, match="cannot be decoded to its end"):
        read_audio(path)


def test_a_missing_end_is_refused(tmp_path):
    _, path = flac(tmp_path / "a.flac", 1)
    path.write_bytes(path.read_bytes()[:-5000])
    assert decode_flac(Source.of(path), 20000) is None


def test_24_bit_is_refused(tmp_path):
    _, path = flac(tmp_path / "a.flac", 1, "PCM_24")
    assert decode_flac(Source.of(path), 20000) is None


def test_a_file_that_ends_within_the_header_of_a_frame_is_refused(tmp_path):
    _, path = flac(tmp_path / "a.flac", 1)
    content = path.read_bytes()
    magic = content.index(b"\xff\xf8")
    mark = content[magic : magic + 4]
    # The third frame: its header differs from the one before in the number alone.
    third = content.index(mark + b"\x02", magic)
    for kept in range(1, 9):
        path.write_bytes(content[: third + kept])
        with pytest.raises(AsdfError):
            read_audio(path)


SAMPLES = 20 * 16000


def write_mp3(path: Path, **options: str) -> None:
    """A tone of 20 s with an ID3v2 tag of FFmpeg's before it."""
    tone = 0.3 * np.sin(2 * np.pi * 440 * np.arange(SAMPLES) / 16000)
    with av.open(str(path), "w", format="mp3", options=options) as container:
        container.metadata["title"] = "a recording with a tag that takes some room"
        stream = container.add_stream("libmp3lame", rate=16000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            tone[None].astype(np.float32), format="fltp", layout="mono"
        )
        frame.rate = 16000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            container.mux(packet)


@pytest.mark.parametrize("options", [{}, {"write_xing": "0"}])
def test_a_tag_is_no_sound(tmp_path, options):
    path = tmp_path / "tagged.mp3"
    write_mp3(path, **options)
    assert path.read_bytes()[:3] == b"ID3"
    waveform = read_audio(path)
    assert len(waveform) == audio_length(path)
    assert abs(len(waveform) - SAMPLES) < 4 * 576  # frames that the encoder adds at both ends
    middle = np.abs(np.fft.rfft(waveform[16000 : 17 * 16000]))
    assert middle.argmax() == 440 * 16
