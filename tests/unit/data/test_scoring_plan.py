"""Scoring batches: equal lengths only, within a budget, the same whatever the order of the list."""

import numpy as np
import pytest

from asdf.data.scoring_plan import ScoringPlan, batch_samples
from asdf.settings.sections import Network
from asdf.trials.how_scored import WHOLE, ScoredLength

LENGTHS = np.random.default_rng(1).integers(100, 5000, 200)
SCORED = ScoredLength(500, 3000)


def on_a_grid(samples: int) -> int:
    return samples // 320 * 320


def exactly(samples: int) -> int:
    return samples


def plan(max_batch_samples: int = 8000, max_cut_proportion: float = 0.0) -> ScoringPlan:
    return ScoringPlan(SCORED, on_a_grid, max_batch_samples, max_cut_proportion)


def test_the_scored_length():
    exact = ScoringPlan(SCORED, exactly, 8000)
    samples = [exact.scored_samples(length) for length in (1, 499, 500, 2999, 9999)]
    assert samples == [500, 500, 500, 2999, 3000]
    assert [plan().scored_samples(length) for length in (1, 700, 9999)] == [320, 640, 2880]
    assert ScoringPlan(WHOLE, exactly, 8000).scored_samples(10**7) == 10**7


def test_every_trial_is_in_one_batch_with_its_own_length():
    batches = plan().batches(LENGTHS)
    assert sorted(np.concatenate([batch.trials for batch in batches]).tolist()) == list(range(200))
    for batch in batches:
        samples = {plan().scored_samples(length) for length in LENGTHS[batch.trials].tolist()}
        assert samples == {batch.samples}


def test_batches_keep_to_the_budget_and_go_from_long_to_short():
    batches = plan().batches(LENGTHS)
    assert all(len(batch.trials) * batch.samples <= 8000 for batch in batches)
    samples = [batch.samples for batch in batches]
    assert samples == sorted(samples, reverse=True)
    # 20 trials of 500 samples: 16 fit, then the rest.
    equal = ScoringPlan(SCORED, exactly, 8000).batches(np.full(20, 500))
    assert [len(batch.trials) for batch in equal] == [16, 4]


def test_no_trials_are_no_batches():
    assert plan().batches(np.zeros(0, np.int64)) == []


def test_a_trial_longer_than_the_budget_is_alone():
    assert {len(batch.trials) for batch in plan(max_batch_samples=400).batches(LENGTHS)} == {1}


def test_the_batch_of_a_trial_has_the_same_length_whatever_the_order():
    mixed = np.random.default_rng(2).permutation(200)
    lengths = {}
    for order in (np.arange(200), mixed):
        for batch in plan().batches(LENGTHS[order]):
            for trial in order[batch.trials]:
                assert lengths.setdefault(trial, batch.samples) == batch.samples


@pytest.mark.parametrize("proportion", [0.05, 0.3, 1.0])
def test_no_more_is_cut_than_allowed_and_batches_become_fewer(proportion):
    batches = plan(max_cut_proportion=proportion).batches(LENGTHS)
    whole = np.array([plan().scored_samples(length) for length in LENGTHS.tolist()])
    for batch in batches:
        lost = 1 - batch.samples / whole[batch.trials]
        assert (lost >= 0).all() and (lost <= proportion + 1e-12).all()
    cut = {batch.samples for batch in batches}
    exact = {batch.samples for batch in plan().batches(LENGTHS)}
    assert cut <= exact
    assert proportion < 0.2 or len(cut) < len(exact)


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
    settings = Network(minibatch_size=14, train_clip_size=64600)
    assert settings.eval_minibatch_size_factor == "auto"
    budget = batch_samples(settings, int(gpu_gib * GIB))
    assert budget == samples
    batches = ScoringPlan(WHOLE, exactly, budget).batches(np.full(200, 64600))
    assert len(batches[0].trials) == min(200, samples // 64600)


def test_a_number_is_the_same_on_every_device():
    settings = Network(minibatch_size=4, train_clip_size=1000, eval_minibatch_size_factor=2)
    for gpu_bytes in (0, 80 * GIB):
        assert batch_samples(settings, gpu_bytes) == 8000
