"""Draws that follow from the seed and their purpose alone."""

import numpy as np

from asdf.runs.seeds import derived_seed, generator


def test_equal_purposes_draw_equally_whatever_was_drawn_before():
    first = generator(1, "clip", 3, 5).random(4)
    generator(1, "clip", 3, 4).random(100)
    assert np.array_equal(generator(1, "clip", 3, 5).random(4), first)
    for other in ((2, "clip", 3, 5), (1, "order", 3, 5), (1, "clip", 5, 3), (1, "clip", 3)):
        assert not np.array_equal(generator(*other).random(4), first)


def test_the_draws_are_the_same_in_another_process_and_years_from_now():
    """NumPy promises this of the raw numbers, though not of the distributions made from them."""
    assert generator(7, "clip", 1, 2).bit_generator.random_raw() == 4246157528598898374
    assert derived_seed(7, "step", 1) == 7290784642748717633


def test_derived_seeds_fit_into_63_bits_and_differ():
    seeds = {
        derived_seed(seed, "step", step, rank)
        for seed in (0, 2**32 - 1)
        for step in range(50)
        for rank in (0, 1)
    }
    assert len(seeds) == 200 and max(seeds) < 2**63 and min(seeds) >= 0
