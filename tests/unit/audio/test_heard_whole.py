"""A recording is heard whole or refused: what lies behind a stated end, and what may lie there."""

from __future__ import annotations

import io
import shutil
import struct
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.audio import audio_length, decoded_length, read_audio
from asdf.audio.reading import read_blocks
from asdf.audio.recording_sources import Source
from asdf.errors import AsdfError, UsageError
from asdf.scoring.recordings import as_waveform

LENGTH = 32_000
FORMATS = {
    "wav": ("WAV", "PCM_16"),
    "float.wav": ("WAV", "FLOAT"),
    "rf64": ("RF64", "PCM_16"),
    "w64": ("W64", "PCM_16"),
    "aiff": ("AIFF", "PCM_16"),
    "caf": ("CAF", "PCM_16"),
    "au": ("AU", "PCM_16"),
    "flac": ("FLAC", "PCM_16"),
    "24.flac": ("FLAC", "PCM_24"),
    "ogg": ("OGG", "VORBIS"),
    "opus": ("OGG", "OPUS"),
    "mp3": ("MP3", "MPEG_LAYER_III"),
}
APE_TAG = (
    b"APETAGEX" + struct.pack("<IIII", 2000, 82, 1, 0xA0000000) + bytes(8) + b"\x01" * 50
) + (b"APETAGEX" + struct.pack("<IIII", 2000, 82, 1, 0x80000000) + bytes(8))
# Tags of this kind are in no stated encoding.
ID3V1 = b"TAG" + "Über allen Gipfeln".encode("latin-1").ljust(125, b"\0")


def sound(length: int = LENGTH, seed: int = 0) -> np.ndarray:
    time = np.arange(length) / 16000
    noise = np.random.default_rng(seed).uniform(-0.1, 0.1, length)
    return 0.3 * np.sin(2 * np.pi * 300 * time) + noise


@cache
def encoded(name: str, length: int = LENGTH, seed: int = 0) -> bytes:
    container, subtype = FORMATS[name]
    content = io.BytesIO()
    soundfile.write(content, sound(length, seed), 16000, format=container, subtype=subtype)
    return content.getvalue()


def with_bytes(content: bytes, start: int, other: bytes) -> bytes:
    return content[:start] + other + content[start + len(other) :]


def with_flac_samples(content: bytes, samples: int) -> bytes:
    return with_bytes(content, 22, struct.pack(">I", samples))


def with_wav_sizes(content: bytes, riff: int, data: int) -> bytes:
    return with_bytes(with_bytes(content, 4, struct.pack("<I", riff)), 40, struct.pack("<I", data))


def w64_of_half() -> bytes:
    content = encoded("w64")
    return with_bytes(content, content.index(b"data") + 16, struct.pack("<Q", 24 + LENGTH))


def mp3_of_30_frames() -> bytes:
    content = encoded("mp3", 160_000)
    assert audio_length(Source("a.mp3", content)) == 160_000
    mark = max(content.find(b"Xing"), content.find(b"Info"))
    return with_bytes(content, mark + 8, struct.pack(">I", 30))


def joined_flac(length: int) -> bytes:
    return encoded("flac", length) + encoded("flac", length, seed=1)


def assert_refused(path: Path, reason: str) -> None:
    """Whoever reads: whole, in part, by blocks, its length alone, from memory.

    A part of a FLAC is read of a recording that was measured.
    """
    source = Source(path.name, path.read_bytes())
    for read in (read_audio, audio_length, decoded_length, lambda p: list(read_blocks(p, 4000))):
        for recording in (path, source):
            with pytest.raises(AsdfError, match=reason) as caught:
                read(recording)
            assert str(recording) in str(caught.value)
    if path.suffix != ".flac":
        with pytest.raises(AsdfError, match=reason):
            read_audio(path, 0, 100)


PROMISED = f"samples are promised by the header, {LENGTH} are there"
FOLLOW = "bytes follow the samples that its header states"
REFUSED = {
    "1.flac": (lambda: with_flac_samples(encoded("flac"), 1), f"1 {PROMISED}"),
    "block.flac": (lambda: with_flac_samples(encoded("flac"), 4096), f"4096 {PROMISED}"),
    "quarter.flac": (lambda: with_flac_samples(encoded("flac"), 8000), f"8000 {PROMISED}"),
    "one less.flac": (lambda: with_flac_samples(encoded("flac"), 31_999), f"31999 {PROMISED}"),
    "joined.flac": (lambda: joined_flac(160_000), "another stream follows the first"),
    "joined long.flac": (lambda: joined_flac(2_880_000), "another stream follows the first"),
    # A WAV file whose samples go on, whatever the size of all.
    "0.wav": (lambda: with_wav_sizes(encoded("wav"), 0, 16_000), f"48,000 {FOLLOW}"),
    "open.wav": (lambda: with_wav_sizes(encoded("wav"), 2**32 - 1, 16_000), f"48,000 {FOLLOW}"),
    "whole.wav": (lambda: with_wav_sizes(encoded("wav"), 64_036, 16_000), f"48,000 {FOLLOW}"),
    "two.wav": (
        lambda: encoded("wav") + b"LIST\4\0\0\0abcd" + encoded("wav")[36:],
        "other samples follow at byte 64,056",
    ),
    "half.w64": (w64_of_half, f"32,000 {FOLLOW}"),
    "fewer frames.mp3": (mp3_of_30_frames, "samples are promised by the header, 16"),
}


@pytest.mark.slow_but(*(name for name in REFUSED if name != "joined long.flac"))
@pytest.mark.parametrize("name", REFUSED)
def test_what_goes_on_behind_its_stated_end_is_refused(tmp_path, name):
    content, reason = REFUSED[name]
    path = tmp_path / name
    path.write_bytes(content())
    assert_refused(path, reason)


@pytest.mark.parametrize("minutes", [3, pytest.param(10, marks=pytest.mark.slow)])
def test_a_long_flac_file_that_states_two_seconds(tmp_path, minutes):
    path = tmp_path / "a.flac"
    length = minutes * 960_000
    path.write_bytes(encoded("flac", length))
    assert audio_length(path) == length
    path.write_bytes(with_flac_samples(path.read_bytes(), LENGTH))
    assert_refused(path, "32000 samples are promised by the header")


def test_minutes_of_silence_that_state_two_seconds(tmp_path):
    """Frames of few bytes, whose numbers have three."""
    path = tmp_path / "a.flac"
    soundfile.write(path, np.zeros(9_600_000, np.int16), 16000)
    assert audio_length(path) == 9_600_000
    path.write_bytes(with_flac_samples(path.read_bytes(), LENGTH))
    assert_refused(path, "32000 samples are promised by the header, 9600000 are there")


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize("second", [LENGTH, 3000])
def test_joined_files(tmp_path, name, second):
    path = tmp_path / f"a.{name}"
    first = encoded(name)
    path.write_bytes(first + encoded(name, second, seed=1))
    try:
        length = audio_length(path)
    except AsdfError as error:
        assert str(path) in str(error)
        return
    # Heard to the end, up to what codecs add.
    assert length >= LENGTH + second


@pytest.mark.parametrize("name", ["ogg", "opus"])
def test_an_ogg_file_joined_to_itself_has_one_serial_number(tmp_path, name):
    path = tmp_path / f"a.{name}"
    path.write_bytes(2 * encoded(name))
    assert soundfile.info(path).frames == LENGTH
    assert 2 * LENGTH <= audio_length(path) == len(read_audio(path)) < 2 * LENGTH + 1000


@pytest.mark.parametrize("riff", [0, 0xFFFFFFFF])
@pytest.mark.parametrize("data", [0, 0x7FFFF000, 0x7FFFFFFF, 0xFFFFFFFF])
def test_a_wav_file_from_a_pipe_is_whole(tmp_path, riff, data):
    path = tmp_path / "a.wav"
    content = encoded("wav")
    path.write_bytes(content)
    whole = read_audio(path)
    path.write_bytes(with_wav_sizes(content, riff, data))
    np.testing.assert_array_equal(read_audio(path), whole)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
@pytest.mark.parametrize("container", ["wav", "w64", "caf", "flac", "mp3", "ogg", "aiff"])
def test_what_ffmpeg_writes_is_whole(tmp_path, container):
    source = tmp_path / "source.wav"
    source.write_bytes(encoded("wav"))
    path = tmp_path / f"a.{container}"
    command = ["ffmpeg", "-v", "error", "-i", source, "-metadata", "title=a", "-ar", "16000", path]
    subprocess.run(command, check=True)
    assert audio_length(path) == LENGTH
    piped = tmp_path / "piped.wav"
    with piped.open("wb") as file:
        subprocess.run(
            ["ffmpeg", "-v", "error", "-i", source, "-f", "wav", "-"], stdout=file, check=True
        )
    assert audio_length(piped) == LENGTH


@pytest.mark.parametrize("name", sorted(FORMATS))
@pytest.mark.parametrize(
    "behind",
    [ID3V1, APE_TAG, APE_TAG + ID3V1, bytes(3000), bytes(70_000), b"a few bytes", b"\r\n"],
    ids=["id3v1", "ape", "ape and id3v1", "zeros", "many zeros", "bytes", "line"],
)
def test_tags_and_zeros_behind_the_samples_are_no_sound(tmp_path, name, behind):
    path = tmp_path / f"a.{name}"
    path.write_bytes(encoded(name))
    whole = read_audio(path)
    path.write_bytes(encoded(name) + behind)
    np.testing.assert_array_equal(read_audio(path), whole)


@pytest.mark.parametrize("length", [LENGTH, LENGTH - 1])
def test_chunks_behind_the_samples_of_a_w64_file_are_no_sound(tmp_path, length):
    path = tmp_path / "a.w64"
    path.write_bytes(encoded("w64", length))
    whole = read_audio(path)
    assert len(whole) == length
    name = b"bext\xf3\xac\xd3\x11\x8c\xd1\x00\xc0\x4f\x8e\xdb\x8a"
    chunk = name + struct.pack("<Q", 24 + 600) + b"x" * 600
    path.write_bytes(path.read_bytes() + bytes(-2 * length % 8) + chunk)
    for source in (path, Source("a.w64", path.read_bytes())):
        np.testing.assert_array_equal(read_audio(source), whole)
        np.testing.assert_array_equal(read_audio(source, 100, 9000), whole[100:9100])
        assert audio_length(source) == decoded_length(source) == length


@pytest.mark.parametrize("length", [LENGTH, LENGTH - 1])
def test_chunks_behind_the_samples_are_no_sound(tmp_path, length):
    path = tmp_path / "a.wav"
    soundfile.write(path, sound(length), 16000, subtype="PCM_U8")
    chunk = b"LIST" + struct.pack("<I", 5000) + b"x" * 5000
    for missing in (0, length % 2):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) - missing] + chunk)
        assert audio_length(path) == length
        path.write_bytes(content)


@pytest.mark.parametrize("blocks", ["-l 5", "-b 256", "-b 16384", "-0"])
def test_whatever_frames_a_flac_file_has_it_is_whole(tmp_path, blocks):
    if shutil.which("ffmpeg") is None:
        pytest.skip("ffmpeg is not installed")
    size = {"-l 5": "4608", "-b 256": "256", "-b 16384": "16384", "-0": "1152"}[blocks]
    source = tmp_path / "source.wav"
    stereo = np.stack([sound(200_000), sound(200_000, 1)], axis=1)
    soundfile.write(source, stereo, 16000)
    path = tmp_path / "a.flac"
    command = ["ffmpeg", "-v", "error", "-i", source, "-frame_size", size, path]
    subprocess.run(command, check=True)
    assert audio_length(path) == 200_000
    path.write_bytes(with_flac_samples(path.read_bytes(), 100_000))
    assert_refused(path, "100000 samples are promised")


def test_in_a_tar(tmp_path):
    whole = encoded("flac")
    with tarfile.open(tmp_path / "set.tar", "w") as tar:
        for name, content in (("a", whole), ("b", 2 * whole), ("c", with_flac_samples(whole, 9))):
            member = tarfile.TarInfo(f"set/{name}.flac")
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    assert len(read_audio(tmp_path / "set" / "a.flac")) == LENGTH
    for name in "bc":
        with pytest.raises(AsdfError, match="would be heard in part only"):
            read_audio(tmp_path / "set" / f"{name}.flac")


@pytest.mark.parametrize("size", [3e38, 32769.5, 100.5, 8.5])
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("subtype", ["FLOAT", "DOUBLE"])
@pytest.mark.parametrize("format", ["WAV", "AIFF", "CAF"])
def test_samples_beyond_full_scale(tmp_path, size, sign, subtype, format):
    path = tmp_path / f"a.{format.lower()}"
    samples = sound().astype(np.float32)
    samples[12_345] = sign * size
    soundfile.write(path, samples, 16000, subtype=subtype, format=format)
    for read in (read_audio, decoded_length, lambda p: list(read_blocks(p, 4000))):
        with pytest.raises(AsdfError, match=r"holds floats up to .*full scale of floats is 1"):
            read(path)


def test_opposite_samples_of_two_channels_do_not_hide_each_other(tmp_path):
    path = tmp_path / "a.wav"
    channels = np.zeros((1000, 2), np.float32)
    channels[500] = 1e30, -1e30
    soundfile.write(path, channels, 16000, subtype="FLOAT")
    with pytest.raises(AsdfError, match="the full scale of floats is 1"):
        read_audio(path)


@pytest.mark.parametrize("full_scale", [2**7, 2**15, 2**23, 2**31, 4])
def test_integers_written_as_floats(tmp_path, full_scale):
    """At any width, and however quiet."""
    path = tmp_path / "a.wav"
    integers = np.round(sound() * full_scale).astype(np.float32)
    soundfile.write(path, integers, 16000, subtype="FLOAT")
    with pytest.raises(AsdfError, match=r"holds integers written as floats up to"):
        read_audio(path)
    with pytest.raises(UsageError, match="the array holds integers written as floats up to"):
        as_waveform(integers, 16000)


def test_floats_with_headroom_are_read(tmp_path):
    path = tmp_path / "a.wav"
    loud = (8 * sound() / np.abs(sound()).max()).astype(np.float32)
    for samples in (loud, np.array([0, 1, -1, 0.0], np.float32)):
        soundfile.write(path, samples, 16000, subtype="FLOAT")
        np.testing.assert_array_equal(read_audio(path), samples)
        np.testing.assert_array_equal(as_waveform(samples, 16000), samples)
