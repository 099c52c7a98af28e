"""A learning-rate test: real steps at rising rates."""

import math

import pytest

from asdf.settings.relations import contradictions
from asdf.settings.sections import Sections
from asdf.training.loop import Trainer
from asdf.training.rate_test import RateTest, run_rate_test


@pytest.fixture
def trainer(train, monkeypatch):
    """Return a trainer that has not begun."""
    monkeypatch.setattr(Trainer, "run", lambda self: None)
    return lambda **network: train(**network)[0]


def test_the_rates_rise_by_a_factor_per_step(trainer):
    test = run_rate_test(trainer(initial_learning_rate=0.01, warmup_steps=3), 6)
    assert test.rates == pytest.approx([1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0])
    assert len(test.losses) == 6 and all(map(math.isfinite, test.losses))


def test_the_optimiser_has_these_rates(trainer):
    made = trainer(initial_learning_rate=0.01, warmup_steps=3)
    seen = []
    take = made.step.take

    def witness(*args):
        taken = take(*args)
        seen.append(taken.learning_rate)
        return taken

    made.step.take = witness
    test = run_rate_test(made, 6)
    assert seen == pytest.approx(test.rates)


def test_steps_go_on_over_epochs_and_are_deterministic(trainer):
    # Five steps an epoch.
    first = run_rate_test(trainer(initial_learning_rate=1e-4), 12)
    assert len(first.losses) == 12
    assert run_rate_test(trainer(initial_learning_rate=1e-4), 12).losses == first.losses


def test_at_low_rates_the_losses_are_those_of_training(trainer):
    """The first loss is that of the untrained network, whatever the rate."""
    low = run_rate_test(trainer(initial_learning_rate=1e-6), 5)
    high = run_rate_test(trainer(initial_learning_rate=1e-3), 5)
    assert low.losses[0] == high.losses[0]
    assert low.losses != high.losses


def test_what_the_losses_say():
    rates = [10.0 ** (number / 10 - 5) for number in range(50)]
    # Flat, then a fall that is steepest at 1e-3, then a rise.
    losses = [1 / (1 + math.exp((number - 20) / 2)) + 0.5 for number in range(40)]
    losses += [0.5 + 0.2 * number for number in range(10)]
    test = RateTest(rates, losses)
    assert test.steepest is not None and test.highest_useful is not None
    # The smoothed loss lags by a few steps.
    assert 1e-3 <= test.steepest <= 4e-3
    assert test.steepest < test.highest_useful
    assert f"network.initial_learning_rate={test.steepest:.2g}" in test.describe()
    # Independently: the mean of all before, by weights that fall by a tenth per step.
    weights = [0.9 ** (30 - number) for number in range(31)]
    mean = sum(w * loss for w, loss in zip(weights, losses[:31], strict=True)) / sum(weights)
    assert test.smoothed[30] == pytest.approx(mean)


def test_a_loss_that_never_falls_suggests_nothing():
    test = RateTest([1e-4, 1e-3, 1e-2], [1.0, 2.0, 3.0])
    assert test.steepest is None and test.highest_useful is None
    assert test.record()["suggestion"] is None
    assert "the loss never fell" in test.describe()


def test_a_loss_that_diverges_ends_it(trainer):
    test = run_rate_test(trainer(initial_learning_rate=1000.0, optimizer="sgd"), 60)
    assert test.ended and len(test.losses) < 60


def test_it_saves_no_network_for_later_stages():
    sections = Sections()
    sections.network.rate_test_steps = 10
    found = [pair for pair in contradictions(sections) if pair.first == "network.rate_test_steps"]
    assert [pair.second for pair in found] == ["recipe.end_stage"]
    sections.recipe.end_stage = 1
    assert not [pair for pair in contradictions(sections) if "rate_test" in pair.first]
