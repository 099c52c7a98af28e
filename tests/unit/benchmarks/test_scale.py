"""Costs that grow with the clips: rows follow from what was measured."""

import sys
from functools import partial
from pathlib import Path

import pytest

from asdf.data.training_plan import TrainingPlan
from asdf.trials.packed_names import Names
from benchmarks import scale, scale_costs
from benchmarks.resident import copied_by_a_fork
from benchmarks.rows import Row
from benchmarks.scale_costs import Cost

SIZES = (1000, 2000, 10_000)
START = ("read", "start", "every rank")
LINEAR = [Cost(*START, 1e-5 * n, held=90 * n, peak=150 * n) for n in SIZES]
SQUARE = [Cost("look", "epoch", "main rank", 1e-8 * n * n, from_few=True) for n in SIZES]
MEMORY = [Cost("copies", "training", "every worker", None, held=8 * n) for n in SIZES]


def _rows() -> list[Row]:
    rows = [scale.compared_sizes(SIZES, costs) for costs in (LINEAR, SQUARE, MEMORY)]
    return [Row(scale.LOAD, "processes", "", 0.5), *rows]


def test_a_ratio_shows_what_is_linear() -> None:
    _, linear, square, memory = _rows()
    assert linear.asdf == pytest.approx(10) and linear.peer == pytest.approx(10)
    assert linear.ratio == pytest.approx(1)
    assert square.ratio == pytest.approx(0.1)
    assert (memory.asdf, memory.peer, memory.ratio) == (None, None, None)
    assert linear.note == (
        "0.0100 / 0.0200 / 0.100 s at 1,000 / 2,000 / 10,000 clips; 90.0 B held, 150 B peak; "
        "start: every rank"
    )


@pytest.mark.slow
def test_everything_runs_on_a_tiny_corpus(tmp_path: Path) -> None:
    rows = list(scale_costs.costs(60, tmp_path))
    assert len({cost.what for cost in rows}) == len(rows) == 20
    timed = [cost.what for cost in rows if cost.seconds is None]
    assert timed == ["copies of the list"]
    few = {cost.what for cost in rows if cost.from_few}
    assert few == {"bootstrap of 1,000", "look for the files", "index an archive"}
    assert scale_costs.gather(60) is not None


def test_the_walk_takes_the_steps_of_an_epoch() -> None:
    plan = TrainingPlan(100, scale_costs.MINIBATCH, world_size=2)
    assert scale_costs._walk(plan) == plan.steps_per_epoch() == 4


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it needs /proc of Linux")
def test_a_forked_process_copies_a_list_of_strings_and_no_packed_names() -> None:
    names = [f"flac_T/T_{index:010d}.flac" for index in range(200_000)]
    ways = (range(len(names)), names, Names(names))
    looks = [partial(scale_costs._look_at_all, some) for some in ways]
    walk, listed, packed = map(copied_by_a_fork, looks)
    assert walk is not None and listed is not None and packed is not None
    assert listed > walk + 60 * len(names)
    assert packed < walk + 20 * len(names)
