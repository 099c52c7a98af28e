from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.augmentation.chain import Chain
from asdf.audio.augmentation.filtering import TrimmedSilence
from tests.augmentations import augmentation

LEAD = 4800
SPEECH = 6400
TAIL = 3200


def part_of(**values: float) -> TrimmedSilence:
    return TrimmedSilence(augmentation(probability=1.0, **values), Path())


@pytest.fixture
def padded() -> np.ndarray:
    """Speech of 20 whole frames, with a hole in it, between silences 60 dB below it."""
    rng = np.random.default_rng(0)
    waveform = rng.uniform(-0.5, 0.5, LEAD + SPEECH + TAIL)
    waveform[:LEAD] *= 1e-3
    waveform[-TAIL:] *= 1e-3
    waveform[LEAD + 1600 : LEAD + 3200] *= 1e-3
    return waveform.astype(np.float32)


def test_silences_at_the_ends_are_trimmed_and_the_speech_is_whole(padded):
    trimmed = part_of(silence_max_s=0.0).apply(padded, np.random.default_rng(0))
    assert_array_equal(trimmed, padded[LEAD : LEAD + SPEECH])


def test_what_remains_is_drawn_up_to_the_longest(padded):
    part = part_of(silence_max_s=0.25)
    rng = np.random.default_rng(1)
    leads = []
    tails = []
    for _ in range(400):
        trimmed = part.apply(padded, rng)
        (start,) = np.flatnonzero(padded == trimmed[0])[:1]
        assert_array_equal(trimmed, padded[start : start + len(trimmed)])
        leads.append(LEAD - start)
        tails.append(start + len(trimmed) - LEAD - SPEECH)
    # 0.25 s are 4,000 samples; at the end there are fewer.
    assert 0 <= min(leads) < 60 and 3940 < max(leads) <= 4000
    assert 0 <= min(tails) < 60 and 3140 < max(tails) <= TAIL
    assert abs(np.corrcoef(leads, tails)[0, 1]) < 0.15


def test_a_quieter_threshold_takes_the_silence_for_speech(padded):
    part = part_of(silence_max_s=0.0)
    part.detection.threshold_db = 80.0
    assert_array_equal(part.apply(padded, np.random.default_rng(0)), padded)


def test_clips_without_speech_stay_as_they_are():
    part = part_of(silence_max_s=0.0)
    click = np.zeros(8000, np.float32)
    for clip in (click, click + 1):
        assert_array_equal(part.apply(clip, np.random.default_rng(0)), clip)
    click[4000] = 1
    assert_array_equal(part.apply(click, np.random.default_rng(0)), click)


def test_it_comes_before_the_speech_is_repeated(padded):
    chain = Chain((part_of(silence_max_s=0.0),))
    filled = chain.fill(padded, 20000, np.random.default_rng(0))
    assert_array_equal(filled, np.resize(padded[LEAD : LEAD + SPEECH], 20000))
    assert_array_equal(chain.apply(filled, 100, 20000, np.random.default_rng(0)), filled)


def test_without_it_speech_is_repeated_as_ever(padded):
    rng, untouched = np.random.default_rng(0), np.random.default_rng(0)
    assert_array_equal(Chain().fill(padded, 20000, rng), np.resize(padded, 20000))
    assert rng.bit_generator.state == untouched.bit_generator.state
