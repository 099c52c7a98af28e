"""Rows, tables and the report follow from what was measured, and from nothing else."""

import json
import math
import re
import xml.etree.ElementTree as ET
from functools import partial
from pathlib import Path

import pytest

from asdf.errors import AsdfError
from benchmarks.chart import Bar, chart
from benchmarks.harness import in_turns
from benchmarks.report import write_report
from benchmarks.rows import Row, compared, limited, unmeasured
from benchmarks.table import for_screen

HARDWARE = {"cpu": "A processor", "cores": 2, "memory_gib": 8.0, "gpus": []}
PROGRAMS = {"python": "3.11.0", "versions": {"torch": "2.9.0", "numpy": "2.0.0"}}
MACHINE = {"date": "2026-01-02T03:04+00:00", **HARDWARE, **PROGRAMS}


def test_ratio_is_the_median_of_pairs_and_says_how_many_times_better() -> None:
    row = compared("work", "s", [1.0, 2.0, 4.0], "a peer", [4.0, 2.0, 12.0], target=2.5)
    assert (row.asdf, row.peer, row.ratio, row.low, row.high) == (2.0, 4.0, 3.0, 2.0, 3.5)
    assert row.met is True
    assert compared("work", "utt/s", [4.0], "a peer", [8.0], more=True).ratio == 0.5


def test_limit_is_met_below_it_only() -> None:
    assert limited("work", "s", [0.2, 0.4, 0.3], 0.5).met is True
    late = limited("work", "s", [0.6], 0.5)
    assert late.met is False
    assert late.against == "limit of 0.5 s"


def test_unmeasured_row_has_no_number() -> None:
    row = unmeasured("work", "s", "a peer", "no CUDA device", 2.5)
    assert (row.asdf, row.peer, row.ratio, row.met) == (None, None, None, None)
    assert "not measured: no CUDA device" in for_screen([row])


def test_functions_take_turns_after_a_warm_up() -> None:
    calls = []
    functions = {name: partial(calls.append, name) for name in "ab"}
    times = in_turns(functions, rounds=3, warm_up=1, calls=2)
    assert "".join(calls) == "aabb" * 4
    assert [len(seconds) for seconds in times.values()] == [3, 3]


def _result(folder: Path, name: str, rows: list[Row], quick: bool = False) -> Path:
    path = folder / name
    benchmark = {"about": "What it does.", "seconds": 1.0, "rows": [row.as_json() for row in rows]}
    result = {"machine": MACHINE, "quick": quick, "benchmarks": {"start": benchmark}}
    path.write_text(json.dumps(result))
    return path


def test_report_holds_machine_date_and_measured_numbers(tmp_path: Path) -> None:
    missing = unmeasured("on a GPU", "s", "a loop", "no CUDA device", 2.5)
    rows = [limited("run.py", "s", [0.2, 0.2], 0.5), missing]
    kept = "| old | s | 1 | 2 | a loop | >= 1.5 | 2.00 | 1.00 .. 3.00 | met |"
    page = [
        "a head",
        "<!-- measured by python -m benchmarks -->",
        "## A machine\n\n### start\n\nof before\n\n## Another\n\n### memory\n",
        kept,
        "<!-- end of what python -m benchmarks measured -->",
        "a GPU",
    ]
    (tmp_path / "RESULTS.md").write_text("\n".join(page))
    paths = write_report([_result(tmp_path, "one.json", rows)], tmp_path)
    text = paths[0].read_text()
    assert text.startswith("a head\n") and text.endswith("\na GPU")
    assert "of before" not in text and "A machine" not in text
    assert f"## Another\n\n### memory\n\n{kept}\n" in text
    assert "old (a loop)" in paths[1].read_text()
    for said in (
        "A processor, 2 cores, 8 GiB, no GPU; Python 3.11.0, torch 2.9.0, numpy 2.0.0; 2026-01-02T",
        "| run.py | s | 0.200 | 0.500 | limit of 0.5 s | >= 1 | 2.50 | 2.50 .. 2.50 | met |",
        "| on a GPU | s | - | - | a loop | >= 2.5 | - |  | not measured: no CUDA device |",
    ):
        assert said in text
    assert "on a GPU" not in paths[1].read_text()


def test_quick_runs_and_other_files_make_no_report(tmp_path: Path) -> None:
    with pytest.raises(AsdfError, match="--quick"):
        write_report([_result(tmp_path, "quick.json", [], quick=True)], tmp_path)
    other = tmp_path / "other.json"
    other.write_text("[]")
    with pytest.raises(AsdfError, match="is not a result"):
        write_report([other], tmp_path)
    assert not (tmp_path / "RESULTS.md").exists()


def test_chart_is_svg_with_a_log_axis() -> None:
    bars = [
        Bar("one & <two>", 10.0, 9.0, 11.0, 8.0),
        Bar("late", 0.8, 0.7, 0.9, 1.0),
        Bar("far", 100.0, 90.0, 110.0, 50.0),
    ]
    root = ET.fromstring(chart(bars))
    space = "{http://www.w3.org/2000/svg}"
    boxes = list(root.iter(f"{space}rect"))
    assert [box.get("class") for box in boxes] == ["met", "missed", "met"]
    widths = [float(box.get("width", "nan")) for box in boxes]
    assert widths[2] == pytest.approx(2 * widths[0], abs=0.2)  # from 1 to 100, and from 1 to 10
    targets = [line for line in root.iter(f"{space}line") if line.get("class") == "target"]
    marks = [float(line.get("x1", "nan")) for line in targets]
    distances = (marks[0] - marks[1]) / (marks[2] - marks[1])
    assert distances == pytest.approx(math.log(8) / math.log(50), abs=0.01)
    assert "one & <two>" in "".join(root.itertext())
    assert re.search(r"prefers-color-scheme: dark", chart(bars))
