"""Parts of recordings: the frames of the whole one, however they are read."""

from __future__ import annotations

import tarfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.audio import audio_length, read_audio
from asdf.audio.reading import decoded_length, read_blocks
from asdf.audio.recording_files import open_recording
from asdf.errors import AsdfError
from asdf.places import Part, file_size, file_state, part_path, split_part
from asdf.settings.sections import Audio
from asdf.trials.lists import check_files
from asdf.trials.trial_list import TrialList

RATE = 16000


def write(path: Path, rate: int = RATE, channels: int = 1, seconds: float = 2) -> np.ndarray:
    """Write noise, and return what the file holds: (frames, channels)."""
    rng = np.random.default_rng(1)
    samples = rng.uniform(-0.5, 0.5, (round(seconds * rate), channels))
    soundfile.write(path, samples, rate)
    whole, _ = soundfile.read(path, dtype="float32", always_2d=True)
    return whole


@pytest.mark.parametrize("suffix", ["flac", "wav", "ogg", "mp3"])
def test_a_part_has_the_frames_of_the_whole_recording(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    whole = write(path)
    part = f"{path}#t=0.25,1.5"
    if suffix == "mp3":
        # Where soundfile begins to read decides about the last bits of what an MP3 decodes to.
        whole = read_audio(path)[:, None]
    expected = whole[4000:24000, 0]
    np.testing.assert_array_equal(read_audio(part), expected)
    np.testing.assert_array_equal(read_audio(part, 100, 7000), expected[100:7100])
    np.testing.assert_array_equal(np.concatenate(list(read_blocks(part, 3000))), expected)
    assert audio_length(part) == decoded_length(part) == 20000


def test_times_are_rounded_half_up_as_numbers_of_frames(tmp_path):
    path = tmp_path / "a.wav"
    whole = write(path, rate=8000)
    # 0.1000625 s are 800.5 frames: 801. 0.2 s from there are 1600 frames.
    part = f"{path}#t=0.1000625,0.3000625"
    with open_recording(part) as file:
        np.testing.assert_array_equal(file.read(-1)[:, 0], whole[801:2401, 0])
    assert audio_length(part) == 3200  # at 16 kHz


def test_a_part_may_be_a_channel(tmp_path):
    path = tmp_path / "a.flac"
    whole = write(path, channels=2)
    np.testing.assert_array_equal(read_audio(f"{path}#channel=1"), whole[:, 1])
    np.testing.assert_array_equal(read_audio(f"{path}#t=0.5,1&channel=0", 10), whole[8010:16000, 0])
    both = read_audio(f"{path}#t=0.5,1", audio=Audio(channels="all"))
    np.testing.assert_array_equal(both, whole[8000:16000])
    with pytest.raises(AsdfError, match="the channels of its recording are 0 to 1"):
        read_audio(f"{path}#channel=2")


def test_a_part_of_a_member_of_a_tar(tmp_path):
    whole = write(tmp_path / "a.flac")
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tmp_path / "a.flac", "s/a.flac")
    part = tmp_path / "x.tar/s/a.flac#t=1,1.25"
    np.testing.assert_array_equal(read_audio(part), whole[16000:20000, 0])
    assert file_size(part) == file_size(tmp_path / "a.flac")
    assert file_state(part) == file_state(tmp_path / "x.tar/s/a.flac")
    check_files([TrialList(["x.tar/s/a.flac#t=1,1.25"], [1], folder=tmp_path)])
    with pytest.raises(AsdfError, match=r"b.flac#t=1,1.25"):
        check_files([TrialList(["x.tar/s/b.flac#t=1,1.25"], [1], folder=tmp_path)])


@pytest.mark.parametrize("times", ["1.5,2.5", "2,3", "1,1", "1.5,1"])
def test_a_part_that_is_not_in_its_recording_is_refused(tmp_path, times):
    path = tmp_path / "a.wav"
    write(path)
    with pytest.raises(AsdfError, match=r"is not part of its recording, which is 2.000 s long"):
        read_audio(f"{path}#t={times}")


def test_names_of_parts_are_read_and_written_the_same():
    part = Part(Decimal("10.00"), Decimal("1E+1") + Decimal("0.125"))
    assert part_path("a.wav", part) == "a.wav#t=10,10.125"
    assert split_part("a.wav#t=10,10.125") == ("a.wav", Part(Decimal(10), Decimal("10.125")))
    assert split_part("a.wav#channel=3") == ("a.wav", Part(channel=3))
    assert part_path("a.wav", Part()) == "a.wav"
    # Neither times nor a channel: the name of a file.
    for name in ("a#1.wav", "a.wav#t=1", "a.wav#t=1,2,3", "a.wav#t=1,2&channel=x"):
        assert split_part(name) == (name, None)
