"""The quality of an order, against a case by hand and simulated global shuffles."""

import numpy as np
import pytest

from asdf.data.shards import order_by_shards
from asdf.data.shuffling import measure_shuffling


def test_both_measures_of_an_order_by_hand():
    # Minibatches of 3: (a a b), (b b a); a seventh turn is in none.
    shards_N = np.array([0, 0, 1, 1, 1, 0, 1])
    labels_N = np.array([1, 1, 1, 0, 0, 0, 0])
    measured = measure_shuffling(shards_N, labels_N, 3)
    # One of the three pairs in each minibatch is of one shard.
    assert measured.neighbours == pytest.approx(1 / 3)
    # Of the 21 pairs of all turns 3 are within a, 6 within b.
    assert measured.neighbours_expected == pytest.approx(9 / 21)
    # Three and no bona fide turns, 3 * 3/7 expected.
    assert measured.variance == pytest.approx(((3 - 9 / 7) ** 2 + (9 / 7) ** 2) / 2)
    assert measured.variance_expected == pytest.approx(3 * (3 / 7) * (4 / 7) * (4 / 6))
    assert measured.describe() == (
        "33.33 % of the pairs in a minibatch are of one shard (42.86 % in a global shuffle); bona "
        "fide per minibatch vary 4.69 times as much as in one"
    )


def test_what_cannot_be_measured_is_not():
    assert measure_shuffling(np.zeros(3, int), np.ones(3, int), 4) is None
    assert measure_shuffling(np.zeros(3, int), np.ones(3, int), 1) is None
    measured = measure_shuffling(np.arange(4), np.ones(4, int), 2)
    assert measured.describe() == (
        "0.00 % of the pairs in a minibatch are of one shard (0.00 % in a global shuffle)"
    )


def test_what_is_expected_of_a_global_shuffle_is_the_mean_of_many():
    draws = np.random.default_rng(1)
    shards_N = np.repeat(np.arange(6), [5, 10, 1, 20, 4, 8])
    labels_N = (draws.random(48) < 0.3).astype(int)
    measured = []
    for _ in range(3000):
        order = draws.permutation(48)
        measured.append(measure_shuffling(shards_N[order], labels_N[order], 8))
    neighbours = np.mean([one.neighbours for one in measured])
    variance = np.mean([one.variance for one in measured])
    assert neighbours == pytest.approx(measured[0].neighbours_expected, rel=0.02)
    assert variance == pytest.approx(measured[0].variance_expected, rel=0.03)


def test_a_wider_window_shuffles_better_down_to_a_global_shuffle():
    shards_N = np.repeat(np.arange(64), 50)
    # Shards of one class: what a window can do to the labels of minibatches.
    labels_N = shards_N % 2
    results = []
    for window in (1, 4, 16, 64):
        order = order_by_shards(shards_N, window, np.random.default_rng(window))
        results.append(measure_shuffling(shards_N[order], labels_N[order], 32))
    shares = [result.neighbours for result in results]
    ratios = [result.variance / result.variance_expected for result in results]
    assert shares == sorted(shares, reverse=True)
    assert ratios == sorted(ratios, reverse=True)
    # 50 turns of a shard in a row; in a window of w shards a w-th of them, but for the two ends.
    assert shares[0] > 0.6
    assert shares[1] == pytest.approx(1 / 4, rel=0.3)
    assert shares[2] == pytest.approx(1 / 16, rel=0.5)
    assert shares[3] == pytest.approx(results[3].neighbours_expected, rel=0.1)
    assert ratios[3] == pytest.approx(1, abs=0.3)
