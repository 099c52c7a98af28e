"""The process that the others wait for, from the times of each."""

import time
from types import SimpleNamespace

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.settings.sections import Sections
from asdf.training.instruments.clock import (
    BACKWARD,
    COMMUNICATION,
    DATA,
    FORWARD,
    PARTS,
    REST,
    StepClock,
)
from asdf.training.instruments.progress_lines import ProgressLines
from asdf.training.instruments.stragglers import OwnTimes, Straggler, find_straggler


def times(**by_host: dict[str, float]) -> list[OwnTimes]:
    """Ten seconds each, in the parts that are given and in the backward pass."""
    found = []
    for host, seconds in by_host.items():
        rest = 10.0 - sum(seconds.values())
        found.append(OwnTimes(host, {**dict.fromkeys(PARTS, 0.0), **seconds, BACKWARD: rest}))
    return found


def test_the_slowest_is_named_with_the_part_that_it_loses_in():
    measured = times(a={DATA: 0.5, FORWARD: 3.0}, b={DATA: 2.5, FORWARD: 3.4}, c={FORWARD: 3.0})
    assert find_straggler(measured, True) == Straggler(1, "b", DATA, 0.24)
    assert find_straggler(measured, False) == Straggler(1, "b", DATA, 0.2)
    assert (
        find_straggler(measured, True).describe() == "rank 1 (b) slower by 24 %: waiting for data"
    )
    assert find_straggler(measured, True).record()["lag"] == 0.24


def test_small_differences_are_not_said():
    assert find_straggler(times(a={DATA: 0.5}, b={DATA: 1.4}), True) is None
    assert find_straggler(times(a={DATA: 0.5}, b={DATA: 1.6}), True).rank == 1


def test_a_forward_pass_that_waits_for_others_is_not_compared():
    measured = times(a={FORWARD: 2.0}, b={FORWARD: 5.0})
    assert find_straggler(measured, True).part == FORWARD
    assert find_straggler(measured, False) is None


class WaitingWorld(World):
    """A main rank whose others come late to a collection."""

    def gather(self, value):
        time.sleep(0.05)
        return [value]


def test_the_wait_for_the_others_times_is_no_work_of_the_main_process():
    world = WaitingWorld()
    clock = StepClock(world.device)
    step = SimpleNamespace(
        settings=Sections(), world=world, clock=clock, utilisation=lambda speed: None
    )
    loader = SimpleNamespace(workers=0, cores=1)
    clock.restart()
    lines = ProgressLines(step, TrainingPlan(8, 4, 1, 1), loader, None)
    lines._of_processes(clock.seconds(), 1.0)
    seconds = clock.seconds()
    assert seconds[COMMUNICATION] >= 0.05
    assert {part for part in PARTS if seconds[part]} == {COMMUNICATION, REST}
