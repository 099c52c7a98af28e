from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from asdf.audio import crop_start, repeat_to


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
