"""Speed and trimmed silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.augmentation.chain import Chain
from asdf.audio.augmentation.filtering import Speed, TrimmedSilence, at_speed, source_samples
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


def speed(probability: float, lowest: float, highest: float) -> Speed:
    values = {"speed_probability": probability, "speed_min": lowest, "speed_max": highest}
    return Speed(augmentation(**values), Path())


@pytest.mark.parametrize("percent", [50, 90, 97, 100, 103, 110, 200])
def test_the_source_is_just_long_enough(percent):
    for samples in (400, 401, 4000, 4001):
        source = source_samples(samples, percent)
        assert len(at_speed(np.zeros(source, np.float32), percent)) >= samples
        assert len(at_speed(np.zeros(source - 1, np.float32), percent)) < samples


@pytest.mark.parametrize("percent", [90, 110])
def test_tempo_and_pitch_change_together(percent):
    tone = np.sin(2 * np.pi * 1000 * np.arange(16000) / 16000).astype(np.float32)
    played = at_speed(tone, percent)
    assert len(played) == -(-16000 * 100 // percent)
    wanted = np.sin(2 * np.pi * 10 * percent * np.arange(len(played)) / 16000)
    assert np.abs(played - wanted)[50:-50].max() < 5e-3


def test_the_speed_as_it_is_changes_no_sample(speech):
    assert at_speed(speech, 100) is speech and source_samples(64600, 100) == 64600


def test_draws_lie_in_the_range_in_the_requested_proportion():
    rng = np.random.default_rng(0)
    part = speed(0.7, lowest=0.9, highest=1.1)
    drawn = np.array([part.draw(rng) for _ in range(2000)])
    assert set(drawn) == set(range(90, 111))
    # One in twenty of those that are drawn comes out as 100 all the same.
    assert abs(np.mean(drawn != 100) - 0.7 * 0.95) < 0.03
    assert speed(1.0, lowest=1.07, highest=1.07).draw(rng) == 107


def test_by_itself_it_plays_a_clip_to_the_same_length(speech):
    rng = np.random.default_rng(0)
    slow = speed(0.0, lowest=0.9, highest=0.9).apply(speech, rng)
    assert_array_equal(slow, at_speed(speech, 90)[: len(speech)])
    fast = speed(0.0, lowest=1.25, highest=1.25).apply(speech, rng)
    assert_array_equal(fast, np.resize(at_speed(speech, 125), len(speech)))
