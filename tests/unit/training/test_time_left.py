"""How many steps are ahead, and what is said of the time that they take."""

import pytest

from asdf.data.training_plan import TrainingPlan
from asdf.settings.sections import Network
from asdf.training.progress_lines import TimeLeft, duration, steps_left
from asdf.training.training_progress import Progress

PLAN = TrainingPlan(26, minibatch_size=4, world_size=2)  # windows of 8: four steps an epoch


@pytest.mark.parametrize(
    ("progress", "max_steps", "expected"),
    [
        (Progress(), None, 20),
        (Progress(position=8, step=1), None, 19),
        # In an epoch that was begun by another number of processes a part of a window may be left.
        (Progress(position=6, step=3), None, 19),
        (Progress(epochs=2, step=8), None, 12),
        (Progress(epochs=4, position=24, step=19), None, 1),
        (Progress(epochs=5, step=20), None, 0),
        # A run whose max_epochs was lowered.
        (Progress(epochs=7, step=28), None, 0),
        (Progress(position=8, step=1), 7, 6),
        (Progress(epochs=1, step=4), 500, 16),
        (Progress(epochs=2, step=8), 7, 0),
    ],
)
def test_steps_to_the_last_epoch_or_to_the_last_step(progress, max_steps, expected):
    network = Network(max_epochs=5, max_steps=max_steps)
    assert steps_left(network, PLAN, progress) == expected


def test_the_time_follows_from_the_steps_of_this_process():
    now = [50.0]
    left = TimeLeft(Network(max_epochs=5), PLAN, lambda: now[0])
    now[0] = 100.0  # reading weights, say
    left.begin(8)
    now[0] = 112.0
    assert left.seconds(Progress(epochs=2, position=16, step=10)) == 6.0 * 10
    now[0] = 170.0  # with an evaluation of half a minute, which later epochs will have as well
    assert left.seconds(Progress(epochs=3, position=8, step=13)) == 14.0 * 7
    assert left.seconds(Progress(epochs=5, step=20)) == 0.0


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"schedule": "cosine"}, "about 3 h 20 min left"),
        ({"schedule": "constant"}, "about 3 h 20 min left"),
        ({"schedule": "constant", "early_stop_evaluations": 4}, "at most 3 h 20 min left"),
        ({"schedule": "plateau"}, "at most 3 h 20 min left"),
    ],
)
def test_a_run_that_may_end_earlier_says_at_most(settings, expected):
    assert TimeLeft(Network(**settings), PLAN).describe(12000.0) == expected


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (3569.0, "59 min"),
        (3571.0, "1 h 0 min"),
        (86369.0, "23 h 59 min"),
        (86371.0, "1 d 0 h"),
        (190800.0, "2 d 5 h"),
    ],
)
def test_durations_have_two_units_and_never_sixty_of_one(seconds, text):
    assert duration(seconds) == text
