"""What lies where in a system folder and is called how, and what killed runs leave there."""

import os
import time

import pytest

from asdf.errors import AsdfError
from asdf.runs.files import read_json_lines
from asdf.runs.layout import (
    AVERAGE,
    RESUME,
    Layout,
    NetworkName,
    TrainingPosition,
    describe_networks,
    in_order,
    layout_of_score_file,
    list_networks,
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
    reports = [layout.results_json, layout.report]
    assert reports == [tmp_path / "results" / name for name in ("results.json", "report.html")]


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


@pytest.mark.parametrize(
    ("name", "file", "position"),
    [
        (NetworkName.after_epoch(3), "epoch.3.pt", TrainingPosition(3, 0)),
        (NetworkName.inside_epoch(4, 200), "epoch.4.step.200.pt", TrainingPosition(3, 200)),
        (AVERAGE, "average.pt", None),
        (RESUME, "resume.pt", None),
    ],
)
def test_a_name_is_read_as_it_was_written(name, file, position):
    assert name.file == file and str(name) == file.removesuffix(".pt")
    assert NetworkName.parse(file) == NetworkName.parse(str(name)) == name
    assert name.position == position


@pytest.mark.parametrize(
    "text", ["epoch.x", "epoch.3.bak", "epoch.", "my.epoch.3", "epoch.3.step."]
)
def test_other_names_have_no_position(text):
    assert NetworkName(text).position is None


def test_networks_inside_epochs_are_in_order_and_other_files_none(tmp_path):
    networks = ["epoch.9.pt", "epoch.10.step.95.pt", "epoch.10.pt", "epoch.11.step.101.pt"]
    others = ["epoch.x.pt", "average.pt", ".epoch.3.pt.part", "epoch.3.pt.bak"]
    for name in (*networks, *others):
        (tmp_path / name).touch()
    assert [name.file for name in list_networks(tmp_path)] == networks


def test_names_without_a_position_come_last():
    names = [NetworkName(text) for text in ("mine", "epoch.10", "average", "epoch.2")]
    assert list(map(str, in_order(names))) == ["epoch.2", "epoch.10", "average", "mine"]


def test_the_newest_networks_are_named_in_messages(tmp_path):
    assert describe_networks(tmp_path) == "There are no networks: run stage 1 first."
    for epoch in range(1, 11):
        (tmp_path / f"epoch.{epoch}.pt").touch()
    shown = ", ".join(f"epoch.{epoch}.pt" for epoch in range(3, 11))
    assert describe_networks(tmp_path) == f"There are {shown}."
