from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import audio_length, decoded_length, read_audio
from asdf.errors import AsdfError
from tests.unit.audio.test_ogg import write_with_ffmpeg


def noise(length: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-0.9, 0.9, length)


def write(path: Path, samples: np.ndarray, rate: int = 16000, subtype: str = "PCM_16") -> Path:
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def cut_file(path: Path, proportion: float = 0.6) -> Path:
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * proportion)])
    return path


@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_16_bit_samples_are_exact(tmp_path, extension):
    samples = np.array([0, 1, -1, 32767, -32768, 12345], np.int16)
    x = read_audio(write(tmp_path / f"a.{extension}", samples))
    assert x.dtype == np.float32
    assert_array_equal(x, samples / 32768)


@pytest.mark.parametrize("rate", [8000, 11025, 16000, 22050, 44100, 48000])
@pytest.mark.parametrize("extension", ["wav", "flac"])
def test_a_part_equals_the_cut_whole(tmp_path, rate, extension):
    path = write(
        tmp_path / f"a.{extension}", np.stack([noise(3 * rate), noise(3 * rate, 1)], axis=1), rate
    )
    whole = read_audio(path)
    for start, samples in (
        (0, 1),
        (0, 16000),
        (12345, 1),
        (17001, 7777),
        (47999, 1),
        (40000, 99999),
    ):
        part = read_audio(path, start, samples)
        assert len(part) == min(samples, 48000 - start)
        assert_allclose(part, whole[start : start + samples], atol=0 if rate == 16000 else 1e-6)
    assert_allclose(read_audio(path, 40001), whole[40001:], atol=0 if rate == 16000 else 1e-6)


@pytest.mark.parametrize(("extension", "subtype"), [("ogg", "VORBIS"), ("mp3", "MPEG_LAYER_III")])
def test_a_part_of_a_lossy_format_equals_the_cut_whole(tmp_path, extension, subtype):
    path = write(tmp_path / f"a.{extension}", noise(32000), subtype=subtype)
    assert_array_equal(read_audio(path, 20000, 500), read_audio(path)[20000:20500])


@pytest.mark.parametrize(
    ("first", "options"), [(16000, {}), (0, {"b": "8000", "application": "voip"})]
)
def test_a_part_of_opus_equals_the_cut_whole(tmp_path, first, options):
    """A seek ends elsewhere where a stream's clock does not begin at 0, in another state."""
    path = tmp_path / "a.opus"
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(160_000) / 16000)
    write_with_ffmpeg(path, "libopus", tone, first, **options)
    whole = read_audio(path)
    for start in (1, 20_000, 60_001, 120_000):
        assert_array_equal(read_audio(path, start, 500), whole[start : start + 500])


def test_only_the_part_is_decoded(tmp_path):
    """A damaged end does not show in the beginning."""
    path = write(tmp_path / "a.flac", noise(64000))
    start = read_audio(path)[:8000]
    assert_array_equal(read_audio(cut_file(path), 0, 8000), start)


def message_of(path: Path, **part: int) -> str:
    with pytest.raises(AsdfError) as caught:
        read_audio(path, **part)
    message = str(caught.value)
    assert str(path) in message
    assert "\n" not in message
    return message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.flac", None, "there is no file"),
        ("", None, "is a folder, not a recording"),
        ("a.wav", b"", "is empty (0 bytes)"),
        ("a.wav", b"no such page" * 100, "is not audio that libsndfile can read"),
        ("a.raw", b"no such page" * 100, "is not audio that libsndfile can read"),
        ("a", b"no such page" * 100, "is not audio that libsndfile can read"),
        ("._a.wav", b"\0\5\26\7" * 100, "macOS"),
        ("x" * 300 + ".wav", None, "cannot be opened: File name too long"),
    ],
)
def test_what_is_no_recording(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert words in message_of(tmp_path / name)


def test_no_samples(tmp_path):
    path = write(tmp_path / "a.wav", np.zeros(0))
    assert "holds no samples" in message_of(path)
    with pytest.raises(AsdfError, match="holds no samples"):
        audio_length(path)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_samples_that_are_not_finite(tmp_path, value):
    samples = np.zeros((100, 2), np.float32)
    samples[50, 1] = value
    assert "not finite" in message_of(write(tmp_path / "a.wav", samples, subtype="FLOAT"))


def test_truncated_flac(tmp_path):
    path = cut_file(write(tmp_path / "a.flac", noise(64000)))
    message = message_of(path)
    assert "cannot be decoded to its end" in message
    assert "cut off or damaged by a copy. Copy or download it again" in message
    assert message_of(path, start=60000, samples=100) == message


@pytest.mark.parametrize("proportion", [0.6, 0.999])
@pytest.mark.parametrize(
    ("extension", "subtype"),
    [("wav", "FLOAT"), *((name, "PCM_16") for name in ("wav", "aiff", "caf", "w64", "rf64"))],
)
def test_truncated_wav(tmp_path, extension, subtype, proportion):
    path = write(tmp_path / f"a.{extension}", noise(8000), subtype=subtype)
    message = message_of(cut_file(path, proportion))
    assert "cannot be decoded to its end" in message
    assert re.search(r"[\d,]+ bytes (of samples )?are promised by the header", message)
    with pytest.raises(AsdfError, match="promised by the header"):
        audio_length(path)


def test_truncated_mp3_decodes_short(tmp_path):
    path = cut_file(write(tmp_path / "a.mp3", noise(64000), subtype="MPEG_LAYER_III"))
    assert "64000 samples are promised by the header" in message_of(path)


NOT_ORDINARY = (
    "{} is not an ordinary file, but a pipe, a device or a socket, which is not read. "
    "Put a file in its place, or leave it out."
)


def test_what_is_no_ordinary_file_is_not_waited_for(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe.flac")
    (tmp_path / "device.flac").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as bound:
        # A socket's path may have no more than 107 bytes, of which a folder for tests can take
        # many.
        monkeypatch.chdir(tmp_path)
        bound.bind("socket.flac")
        for name in ("pipe.flac", "device.flac", "socket.flac"):
            assert message_of(tmp_path / name) == NOT_ORDINARY.format(tmp_path / name)
    with pytest.raises(AsdfError, match="is not an ordinary file"):
        audio_length(tmp_path / "pipe.flac")


@pytest.mark.parametrize("name", [b"\xff\xfe.flac", b"\xff\xfe.m4a", b"\xff\xfe.ogg"])
def test_a_name_that_is_no_text(tmp_path, name):
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    plain = tmp_path / f"a{path.suffix}"
    if path.suffix == ".m4a":
        write_with_ffmpeg(plain, "aac", noise(16000))
    else:
        write(plain, noise(16000), subtype="VORBIS" if path.suffix == ".ogg" else "PCM_16")
    whole = read_audio(plain)
    plain.rename(path)
    assert_array_equal(read_audio(path), whole)
    path.write_bytes(b"no audio" * 9)
    with pytest.raises(AsdfError, match="is not audio that libsndfile can read"):
        read_audio(path)


def test_a_name_with_a_nul_character():
    with pytest.raises(AsdfError, match=r"'a\\x00b.wav' is not a path: embedded null byte"):
        read_audio("a\0b.wav")


def lying_flac(path: Path, samples: int) -> Path:
    """A FLAC of two seconds whose header states 2^36 - 1 samples."""
    content = bytearray(write(path, noise(samples)).read_bytes())
    stated = int.from_bytes(content[18:26], "big") | 2**36 - 1
    content[18:26] = stated.to_bytes(8, "big")
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("start", [0, 2**33])
def test_a_header_that_promises_too_much_takes_no_memory(tmp_path, start):
    path = lying_flac(tmp_path / "a.flac", 32000)
    assert audio_length(path) == 2**36 - 1
    tracemalloc.start()
    try:
        assert "68719476735 samples are promised by the header" in message_of(path, start=start)
        assert tracemalloc.get_traced_memory()[1] < 200e6
    finally:
        tracemalloc.stop()


def test_a_recording_of_any_length_is_read_part_by_part(tmp_path, monkeypatch):
    stereo = np.stack([noise(5000), noise(5000, 1)], axis=1)
    paths = [tmp_path / f"a.{suffix}" for suffix in ("wav", "flac", "mp3", "ogg")]
    for path in paths:
        soundfile.write(path, stereo, 16000)
    whole = [read_audio(path) for path in paths]
    for frames in (999, 1000, 4999, 5000):
        monkeypatch.setattr("asdf.audio.reading._FRAMES_AT_ONCE", frames)
        for path, expected in zip(paths, whole, strict=True):
            assert_array_equal(read_audio(path), expected)
            assert_array_equal(read_audio(path, 17), expected[17:])


# In a process of its own, whose peak is that of this recording.
PEAK = """
import re, sys
from pathlib import Path
from asdf.audio import read_audio, reading

def peak():
    return 1024 * int(re.search("VmHWM:[^0-9]*([0-9]+)", Path("/proc/self/status").read_text())[1])

reading._FRAMES_AT_ONCE = 2**20
before = peak()
read_audio(sys.argv[1])
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
def test_a_recording_in_blocks_takes_no_more_memory_than_its_limit_counts(tmp_path):
    frames = 2**22
    path = tmp_path / "a.wav"
    with soundfile.SoundFile(path, "w", 16000, 2, subtype="PCM_16") as file:
        for _ in range(frames // 2**16):
            file.write(np.full((2**16, 2), 99, np.int16))
    done = subprocess.run(
        [sys.executable, "-c", PEAK, path], capture_output=True, text=True, check=True
    )
    # float32: the channels, and their mean; the rest is for libraries.
    assert int(done.stdout) < 4 * frames * (2 + 1) + 20e6


@pytest.mark.parametrize("rate", [1, 999, 1_000_001, 2**31 - 1])
def test_a_rate_that_no_recording_has(tmp_path, rate):
    path = write(tmp_path / "a.wav", noise(32000), rate)
    assert message_of(path) == (
        f"{path} states a sampling rate of {rate:,} Hz, likely in a damaged header: "
        "copy or download it again, or take it off the list."
    )


@pytest.mark.parametrize(("rate", "length"), [(1000, 32000), (1_000_000, 32), (999_983, 33)])
def test_rates_at_the_ends_of_what_is_read(tmp_path, rate, length):
    assert len(read_audio(write(tmp_path / "a.wav", noise(2000), rate))) == length


def test_damage_in_the_middle_shows_when_a_recording_is_decoded(tmp_path):
    path = write(tmp_path / "a.flac", noise(64000))
    content = bytearray(path.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    path.write_bytes(content)
    assert audio_length(path) == 64000
    with pytest.raises(AsdfError, match="cannot be decoded to its end"):
        decoded_length(path)
    path = write(tmp_path / "a.wav", np.array([0, np.nan], np.float32), subtype="FLOAT")
    with pytest.raises(AsdfError, match="not finite"):
        decoded_length(path)


def test_start_beyond_the_end(tmp_path):
    path = write(tmp_path / "a.wav", noise(100))
    assert "has 100 samples at 16 kHz" in message_of(path, start=100)
    for part in ({"start": -1}, {"samples": 0}):
        with pytest.raises(ValueError, match="are not a part"):
            read_audio(path, **part)


def test_torch_is_not_imported_to_read_16_khz_nor_for_rawboost_of_single_waveforms(tmp_path):
    path = write(tmp_path / "a.wav", noise(100))
    code = (
        "import sys, asdf.audio.rawboost; from asdf.audio import read_audio; "
        f"read_audio({str(path)!r}); print('torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
