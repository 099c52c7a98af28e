"""The rate of every step as a formula, torch's own schedule or a user's function gives it."""

import math
import sys

import pytest
import torch
from torch.optim import lr_scheduler

from asdf.errors import AsdfError
from asdf.training.optimisers import build_optimiser
from asdf.training.schedules import (
    ScheduleProgress,
    find_schedule,
    set_learning_rate,
    update_plateau,
)
from asdf.training.training_progress import Progress
from tests.unit.conftest import network_settings
from tests.unit.training.test_optimisers import Small


def rate(chosen, size=100, **progress) -> float:
    optimiser = build_optimiser(Small(), chosen)
    schedule = find_schedule(chosen, None)
    return set_learning_rate(optimiser, schedule, chosen, Progress(**progress), size)


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
    set_learning_rate(optimiser, find_schedule(chosen, None), chosen, Progress(epochs=1), 100)
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


def factors(chosen, size=10, epochs=6):
    """The share of the rate at each utterance of a run."""
    chosen.network.max_epochs = epochs
    return [
        rate(chosen, size=size, epochs=epoch, position=position)
        / chosen.network.initial_learning_rate
        for epoch in range(epochs)
        for position in range(size)
    ]


def oracle(make, steps, rate_at_start=0.2):
    """The shares that a scheduler of torch's gives, from one optimiser step to the next."""
    optimiser = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate_at_start)
    scheduler = make(optimiser)
    shares = []
    for _ in range(steps):
        shares.append(optimiser.param_groups[0]["lr"] / rate_at_start)
        optimiser.step()
        scheduler.step()
    return shares


@pytest.mark.parametrize(
    ("settings", "make"),
    [
        (
            {"schedule": "linear", "min_learning_rate": 0.02},
            lambda o: lr_scheduler.LinearLR(o, 1.0, 0.1, total_iters=60),
        ),
        (
            {"schedule": "step", "step_epochs": 2, "step_factor": 0.3},
            lambda o: lr_scheduler.StepLR(o, step_size=20, gamma=0.3),
        ),
    ],
)
def test_they_are_torchs_schedules(settings, make):
    ours = factors(network_settings(initial_learning_rate=0.2, **settings))
    assert ours == pytest.approx(oracle(make, 60), rel=1e-9, abs=1e-12)
    assert len(set(ours)) > 2


def test_steps_down_end_at_the_lowest_rate():
    chosen = network_settings(
        schedule="step", initial_learning_rate=0.2, min_learning_rate=0.01, step_epochs=1
    )
    assert [rate(chosen, epochs=epochs) for epochs in range(4)] == pytest.approx(
        [0.2, 0.02, 0.01, 0.01]
    )


def test_what_a_schedule_sees():
    training = network_settings(max_epochs=4, max_steps=10).network
    seen = ScheduleProgress.of(training, Progress(epochs=1, position=25, step=3), 100)
    assert seen == ScheduleProgress(done=1.25 / 4, epochs=1.25, step=3, plateau_factor=1.0)
    assert ScheduleProgress.of(training, Progress(epochs=1, step=9), 100).done == 0.9
    assert ScheduleProgress.of(training, Progress(epochs=5, step=9), 100).done == 1.0


OWN = """
import math

def triangle(settings, progress):
    return settings.network.momentum + 1 - abs(2 * progress.done - 1)

def whole(settings, progress):
    return 2 if progress.step else 1

def text(settings, progress):
    return "half"

def falls(settings, progress):
    return 1 - 3 * progress.done

def undefined(settings, progress):
    return math.nan

def broken(settings, progress):
    return progress.undone

def no_arguments():
    return 1

class Triangle:
    pass
"""


@pytest.fixture
def own(tmp_path):
    (tmp_path / "my_schedules.py").write_text(OWN)
    yield tmp_path
    sys.modules.pop("my_schedules", None)


def test_a_function_of_ones_own_with_warm_up(own):
    chosen = network_settings(
        schedule="my_schedules.triangle",
        initial_learning_rate=0.2,
        momentum=0.5,
        max_epochs=4,
        warmup_steps=4,
    )
    schedule = find_schedule(chosen, own)
    optimiser = build_optimiser(Small(), chosen)
    rates = []
    for epochs in range(5):
        progress = Progress(epochs=epochs, step=epochs)
        rates.append(set_learning_rate(optimiser, schedule, chosen, progress, 100))
    # 0.5 + (0, 0.5, 1, 0.5, 0) of 0.2, in the first steps 1/4, 2/4 and 3/4 of that.
    assert rates == pytest.approx([0.025, 0.1, 0.225, 0.2, 0.1])


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("text", r"my_schedules\.text at step 1 returned 'half'\. It must return a factor"),
        ("undefined", r"my_schedules\.undefined at step 1 returned nan"),
        ("broken", r"my_schedules\.broken at step 1 failed: AttributeError: .*my_schedules\.py"),
        ("no_arguments", "no_arguments.* takes 0 positional arguments but 2 were given"),
        ("trangle", r"has no function 'trangle'\. Did you mean 'triangle'\?"),
        ("Triangle", r"my_schedules\.py\) is not a function, which is required"),
    ],
)
def test_what_is_no_schedule_is_refused_before_the_first_step(own, name, problem):
    with pytest.raises(AsdfError, match=rf"^network\.schedule: .*{problem}"):
        find_schedule(network_settings(schedule=f"my_schedules.{name}"), own)


def test_a_share_below_zero_ends_the_run_where_it_appears(own):
    chosen = network_settings(schedule="my_schedules.falls", max_epochs=4)
    schedule = find_schedule(chosen, own)
    optimiser = build_optimiser(Small(), chosen)
    with pytest.raises(AsdfError, match=r"my_schedules\.falls at step 8 returned -0\.5"):
        set_learning_rate(optimiser, schedule, chosen, Progress(epochs=2, step=7), 100)


def test_the_plateau_rule_holds_for_its_path_too():
    progress = Progress(training_loss=0.5)
    chosen = network_settings(schedule="asdf.training.schedules.plateau")
    assert "learning rate times" in update_plateau(chosen.network, progress, 0.7)
    assert rate(chosen, learning_rate_factor=0.25) == pytest.approx(0.025)
