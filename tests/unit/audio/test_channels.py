"""Channels and sound tracks that are the same sound, and those that are not."""

from __future__ import annotations

from collections import OrderedDict
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio import decoded_length, read_audio
from asdf.audio.channels import Relation, compare_samples, difference_of, recall
from asdf.audio.reading import read_blocks
from asdf.audio.recording_sources import Source
from asdf.demo.voices import draw_speaker, speak
from asdf.errors import AsdfError
from asdf.scoring.recordings import as_recording, as_waveform
from asdf.settings.sections import Audio
from tests.unit.audio.test_pyav import encode

SECONDS = 5


def voice(seed: int, seconds: float = SECONDS) -> np.ndarray:
    """Return speech of a speaker that is drawn, (T,) in steps of 16 bits."""
    rng = np.random.default_rng(seed)
    speech = speak(draw_speaker(rng), seconds, rng)
    speech = 0.3 * np.resize(speech, round(16000 * seconds)) / np.abs(speech).max()
    return np.round(speech * 2**15) / 2**15


ONE, OTHER = voice(1), voice(2)
SILENCE = np.zeros_like(ONE)
HISS = 0.0005 * np.random.default_rng(0).standard_normal(len(ONE))
NOISE = 0.1 * np.random.default_rng(3).standard_normal(len(ONE))

AGREE = {
    "equal": ([ONE, ONE], (0, 1)),
    "quieter": ([ONE, 0.1 * ONE], (0, 1)),
    "a little hiss": ([ONE, ONE + HISS], (0, 1)),
    "an offset": ([ONE, ONE + 0.1], (0, 1)),
    "left only": ([ONE, SILENCE], (0,)),
    "right only": ([SILENCE, ONE], (1,)),
    "a constant": ([ONE, SILENCE + 0.2], (0,)),
    "all silent": ([SILENCE, SILENCE], (0, 1)),
    "the centre of 5.1": ([SILENCE, SILENCE, ONE, SILENCE, SILENCE, SILENCE], (2,)),
    "three": ([ONE, 0.5 * ONE, SILENCE], (0, 1)),
    "noise of two microphones": ([NOISE, NOISE[::-1]], (0, 1)),
}
DIFFER = {
    "two voices": ([ONE, OTHER], "not the same sound"),
    "two of three": ([ONE, SILENCE, OTHER], "not the same sound"),
    "opposite": ([ONE, -ONE], "cancel"),
    "nearly opposite": ([ONE, -0.9 * ONE], "cancel"),
    "opposite and half as loud": ([ONE, -0.5 * ONE], "cancel"),
    "a dead input": ([ONE, HISS / 10], "channel 1 lies"),
    "5.1 with a low-frequency channel": (
        [ONE, OTHER, ONE, np.convolve(ONE, np.ones(400) / 400, "same"), OTHER, ONE],
        "not the same sound",
    ),
}


@pytest.mark.parametrize("name", AGREE)
def test_channels_that_agree(tmp_path, name):
    channels, heard = AGREE[name]
    frames = np.stack(channels, axis=1).astype(np.float32)
    assert compare_samples(frames, 16000) == Relation(heard)
    path = tmp_path / "a.wav"
    soundfile.write(path, frames, 16000, subtype="FLOAT")
    expected = frames[:, list(heard)].mean(axis=1)
    part = read_audio(path, 20000, 3000)
    assert_array_equal(part, expected[20000:23000])
    assert_array_equal(read_audio(path), expected)
    assert_array_equal(np.concatenate(list(read_blocks(path, 7000))), expected)
    assert_array_equal(as_waveform(frames, 16000), expected)
    assert difference_of(path) is None and as_recording(path).differing() == ("", ())
    assert as_recording(frames, 16000).differing() == ("", [])


@pytest.mark.parametrize("name", DIFFER)
@pytest.mark.parametrize("kind", ["file", "content", "array"])
def test_channels_that_differ(tmp_path, name, kind):
    channels, why = DIFFER[name]
    frames = np.stack(channels, axis=1).astype(np.float32)
    path = tmp_path / "a.wav"
    soundfile.write(path, frames, 16000, subtype="FLOAT")
    recording = as_recording(path)
    if kind == "content":
        recording = as_recording(path.read_bytes())
    if kind == "array":
        recording = as_recording(frames, 16000)
    recording.read_whole()
    found, sides = recording.differing()
    assert why in found
    sounding = [number for number, channel in enumerate(channels) if np.ptp(channel) > 1e-6]
    assert [side.name for side in sides] == [
        f"{recording.name}#channel={number}" for number in sounding
    ]
    for number, side in zip(sounding, sides, strict=True):
        assert_array_equal(side.read_whole(), frames[:, number])
        assert side.differing() == ("", ())


def test_a_selected_channel_is_not_compared(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.stack([ONE, OTHER], axis=1), 16000)
    read_audio(path)
    for chosen in (as_recording(path, audio=Audio(channels=1)), as_recording(f"{path}#channel=0")):
        chosen.read_whole()
        assert chosen.differing() == ("", ())


def test_the_decision_is_about_the_whole_recording(tmp_path):
    """The first second is silent on the right."""
    path = tmp_path / "a.wav"
    right = np.concatenate([SILENCE[:16000], ONE[16000:]])
    soundfile.write(path, np.stack([ONE, right], axis=1), 16000)
    assert_array_equal(read_audio(path, 0, 8000), (ONE[:8000] / 2).astype(np.float32))
    soundfile.write(path, np.stack([ONE[:20000], SILENCE[:20000]], axis=1), 16000)
    assert_array_equal(read_audio(path, 0, 8000), ONE[:8000].astype(np.float32))


@pytest.mark.parametrize("rate", [8000, 22050, 44100, 48000])
def test_channels_at_other_rates(tmp_path, rate):
    path = tmp_path / "a.flac"
    soundfile.write(path, np.stack([ONE, OTHER], axis=1), rate)
    decoded_length(path)
    found = difference_of(path)
    assert found is not None and found[0] == "channel"
    soundfile.write(path, np.stack([ONE, ONE], axis=1), rate)
    decoded_length(path)
    assert difference_of(path) is None


def test_the_oldest_of_many_recordings_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr("asdf.audio.channels._known", OrderedDict())
    monkeypatch.setattr("asdf.audio.channels._MOST", 2)
    paths = [tmp_path / f"{number}.wav" for number in range(3)]
    for path in paths:
        soundfile.write(path, np.stack([ONE, OTHER], axis=1), 16000)
        read_audio(path)
    assert [difference_of(path) is not None for path in paths] == [False, True, True]


def write_tracks(path: Path, tracks: list[np.ndarray], default: int | None = None) -> Path:
    """Write tracks of 16 bits; `default` has the flag of players."""
    with av.open(str(path), "w", options={"default_mode": "passthrough"}) as container:
        streams = []
        for number, _ in enumerate(tracks):
            stream = container.add_stream("pcm_s16le", rate=16000)
            stream.layout = "mono"
            if number == default:
                stream.disposition = av.stream.Disposition.default
            streams.append(stream)
        for stream, samples in zip(streams, tracks, strict=True):
            integers = np.round(samples * 2**15).astype(np.int16)
            frame = av.AudioFrame.from_ndarray(integers[None], format="s16", layout="mono")
            frame.sample_rate = 16000
            for part in (frame, None):
                for packet in stream.encode(part):
                    container.mux(packet)
    return path


@pytest.mark.parametrize("name", ["a.mkv", "a.mov", "a.mka", "a.avi"])
@pytest.mark.parametrize("order", [1, -1])
def test_tracks_of_two_voices(tmp_path, name, order):
    tracks = [ONE, OTHER][::order]
    path = write_tracks(tmp_path / name, tracks)
    recordings = (as_recording(path), as_recording(path.read_bytes()))
    for recording in recordings:
        assert_allclose(recording.read_whole(), tracks[0])
        why, sides = recording.differing()
        assert why == "sound tracks 1 and 2 are not the same sound"
        assert [side.name for side in sides] == [f"{recording.name}#track={k}" for k in (1, 2)]
        for side, track in zip(sides, tracks, strict=True):
            assert_allclose(side.read_whole(), track)
    assert_allclose(read_audio(f"{path}#t=1,2&track=2"), tracks[1][16000:32000])
    with pytest.raises(AsdfError, match=r"#track=3: the sound tracks of its recording are 1 to 2"):
        read_audio(f"{path}#track=3")


def test_of_a_track_that_nothing_decodes_it_is_said_how_to_choose_another(tmp_path):
    """Apple's spatial sound, which telephones record beside the usual one."""
    path = write_tracks(tmp_path / "a.mov", [ONE, ONE])
    first, second, rest = path.read_bytes().split(b"sowt")
    path.write_bytes(first + b"sowt" + second + b"apac" + rest)
    with pytest.raises(AsdfError, match="sound track 2: Decoder not found; #track=1 behind its"):
        read_audio(path)
    assert_allclose(read_audio(f"{path}#track=1"), ONE)


def test_music_behind_another_track_is_no_verdict_on_it(tmp_path):
    path = write_tracks(tmp_path / "a.mkv", [NOISE, ONE])
    read_audio(path)
    found = difference_of(path)
    assert found is not None and found[1].heard == (1, 2)


@pytest.mark.parametrize(
    ("tracks", "default", "heard"),
    [
        ([SILENCE, ONE], None, 1),
        ([ONE, SILENCE], None, 0),
        ([ONE, ONE], None, 0),
        ([SILENCE, SILENCE], None, 0),
        ([ONE, 0.5 * ONE], 1, 1),
        ([ONE, ONE[:79000]], None, 0),
    ],
)
def test_tracks_that_are_one_sound(tmp_path, tracks, default, heard):
    path = write_tracks(tmp_path / "a.mkv", tracks, default)
    for _ in range(2):
        assert_allclose(read_audio(path), tracks[heard], atol=2**-15)
        assert difference_of(path) is None and as_recording(path).differing() == ("", ())


def test_the_default_track_is_the_first(tmp_path):
    path = write_tracks(tmp_path / "a.mkv", [ONE, OTHER, OTHER], default=1)
    assert_allclose(read_audio(path), OTHER)
    found = recall(Source.of(path), "track")
    assert found is not None and found.heard == (2, 1, 3)


def test_tracks_too_long_to_compare(tmp_path, monkeypatch):
    path = write_tracks(tmp_path / "a.mkv", [ONE, ONE])
    monkeypatch.setattr("asdf.audio.recording_files._MAX_HELD", 10**5)
    assert_allclose(read_audio(path), ONE)
    found = difference_of(path)
    assert found is not None and "too long to be compared" in found[1].why
    assert_allclose(read_audio(f"{path}#track=2"), ONE)


def test_files_without_tracks(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, ONE, 16000)
    assert_array_equal(read_audio(f"{path}#track=1"), ONE.astype(np.float32))
    with pytest.raises(AsdfError, match="has one sound track"):
        read_audio(f"{path}#track=2")
    path = encode(tmp_path / "a.m4a", ONE[None], 16000, "aac")
    assert len(read_audio(f"{path}#track=1")) == len(read_audio(path))
    with pytest.raises(AsdfError, match="are 1 to 1"):
        read_audio(f"{path}#track=2")


def test_content_of_the_same_name_is_other_content(tmp_path):
    path = tmp_path / "a.wav"
    for channels, differ in (([ONE, OTHER], True), ([ONE, ONE], False)):
        soundfile.write(path, np.stack(channels, axis=1), 16000)
        source = Source("a.wav", path.read_bytes())
        read_audio(source)
        assert (difference_of(source) is not None) == differ
