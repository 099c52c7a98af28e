"""Scoring batches: equal lengths only, within a budget, the same whatever the order of the list."""

import numpy as np
import pytest

from asdf.data.scoring_plan import batch_samples, scored_length, scoring_batches
from asdf.settings.sections import Network


def settings(**changes) -> Network:
    return Network(
        minibatch_size=4,
        train_clip_size=1000,
        eval_minibatch_size_factor=2,
        min_evaluation_utterance_length_in_samples=500,
        max_evaluation_utterance_length_in_samples=3000,
        **changes,
    )


def on_a_grid(samples: int) -> int:
    return samples // 320 * 320


LENGTHS = np.random.default_rng(1).integers(100, 5000, 200)


def test_the_scored_length():
    net = settings()
    assert [scored_length(n, net, lambda n: n) for n in (1, 499, 500, 2999, 9999)] == [
        500,
        500,
        500,
        2999,
        3000,
    ]
    assert [scored_length(n, net, on_a_grid) for n in (1, 700, 9999)] == [320, 640, 2880]


def test_every_trial_is_in_one_batch_with_its_own_length():
    net = settings()
    batches = scoring_batches(LENGTHS, net, on_a_grid)
    assert sorted(np.concatenate([batch.trials for batch in batches]).tolist()) == list(range(200))
    for batch in batches:
        assert {scored_length(int(n), net, on_a_grid) for n in LENGTHS[batch.trials]} == {
            batch.samples
        }


def test_batches_keep_to_the_budget_and_go_from_long_to_short():
    batches = scoring_batches(LENGTHS, settings(), on_a_grid)
    assert all(len(batch.trials) * batch.samples <= 8000 for batch in batches)
    samples = [batch.samples for batch in batches]
    assert samples == sorted(samples, reverse=True)
    # 20 trials of 500 samples: 16 fit, then the rest.
    assert [
        len(batch.trials) for batch in scoring_batches(np.full(20, 500), settings(), lambda n: n)
    ] == [16, 4]


def test_a_trial_longer_than_the_budget_is_alone():
    net = settings()
    net.eval_minibatch_size_factor = 0.1
    assert {len(batch.trials) for batch in scoring_batches(LENGTHS, net, on_a_grid)} == {1}


def test_the_batch_of_a_trial_has_the_same_length_whatever_the_order():
    mixed = np.random.default_rng(2).permutation(200)
    lengths = {}
    for order in (np.arange(200), mixed):
        for batch in scoring_batches(LENGTHS[order], settings(), on_a_grid):
            for trial in order[batch.trials]:
                assert lengths.setdefault(trial, batch.samples) == batch.samples


@pytest.mark.parametrize("proportion", [0.05, 0.3, 1.0])
def test_no_more_is_cut_than_allowed_and_batches_become_fewer(proportion):
    net = settings(max_cut_proportion=proportion)
    batches = scoring_batches(LENGTHS, net, on_a_grid)
    whole = np.array([scored_length(int(n), net, on_a_grid) for n in LENGTHS])
    for batch in batches:
        lost = 1 - batch.samples / whole[batch.trials]
        assert (lost >= 0).all() and (lost <= proportion + 1e-12).all()
    kinds, exact = (
        {batch.samples for batch in scoring_batches(LENGTHS, kind, on_a_grid)}
        for kind in (net, settings())
    )
    assert kinds <= exact
    assert proportion < 0.2 or len(kinds) < len(exact)


GIB = 2**30


@pytest.mark.parametrize(
    ("gpu_gib", "samples"),
    [
        (0, 2 * 14 * 64600),  # a CPU
        (15.7, 2 * 14 * 64600),  # never less than on a CPU
        (39.4, 2_603_010),
        (79.1, 5_856_773),
        (79.6, 5_856_773),  # another driver
        (139.8, 2**23),
    ],
)
def test_auto_is_what_a_quarter_of_a_gpus_memory_holds(gpu_gib, samples):
    net = Network(minibatch_size=14, train_clip_size=64600)
    assert net.eval_minibatch_size_factor == "auto"
    assert batch_samples(net, int(gpu_gib * GIB)) == samples
    sizes = [
        len(batch.trials)
        for batch in scoring_batches(np.full(200, 64600), net, int, int(gpu_gib * GIB))
    ]
    assert sizes[0] == min(200, samples // 64600)


def test_a_number_is_the_same_on_every_device():
    for gpu_bytes in (0, 80 * GIB):
        assert batch_samples(settings(), gpu_bytes) == 8000
