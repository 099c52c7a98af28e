"""The rate of every step as a formula gives it."""

import math

import pytest

from asdf.training.optimisers import build_optimiser
from asdf.training.progress import Progress
from asdf.training.schedules import set_learning_rate, update_plateau
from tests.unit.conftest import network_settings
from tests.unit.training.test_optimisers import Small


def rate(chosen, size=100, **progress) -> float:
    return set_learning_rate(
        build_optimiser(Small(), chosen), chosen.network, Progress(**progress), size
    )


def test_constant_with_warm_up():
    chosen = network_settings(schedule="constant", initial_learning_rate=0.2, warmup_steps=4)
    assert [rate(chosen, step=step) for step in range(6)] == pytest.approx(
        [0.05, 0.1, 0.15, 0.2, 0.2, 0.2]
    )


def test_the_cosine_goes_from_the_rate_to_the_least_by_turns_of_utterances():
    chosen = network_settings(
        schedule="cosine", initial_learning_rate=0.2, min_learning_rate=0.02, max_epochs=4
    )
    for epochs, position in ((0, 0), (0, 50), (1, 25), (2, 0), (3, 99), (4, 0)):
        done = (epochs + position / 100) / 4
        expected = 0.02 + 0.18 * 0.5 * (1 + math.cos(math.pi * done))
        assert rate(chosen, epochs=epochs, position=position) == pytest.approx(expected, rel=1e-12)
    assert rate(chosen, epochs=4) == pytest.approx(0.02)


def test_the_cosine_ends_with_max_steps_if_that_is_sooner():
    chosen = network_settings(
        schedule="cosine", initial_learning_rate=0.2, max_epochs=1000, max_steps=10
    )
    assert rate(chosen, step=5) == pytest.approx(0.1) and rate(chosen, step=10) == pytest.approx(
        0.0
    )


def test_the_front_ends_rate_ends_as_far_below_its_own():
    chosen = network_settings(
        schedule="cosine", initial_learning_rate=0.2, min_learning_rate=0.02, max_epochs=1
    )
    chosen.front_end.learning_rate = 0.01
    optimiser = build_optimiser(Small(), chosen)
    set_learning_rate(optimiser, chosen.network, Progress(epochs=1), 100)
    assert sorted({group["lr"] for group in optimiser.param_groups}) == pytest.approx([0.001, 0.02])


def test_the_plateau_rule_of_the_original():
    """Plateau when (previous - current) / max(min_room, previous - target) < min ratio.

    Training ends after two in a row.
    """
    chosen = network_settings(
        schedule="plateau",
        initial_learning_rate=0.8,
        min_loss_change_ratio=0.1,
        target_loss=0.1,
        min_room_for_improvement=0.2,
        lr_update_ratio=0.5,
        max_consecutive_lr_updates=2,
    )
    progress = Progress()
    lines = []
    # Changes: none yet; 0.2/0.9; 0.05/0.7; 0.25/0.65; 0.019/0.4; 0.011/0.381
    for loss, factor, updates in (
        (1.0, 1, 0),
        (0.8, 1, 0),
        (0.75, 0.5, 1),
        (0.5, 0.5, 0),
        (0.481, 0.25, 1),
        (0.47, 0.125, 2),
    ):
        assert not progress.finished
        lines.append(update_plateau(chosen.network, progress, loss))
        assert (progress.learning_rate_factor, progress.consecutive_lr_updates) == (factor, updates)
        assert progress.training_loss == loss
    assert progress.finished == "2 learning rate updates in a row"
    assert [bool(line) for line in lines] == [False, False, True, False, True, True]
    assert "improved by 7.14 %, less than 10 %" in lines[2]
    assert rate(chosen, learning_rate_factor=0.125) == pytest.approx(0.1)


def test_near_the_target_the_room_has_a_least_size():
    chosen = network_settings(
        schedule="plateau", min_loss_change_ratio=0.1, target_loss=0.1, min_room_for_improvement=0.2
    )
    progress = Progress(training_loss=0.11)
    update_plateau(chosen.network, progress, 0.085)  # 0.025 / 0.2, not 0.025 / 0.01
    assert progress.learning_rate_factor == 1
    update_plateau(chosen.network, progress, 0.084)
    assert progress.learning_rate_factor == 0.5


def test_other_schedules_note_the_loss_only():
    progress = Progress(training_loss=0.5)
    assert update_plateau(network_settings(schedule="constant").network, progress, 0.7) == ""
    assert progress.training_loss == 0.7 and progress.learning_rate_factor == 1
