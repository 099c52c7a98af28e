from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio import cut_to_speech, speech_mask
from asdf.settings.sections import SpeechActivity

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
