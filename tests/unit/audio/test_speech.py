"""Speech is the same samples, whether it is read whole, in parts, from its start, or measured."""

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import cut_to_speech, read_audio, speech
from asdf.audio.speech import find_beginning, measure_speech, read_beginning, read_speech
from asdf.errors import AsdfError
from asdf.settings.sections import SpeechActivity

OFF = SpeechActivity("off")
MODES = [OFF, SpeechActivity("endpoint"), SpeechActivity("on")]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A recording with noise between and around stretches of digital silence."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, 6000)
    silence = np.zeros(8000)
    parts = [silence, noise, silence, noise, silence]
    soundfile.write(tmp_path / "a.wav", np.concatenate(parts), 16000)
    return tmp_path / "a.wav"


@pytest.mark.parametrize("sad", MODES, ids=lambda sad: sad.mode)
def test_a_part_is_that_of_the_whole_speech(path, sad):
    whole = cut_to_speech(read_audio(path), sad)
    assert_array_equal(read_speech(path, sad), whole)
    assert_array_equal(read_speech(path, sad, 700), whole[700:])
    assert_array_equal(read_speech(path, sad, 700, 900), whole[700:1600])
    assert_array_equal(read_speech(path, sad, 700, 10**6), whole[700:])


@pytest.mark.parametrize("sad", MODES, ids=lambda sad: sad.mode)
@pytest.mark.parametrize("samples", [1000, 36000, 36001, 10**6])
def test_a_beginning_comes_with_both_lengths(path, sad, samples):
    whole = cut_to_speech(read_audio(path), sad)
    beginning = read_beginning(path, sad, samples)
    assert_array_equal(beginning.waveform, whole[:samples])
    assert (beginning.length.speech, beginning.length.recording) == (len(whole), 36000)
    from_array = find_beginning(read_audio(path), sad, samples)
    assert_array_equal(from_array.waveform, beginning.waveform)
    assert from_array.length == beginning.length == measure_speech(path, sad)


def test_only_speech_activity_detection_needs_the_samples_before_a_part(path, monkeypatch):
    parts = []

    def read(path: Path, *part: object, audio: object = None) -> np.ndarray:
        parts.append(part[:2])
        return read_audio(path)

    monkeypatch.setattr(speech, "read_audio", read)
    for sad in MODES:
        read_speech(path, sad, 8000, 100)
    assert parts == [(8000, 100), (), ()]


def test_a_measurement_decodes_only_on_request(path):
    whole = path.with_suffix(".flac")
    soundfile.write(whole, read_audio(path), 16000)
    content = bytearray(whole.read_bytes())
    content[len(content) // 2 :] = bytes(len(content) - len(content) // 2)
    whole.write_bytes(content)
    assert measure_speech(whole, OFF).speech == 36000
    with pytest.raises(AsdfError, match="cannot be decoded to its end"):
        measure_speech(whole, OFF, decode=True)
