"""Names of networks, written and read again, and their order."""

import pytest

from asdf.runs.layout import (
    AVERAGE,
    RESUME,
    NetworkName,
    TrainingPosition,
    describe_networks,
    in_order,
    list_networks,
)


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
    for name in (
        "epoch.10.pt",
        "epoch.9.pt",
        "epoch.10.step.95.pt",
        "epoch.11.step.101.pt",
        "epoch.x.pt",
        "average.pt",
        ".epoch.3.pt.part",
        "epoch.3.pt.bak",
    ):
        (tmp_path / name).touch()
    assert [name.file for name in list_networks(tmp_path)] == [
        "epoch.9.pt",
        "epoch.10.step.95.pt",
        "epoch.10.pt",
        "epoch.11.step.101.pt",
    ]


def test_names_without_a_position_come_last():
    names = [NetworkName(text) for text in ("mine", "epoch.10", "average", "epoch.2")]
    assert list(map(str, in_order(names))) == ["epoch.2", "epoch.10", "average", "mine"]


def test_the_newest_networks_are_named_in_messages(tmp_path):
    assert describe_networks(tmp_path) == "There are no networks: run stage 1 first."
    for epoch in range(1, 11):
        (tmp_path / f"epoch.{epoch}.pt").touch()
    shown = ", ".join(f"epoch.{epoch}.pt" for epoch in range(3, 11))
    assert describe_networks(tmp_path) == f"There are {shown}."
