"""What lies where in a system folder, and what killed runs leave there."""

import os
import time

import pytest

from asdf.errors import AsdfError
from asdf.runs.files import read_json_lines
from asdf.runs.layout import (
    Layout,
    NetworkName,
    layout_of_score_file,
    network_of_score_file,
    remove_leftovers,
)

FOLDERS = ["networks", "scores", "trials", "results", "code", "starts"]


def test_the_names_in_a_system_folder(tmp_path):
    layout = Layout(tmp_path)
    assert [str(path.relative_to(tmp_path)) for path in layout.folders()] == FOLDERS
    name = NetworkName("epoch.3")
    assert layout.network_file(name) == tmp_path / "networks" / "epoch.3.pt"
    assert layout.score_file(name, "dev") == tmp_path / "scores" / "epoch.3" / "dev.txt"
    assert layout.trials_file("dev") == tmp_path / "trials" / "dev.tsv"
    assert layout.results_json == tmp_path / "results" / "results.json"
    assert layout.report == tmp_path / "results" / "report.html"


def test_the_run_and_the_network_of_a_score_file(tmp_path):
    path = Layout(tmp_path).score_file(NetworkName("average"), "dev")
    assert layout_of_score_file(path) == Layout(tmp_path)
    assert network_of_score_file(path) == NetworkName("average")
    elsewhere = tmp_path / "epoch.3" / "dev.txt"
    assert layout_of_score_file(elsewhere) is network_of_score_file(elsewhere) is None


def test_what_killed_runs_left_is_removed_but_for_what_another_run_may_be_writing(tmp_path):
    system, shared = tmp_path / "system", tmp_path / "sad"
    folders = [system, shared, *(system / name for name in FOLDERS), system / "scores" / "epoch.1"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / ".x.txt.abc.part").write_text("half")
        (folder / "whole.txt").write_text("whole")
    (shared / ".old.tsv.abc.part").write_text("half")
    long_ago = time.time() - 7200
    os.utime(shared / ".old.tsv.abc.part", (long_ago, long_ago))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / ".x.part").write_text("of another system")
    remove_leftovers(Layout(system), shared)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob(".*.part")}
    assert left == {"sad/.x.txt.abc.part", "other/.x.part"}
    assert all((folder / "whole.txt").exists() for folder in folders)
    remove_leftovers(Layout(tmp_path / "not there"), tmp_path / "nor there")


def test_lines_that_are_no_records_are_passed_over(tmp_path):
    path = tmp_path / "metrics.jsonl"
    assert read_json_lines(path) == []
    path.write_bytes(b'{"step": 1}\n5\n\xff\xfe\n' + b"[" * 100_000 + b'\n{"step": 2}\n{"step": 3')
    assert read_json_lines(path) == [{"step": 1}, {"step": 2}]
    with pytest.raises(AsdfError, match="Is a directory"):
        read_json_lines(tmp_path)
