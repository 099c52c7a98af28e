"""Costs that grow with the clips: rows and page follow from what was measured."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest

# Not installed: it lies next to asdf/ in the checkout.
sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from asdf.data.training_plan import TrainingPlan
from asdf.errors import AsdfError
from asdf.trials.packed_names import Names
from benchmarks import scale, scale_costs
from benchmarks.resident import copied_by_a_fork
from benchmarks.rows import Row
from benchmarks.scale_costs import Cost

MACHINE = {
    "date": "2026-01-02T03:04+00:00",
    "cpu": "A processor",
    "cores": 2,
    "memory_gib": 8.0,
    "gpus": [],
    "python": "3.11.0",
    "versions": {"torch": "2.9.0", "numpy": "2.0.0"},
}
LINEAR = [
    Cost("read", "start", "every rank", 1e-5 * n, held=90 * n, peak=150 * n)
    for n in (1000, 2000, 10_000)
]
SQUARE = [
    Cost("look", "epoch", "main rank", 1e-8 * n * n, from_few=True) for n in (1000, 2000, 10_000)
]
MEMORY = [
    Cost("copies", "training", "every worker", None, held=8 * n) for n in (1000, 2000, 10_000)
]


def _rows() -> list[Row]:
    rows = [scale.compared_sizes((1000, 2000, 10_000), costs) for costs in (LINEAR, SQUARE, MEMORY)]
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


def test_the_table_has_a_column_for_each_size() -> None:
    lines = scale.table(_rows(), MACHINE).split("\n")
    assert lines[0].startswith("A processor, 2 cores, 8 GiB, no GPU") and lines[0].endswith(
        "average 0.500 at the start."
    )
    assert (
        lines[2]
        == "| what | when: where | 1,000, s | 2,000, s | 10,000, s | µs a clip | memory a clip |"
    )
    assert (
        lines[4]
        == "| read | start: every rank | 0.0100 | 0.0200 | 0.100 | 10.0 | 90.0 B held, 150 B peak |"
    )
    assert lines[5] == "| look * | epoch: main rank | 0.0100 | 0.0400 | 1.00 | 100 | - |"
    assert lines[6] == "| copies | training: every worker | - | - | - | - | 8.00 B held |"


def _result(**more: object) -> dict:
    benchmark = {"about": "What it does.", "seconds": 1.0, "rows": [asdict(row) for row in _rows()]}
    return {"machine": MACHINE, "quick": False, "benchmarks": {"scale": benchmark}, **more}


def test_the_page_keeps_all_that_is_outside_the_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"above\n{scale.BEGIN}\nold\n{scale.END}\nbelow\n")
    for _ in range(2):
        scale.write_docs(_result(), page)
        made = scale.table(_rows(), MACHINE)
        assert page.read_text() == f"above\n{scale.BEGIN}\n\n{made}\n\n{scale.END}\nbelow\n"


@pytest.mark.parametrize(
    "result", [{"quick": True}, {"benchmarks": {}}, {"benchmarks": {"scale": {"failed": "so"}}}]
)
def test_half_a_run_is_not_put_into_the_page(tmp_path: Path, result: dict) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{scale.BEGIN}\n{scale.END}\n")
    with pytest.raises(AsdfError, match="no whole run of 'scale'"):
        scale.write_docs(_result(**result), page)
    page.write_text("no marks")
    with pytest.raises(AsdfError, match="lacks the lines"):
        scale.write_docs(_result(), page)
    assert page.read_text() == "no marks"


def test_the_page_of_the_project_has_the_marks() -> None:
    text = (Path(__file__).resolve().parents[3] / "docs" / "scaling.md").read_text(encoding="utf-8")
    assert text.count(scale.BEGIN) == text.count(scale.END) == 1
    assert text.index(scale.BEGIN) < text.index(scale.END)


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
    walk, listed, packed = (
        copied_by_a_fork(partial(scale_costs._look_at_all, some)) for some in ways
    )
    assert walk is not None and listed is not None and packed is not None
    assert listed > walk + 60 * len(names)
    assert packed < walk + 20 * len(names)
