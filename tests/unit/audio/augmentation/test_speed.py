from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio.augmentation.filtering import Speed, at_speed, source_samples
from tests.augmentations import augmentation


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
