"""The speech of a recording, where it is, and crops of it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.testing import assert_array_equal

from asdf.audio import crop_start, cut_to_speech, read_audio, repeat_to, speech, speech_mask
from asdf.audio.speech import measure_speech, read_speech
from asdf.errors import AsdfError
from asdf.scoring.recordings import as_recording
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
    for recording in (as_recording(path), as_recording(read_audio(path), 16000)):
        beginning, length = recording.read_beginning(sad, samples)
        assert_array_equal(beginning, whole[:samples])
        assert (length.speech, length.recording) == (len(whole), 36000)
        assert length == recording.measure(sad) == measure_speech(path, sad)


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


FRAME = 320  # 20 ms


def burst_at(*frames: int, of: int = 20, level: float = 0.5) -> np.ndarray:
    """Silence of `of` frames with noise in the named ones."""
    x = np.zeros((of, FRAME), np.float32)
    x[list(frames)] = level * np.random.default_rng(0).uniform(-1, 1, (len(frames), FRAME))
    return x.reshape(-1)


def stretches(waveform: np.ndarray, sad: SpeechActivity) -> np.ndarray:
    """(n, 2): where each stretch of speech begins, and where it stops."""
    mask = speech_mask(waveform, sad).astype(np.int8)
    return np.flatnonzero(np.diff(mask, prepend=0, append=0)).reshape(-1, 2)


def test_hangover_follows_speech_and_does_not_precede_it():
    speech = stretches(burst_at(3, 12), SpeechActivity(hangover_s=0.04))
    assert_array_equal(speech, [[3 * FRAME, 6 * FRAME], [12 * FRAME, 15 * FRAME]])


def test_hangover_joins_what_is_close():
    speech = stretches(burst_at(3, 6), SpeechActivity(hangover_s=0.04))
    assert_array_equal(speech, [[3 * FRAME, 9 * FRAME]])


def test_mask_covers_a_shorter_last_frame():
    x = burst_at(19)[: 19 * FRAME + 7]
    mask = speech_mask(x, SpeechActivity(hangover_s=0))
    assert mask.shape == x.shape
    assert_array_equal(np.flatnonzero(mask), 19 * FRAME + np.arange(7))


@pytest.mark.parametrize(("level_db", "frames"), [(-29, 2), (-31, 1)])
def test_threshold_is_relative_to_the_loudest_frame(level_db, frames):
    for gain in (1.0, 0.001):
        pattern = burst_at(0, of=1)
        x = gain * np.concatenate([pattern, 10 ** (level_db / 20) * pattern])
        assert speech_mask(x, SpeechActivity(hangover_s=0)).sum() == frames * FRAME


def test_a_constant_offset_is_not_speech():
    x = burst_at(5)
    sad = SpeechActivity()
    assert_array_equal(speech_mask(x + np.float32(0.25), sad), speech_mask(x, sad))


def test_modes():
    x = burst_at(3, 12)
    x += (
        np.arange(len(x), dtype=np.float32) * 1e-9
    )  # so that every sample is known from every other
    sad = SpeechActivity(hangover_s=0.0)
    assert cut_to_speech(x, sad) is x
    assert_array_equal(
        cut_to_speech(x, SpeechActivity("endpoint", hangover_s=0)), x[3 * FRAME : 13 * FRAME]
    )
    speech_only = np.concatenate([x[3 * FRAME : 4 * FRAME], x[12 * FRAME : 13 * FRAME]])
    assert_array_equal(cut_to_speech(x, SpeechActivity("on", hangover_s=0)), speech_only)


@pytest.mark.parametrize("mode", ["off", "endpoint", "on"])
@pytest.mark.parametrize("level", [0.0, 0.25])
def test_digital_silence_is_left_whole(mode, level):
    x = np.full(1001, level, np.float32)
    assert stretches(x, SpeechActivity(mode)).shape == (0, 2)
    assert_array_equal(cut_to_speech(x, SpeechActivity(mode)), x)


def test_repeat_to_repeats_whole_and_cuts():
    x = np.array([1, 2, 3], np.float32)
    assert_array_equal(repeat_to(x, 8), [1, 2, 3, 1, 2, 3, 1, 2])
    assert repeat_to(x, 8).dtype == np.float32


def test_repeat_to_leaves_long_enough_waveforms():
    x = np.arange(5, dtype=np.float32)
    assert repeat_to(x, 5) is x
    assert repeat_to(x, 3) is x


def test_repeat_to_refuses_an_empty_waveform():
    with pytest.raises(ValueError, match="without samples"):
        repeat_to(np.zeros(0, np.float32), 3)


def test_every_position_is_equally_likely():
    rng = np.random.default_rng(0)
    counts = np.bincount([crop_start(12, 10, rng) for _ in range(3000)], minlength=3)
    assert len(counts) == 3
    assert counts.min() > 900


def test_no_choice_starts_at_0():
    rng = np.random.default_rng(0)
    assert [crop_start(length, 10, rng) for length in (1, 9, 10)] == [0, 0, 0]
