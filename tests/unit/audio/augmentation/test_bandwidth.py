from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from asdf.audio.augmentation.filtering import Bandwidth, limit_bandwidth
from tests.augmentations import augmentation


@pytest.mark.parametrize("limit_hz", [300, 3400, 4000, 5512.5, 7900, 8000])
def test_above_the_limit_nothing_is_left_and_below_all_is(limit_hz):
    impulse = np.zeros(32000, np.float32)
    impulse[16000] = 1
    limited = limit_bandwidth(impulse, limit_hz)
    assert limited.dtype == np.float32 and limited.shape == impulse.shape
    # Taken to the impulse's own time: a delay would turn the phase.
    gains = np.fft.rfft(np.roll(limited, -16000))
    frequencies = np.arange(16001) / 2
    assert_allclose(gains[frequencies < limit_hz - 80], 1, atol=2e-4)
    above = gains[frequencies > limit_hz]
    assert np.abs(above).max(initial=0) < 2e-4


def test_limits_are_drawn_in_the_range(speech):
    part = Bandwidth(augmentation(), Path())
    white = np.random.default_rng(0).standard_normal(16000).astype(np.float32)
    rng = np.random.default_rng(1)
    limits = []
    for _ in range(200):
        power = np.abs(np.fft.rfft(part.apply(white, rng))) ** 2
        limits.append(np.flatnonzero(power > 1e-3 * power.mean())[-1] / 2 * 2)
    assert 3350 < min(limits) < 3500 and 7400 < max(limits) < 7500
    assert abs(np.mean(limits) - 5450) < 250
    first = part.apply(speech, np.random.default_rng(3))
    assert_array_equal(part.apply(speech, np.random.default_rng(3)), first)
    assert not np.array_equal(part.apply(speech, np.random.default_rng(4)), first)


def test_a_fixed_limit_is_that_of_the_range():
    part = Bandwidth(augmentation(), Path())
    part.min_hz = part.max_hz = 4000.0
    white = np.random.default_rng(0).standard_normal(9000).astype(np.float32)
    limited = part.apply(white, np.random.default_rng(0))
    assert_array_equal(limited, limit_bandwidth(white, 4000.0))
    assert part.describe() == "bandwidth (4000 to 4000 Hz)"
