"""What a draw takes from its generator, which the examples of a resumed run depend on."""

from __future__ import annotations

import numpy as np

from asdf.audio.augmentation.part import draw_between, draw_item


def test_an_item_takes_an_integer_below_their_number():
    expected = np.random.default_rng(3).integers(5, size=20)
    rng = np.random.default_rng(3)
    assert [draw_item("abcde", rng) for _ in range(20)] == ["abcde"[index] for index in expected]


def test_a_number_in_a_range_takes_a_number_from_0_to_1():
    uniform = np.random.default_rng(4).random(20)
    rng = np.random.default_rng(4)
    drawn = [draw_between(-3.0, 7.0, rng) for _ in range(20)]
    assert drawn == (-3.0 + 10.0 * uniform).tolist()
