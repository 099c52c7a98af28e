"""What libsndfile does not decode, compared with the samples that were encoded.

FFmpeg says nothing of what is missing.
"""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import audio_length, read_audio
from asdf.audio.pyav import Decoded, DecodedTrack, as_float, decode
from asdf.audio.reading import read_blocks
from asdf.audio.recording_files import open_recording
from asdf.audio.recording_sources import Limits, Source
from asdf.errors import AsdfError


def sine(rate: int, seconds: float = 1.0) -> np.ndarray:
    return 0.5 * np.sin(2 * np.pi * 440 * np.arange(round(seconds * rate)) / rate)


def encode(path: Path, samples: np.ndarray, rate: int, codec: str, **options: Any) -> Path:
    """`samples` (channels, T) as a file of the format that its name says."""
    layout = "mono" if len(samples) == 1 else "stereo"
    with av.open(str(path), "w", **options) as container:
        stream = container.add_stream(codec, rate=rate)
        stream.layout = layout
        frame = av.AudioFrame.from_ndarray(samples.astype(np.float32), format="fltp", layout=layout)
        frame.sample_rate = rate
        resampler = av.AudioResampler(format=stream.format, layout=layout, rate=rate)
        for part in [*resampler.resample(frame), None]:
            for packet in stream.encode(part):
                container.mux(packet)
    return path


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [
        ("a.m4a", "aac", 44100),
        ("a.MP4", "aac", 16000),
        ("a.webm", "libopus", 48000),
        ("a.aac", "aac", 22050),
    ],
)
def test_a_sine_comes_back(tmp_path, name, codec, rate):
    path = encode(tmp_path / name, sine(rate)[None], rate, codec, format={"a.MP4": "mp4"}.get(name))
    with pytest.raises(soundfile.LibsndfileError):
        soundfile.read(path)
    x = read_audio(path)
    assert x.dtype == np.float32
    # Encoders pad the ends.
    assert 16000 <= len(x) < 16000 * 1.15
    middle = x[4000:12000]
    assert np.abs(np.fft.rfft(middle)).argmax() == 220
    assert_allclose(middle.std(), 0.5 / np.sqrt(2), rtol=0.02)


def test_samples_of_lossless_tracks_are_exact_and_channels_averaged(tmp_path):
    stereo = np.round(np.stack([sine(16000), -0.5 * sine(16000)]) * 32768) / 32768
    path = encode(tmp_path / "a.mov", stereo, 16000, "pcm_s16le")
    assert decode(Source.of(path)).samples.shape == (16000, 2)
    assert_allclose(read_audio(path), stereo.mean(axis=0), atol=2e-5)
    assert audio_length(path) == 16000
    assert_array_equal(read_audio(path, 9000, 500), read_audio(path)[9000:9500])
    with pytest.raises(AsdfError, match="has 16000 samples at 16 kHz"):
        read_audio(path, 16000)


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        (np.array([[0], [128], [255]], np.uint8), [-1, 0, 127 / 128]),
        (np.array([[-32768], [1]], np.int16), [-1, 2**-15]),
        (np.array([[-(2**31)], [2**30]], np.int32), [-1, 0.5]),
        (np.array([[0.25], [-1.5]], np.float64), [0.25, -1.5]),
    ],
)
def test_full_scale_is_1(samples, expected):
    x = as_float(samples)
    assert x.dtype == np.float32
    assert_array_equal(x[:, 0], np.array(expected, np.float32))


def test_a_track_that_ends_early_is_refused(tmp_path):
    path = encode(
        tmp_path / "a.mp4", sine(16000, 5)[None], 16000, "aac", options={"movflags": "faststart"}
    )
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(AsdfError, match=r"cut off or damaged|libsndfile can read"):
        read_audio(path)
    assert "promised by the header" in Decoded(np.zeros((1000, 1)), 16000, stated_s=1.0).cut_off
    assert not Decoded(np.zeros((1000, 1)), 16000).cut_off
    assert not Decoded(np.zeros((16000, 1)), 16000, stated_s=1.1).cut_off


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [("a.webm", "libopus", 48000), ("a.mka", "aac", 16000), ("a.avi", "pcm_s16le", 16000)],
)
def test_a_file_shorter_than_its_header_says_is_refused(tmp_path, name, codec, rate):
    path = encode(tmp_path / name, sine(rate, 2.0)[None], rate, codec)
    whole = path.read_bytes()
    assert audio_length(path) >= 32000
    for length in (len(whole) // 2, len(whole) * 9 // 10, len(whole) - 2):
        path.write_bytes(whole[:length])
        with pytest.raises(AsdfError) as caught:
            audio_length(path)
        promised = f"({len(whole):,} bytes are promised by the header, {length:,} are there)"
        assert f"{path} cannot be decoded to its end {promised}" in str(caught.value)


def test_a_live_recording_of_unknown_size_is_read(tmp_path):
    path = encode(tmp_path / "a.webm", sine(48000)[None], 48000, "libopus", options={"live": "1"})
    assert bytes.fromhex("1853806701FFFFFFFFFFFFFF") in path.read_bytes()
    assert 16000 <= audio_length(path) < 16000 * 1.15


def test_a_video_without_sound(tmp_path):
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        for part in (
            av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8), format="rgb24"),
            None,
        ):
            for packet in stream.encode(part):
                container.mux(packet)
    with pytest.raises(AsdfError, match="it contains no audio"):
        read_audio(tmp_path / "a.mp4")


def test_a_long_track_is_read_without_being_held(tmp_path, monkeypatch):
    """To the same samples, whole, in parts and in blocks, and whichever way its content comes."""
    stereo = np.stack([sine(44100, 3.0), 0.5 * sine(44100, 3.0)])
    path = encode(tmp_path / "a.m4a", stereo, 44100, "aac")
    whole = read_audio(path)
    part = read_audio(path, 20000, 9000)
    decoded = decode(Source.of(path))
    assert (decoded.dropped, decoded.frames) == (0, len(decoded.samples))
    counted = decode(Source.of(path), max_bytes=10**5)
    assert counted.samples.shape == (0, 2)
    assert (counted.dropped, counted.frames) == (decoded.frames, decoded.frames)
    assert (counted.rate, counted.stated_s) == (decoded.rate, decoded.stated_s)
    monkeypatch.setattr("asdf.audio.recording_files._MAX_HELD", 10**5)
    with open_recording(path) as file:
        file.read(100)
        file.seek(70_000)
        assert_array_equal(file.read(500), as_float(decoded.samples[70_000:70_500]))
    source = Source("a", path.read_bytes())
    for long in (path, source):
        assert audio_length(long) == len(whole)
        assert_array_equal(read_audio(long), whole)
        assert_allclose(read_audio(long, 20000, 9000), part, atol=1e-6)
        assert_allclose(np.concatenate(list(read_blocks(long, 5000))), whole, atol=1e-6)


def test_a_long_track_takes_no_memory_that_is_not_requested(tmp_path, monkeypatch):
    """A minute of silence in some kilobytes."""

    path = encode(tmp_path / "a.m4a", np.zeros((1, 60 * 16000)), 16000, "aac")
    assert path.stat().st_size < 20_000
    monkeypatch.setattr("asdf.audio.recording_files._MAX_HELD", 10**5)
    tracemalloc.start()
    try:
        assert len(read_audio(path, 0, 16000)) == 16000
        assert sum(map(len, read_blocks(path, 16000))) == audio_length(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Whole, it takes 3.8 MB.
    assert peak < 10**6


def test_limits_of_what_is_decoded(tmp_path):
    path = encode(tmp_path / "a.m4a", np.zeros((1, 60 * 16000)), 16000, "aac")
    with pytest.raises(AsdfError, match=r"a\.m4a is longer than 30 s, the limit max_seconds"):
        audio_length(Source(str(path), limits=Limits(max_seconds=30)))
    little = Source(str(path), limits=Limits(memory=10**6))
    assert sum(map(len, read_blocks(little, 16000))) == audio_length(path)
    with pytest.raises(AsdfError, match="would take 8 MB of memory at once"):
        read_audio(little)


def test_samples_that_are_held_take_no_more_memory_than_the_limit(tmp_path):
    stereo = np.stack([sine(16000, 30.0)] * 2)
    path = encode(tmp_path / "a.mkv", stereo, 16000, "pcm_s16le")
    expected = read_audio(path)
    # Just enough for their number of copies (2 bytes each) to be held.
    limit = 4 * 2 * stereo.size + 1
    tracemalloc.start()
    try:
        waveform = read_audio(Source(str(path), limits=Limits(memory=limit)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert_array_equal(waveform, expected)
    assert peak < 1.2 * limit


def test_a_block_without_samples_is_not_the_end(monkeypatch):
    samples = np.arange(4, dtype=np.float32)[:, None]
    blocks = (samples[start:stop] for start, stop in ((0, 2), (2, 2), (2, 4)))
    monkeypatch.setattr("asdf.audio.pyav.decode_blocks", lambda *_: blocks)
    track = DecodedTrack(Source("a.mp4"), Decoded(samples[:0], 16000, dropped=4))
    assert_array_equal(track.read(), samples)
