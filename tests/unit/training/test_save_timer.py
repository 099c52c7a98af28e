"""When a checkpoint inside an epoch is late."""

import pytest

from asdf.training.save_timer import SaveTimer


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def lateness(interval, writings: list[float]) -> float | None:
    """After how many seconds a timer that saw these writings says that it is late; None: not within an hour."""
    clock = Clock()
    timer = SaveTimer(interval, clock)
    for seconds in writings:
        clock.now += 7
        timer.note_writing(seconds)
    start = clock.now
    for second in range(3601):
        clock.now = start + second
        if timer.is_late():
            return second
    return None


@pytest.mark.parametrize(
    ("interval", "writings", "expected"),
    [
        (None, [], None),
        (900.0, [], 900),
        (2.5, [100.0], 3),
        ("auto", [], 30),
        ("auto", [0.1], 30),
        ("auto", [0.6], 30),
        ("auto", [2.0], 100),
        # The last writing counts: the disk may have become slower, or quicker.
        ("auto", [2.0, 12.0], 600),
        ("auto", [12.0, 0.01], 30),
        ("auto", [73.0], None),
    ],
)
def test_how_long_after_the_last_writing_the_next_is_due(interval, writings, expected):
    assert lateness(interval, writings) == expected


def test_what_is_not_training_is_taken_off_and_the_interval_stays():
    clock = Clock()
    timer = SaveTimer("auto", clock)
    timer.note_writing(2.0)
    clock.now += 99
    assert not timer.is_late()
    clock.now += 5000
    timer.restart()
    clock.now += 99
    assert not timer.is_late() and timer.interval() == 100
    clock.now += 1
    assert timer.is_late()
