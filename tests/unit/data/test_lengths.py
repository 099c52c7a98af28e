"""Measured lengths: right, kept, and never those of something else."""

import os
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile

from asdf.audio import apply, read_audio
from asdf.data import lengths as room
from asdf.data.demo_voices import draw_speaker, speak
from asdf.data.lengths import lengths_file, measure_lengths
from asdf.data.lists import read_list
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.settings.sections import SpeechActivity

OFF = SpeechActivity()


@pytest.fixture
def utterances(tmp_path):
    """16 kHz, 8 kHz and 44.1 kHz, the last with silent ends."""
    noise = np.random.default_rng(1).uniform(-0.5, 0.5, 60000)
    soundfile.write(tmp_path / "a.wav", noise[:5000], 16000)
    soundfile.write(tmp_path / "b.wav", noise[:5000], 8000)
    soundfile.write(tmp_path / "c.wav", np.concatenate([np.zeros(22050), noise[:44100], np.zeros(22050)]), 44100)
    (tmp_path / "list.txt").write_text("a.wav 1\nb.wav 0\nc.wav 0\n")
    return read_list(tmp_path / "list.txt", tmp_path, "mine")


def test_lengths_are_at_16_khz_in_list_order(utterances, tmp_path):
    lengths = measure_lengths(utterances, OFF, tmp_path / "sad", World())
    assert lengths.tolist() == [5000, 10000, 32000] and lengths.dtype == np.int64


@pytest.mark.parametrize("at_once", [1, 2])
def test_it_does_not_matter_how_many_are_measured_at_once(utterances, tmp_path, monkeypatch, at_once):
    whole = measure_lengths(utterances, OFF, tmp_path / "whole", World())
    monkeypatch.setattr(room, "_AT_ONCE", at_once)
    assert measure_lengths(utterances, OFF, tmp_path / "parts", World()).tolist() == whole.tolist()


def test_speech_activity_detection_shortens_them(utterances, tmp_path):
    endpoint = SpeechActivity(mode="endpoint", hangover_s=0.0)
    lengths = measure_lengths(utterances, endpoint, tmp_path / "sad", World())
    assert lengths.tolist()[:2] == [5000, 10000] and abs(lengths[2] - 16000) <= 640


@pytest.mark.skipif(find_spec("silero_vad") is None, reason="silero-vad is not installed")
def test_in_several_threads_silero_measures_what_is_read_later(tmp_path):
    for index in range(12):
        rng = np.random.default_rng(index)
        voice = np.concatenate([np.zeros(8000), speak(draw_speaker(rng), 1.0, rng), np.zeros(8000)])
        soundfile.write(tmp_path / f"{index}.wav", 0.5 * voice / np.abs(voice).max(), 16000)
    (tmp_path / "list.txt").write_text("".join(f"{index}.wav {index % 2}\n" for index in range(12)))
    utterances = read_list(tmp_path / "list.txt", tmp_path, "voices")
    silero = SpeechActivity("on", detector="silero")
    lengths = measure_lengths(utterances, silero, tmp_path / "sad", World())
    assert lengths.tolist() == [len(apply(read_audio(utterances.path(index)), silero)) for index in range(12)]
    assert (lengths < 31000).all() and len(set(lengths.tolist())) > 4
    assert lengths_file(tmp_path, utterances, silero) != lengths_file(tmp_path, utterances, SpeechActivity("on"))


def test_a_measurement_is_used_again(utterances, tmp_path, monkeypatch):
    first = measure_lengths(utterances, OFF, tmp_path / "sad", World())
    monkeypatch.setattr(room, "audio_length", lambda path: pytest.fail("measured again"))
    assert np.array_equal(measure_lengths(utterances, OFF, tmp_path / "sad", World()), first)


def test_other_settings_lists_or_recordings_have_other_files(utterances, tmp_path):
    folder = tmp_path / "sad"
    names = {lengths_file(folder, utterances, OFF)}
    # What does not matter while the detector is off does not count.
    assert lengths_file(folder, utterances, SpeechActivity(threshold_db=20)) in names
    for other in (SpeechActivity(mode="on"), SpeechActivity(mode="endpoint"), SpeechActivity("endpoint", 20)):
        names.add(lengths_file(folder, utterances, other))
    names.add(lengths_file(folder, utterances.select(np.array([1, 0, 2])), OFF))
    soundfile.write(tmp_path / "a.wav", np.zeros(7000), 16000)
    names.add(lengths_file(folder, utterances, OFF))
    assert len(names) == 6
    assert measure_lengths(utterances, OFF, folder, World())[0] == 7000


def test_recordings_moved_to_another_folder_need_no_new_measurement(utterances, tmp_path):
    moved = tmp_path / "local_disk"
    moved.mkdir()
    for name in utterances.ids:
        os.link(tmp_path / name, moved / name)
    there = read_list(tmp_path / "list.txt", moved, "mine")
    assert lengths_file(tmp_path, there, OFF) == lengths_file(tmp_path, utterances, OFF)


def test_all_broken_recordings_are_in_one_message_and_nothing_is_written(utterances, tmp_path):
    (tmp_path / "a.wav").write_bytes(b"")
    (tmp_path / "b.wav").write_bytes(b"this is no audio")
    with pytest.raises(AsdfError) as told:
        measure_lengths(utterances, OFF, tmp_path / "sad", World())
    text = str(told.value)
    assert text.startswith("2 of the 3 recordings of mine cannot be used:")
    assert f"{tmp_path / 'a.wav'} is empty" in text and f"{tmp_path / 'b.wav'} is not audio" in text
    assert not (tmp_path / "sad").exists()


def test_a_file_of_other_utterances_is_refused(utterances, tmp_path):
    path = lengths_file(tmp_path, utterances, OFF)
    Path(path).write_text("x.wav\t5\n")
    with pytest.raises(AsdfError, match="does not hold the utterances of mine"):
        measure_lengths(utterances, OFF, tmp_path, World())
