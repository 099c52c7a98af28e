"""When a checkpoint inside an epoch is late."""

import pytest

from asdf.training.checkpoints import SaveTimer


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lateness(interval, saves: list[tuple[float, float]]) -> float | None:
    """Return after how many seconds a timer that saw these saves is late; None if after an hour.

    Args:
        saves: what training stood still for, and what the thread then took to write.
    """
    clock = Clock()
    timer = SaveTimer(interval, clock)
    for saving_s, writing_s in saves:
        clock.now += 7
        timer.note_saving(saving_s)
        timer.note_writing(writing_s)
    start = clock.now
    for second in range(3601):
        clock.now = start + second
        if timer.is_late():
            return second
    return None


@pytest.mark.parametrize(
    ("interval", "saves", "expected"),
    [
        (None, [], None),
        (900.0, [], 900),
        (2.5, [(100.0, 100.0)], 3),
        ("auto", [], 30),
        ("auto", [(0.1, 0.1)], 30),
        ("auto", [(0.6, 3.0)], 30),
        ("auto", [(2.0, 3.0)], 100),
        ("auto", [(0.6, 40.0)], 400),
        # The last save counts: the disk may have become slower, or quicker.
        ("auto", [(2.0, 0.0), (12.0, 1.0)], 600),
        ("auto", [(12.0, 90.0), (0.01, 0.02)], 30),
        ("auto", [(73.0, 0.0)], None),
        ("auto", [(0.0, 361.0)], None),
    ],
)
def test_how_long_after_the_last_save_the_next_is_due(interval, saves, expected):
    assert lateness(interval, saves) == expected


@pytest.mark.parametrize(("interval", "while_writing"), [("auto", False), (40.0, True)])
def test_none_is_due_while_one_is_being_written_but_by_a_set_interval(interval, while_writing):
    clock = Clock()
    timer = SaveTimer(interval, clock)
    timer.note_saving(0.1)
    clock.now += 45
    assert timer.is_late() == while_writing
    timer.note_writing(2.0)
    assert timer.is_late()


def test_what_is_not_training_is_taken_off_and_the_interval_stays():
    clock = Clock()
    timer = SaveTimer("auto", clock)
    timer.note_saving(2.0)
    timer.note_writing(2.0)
    clock.now += 99
    assert not timer.is_late()
    clock.now += 5000
    timer.restart()
    clock.now += 99
    assert not timer.is_late() and timer.interval() == 100
    clock.now += 1
    assert timer.is_late()
