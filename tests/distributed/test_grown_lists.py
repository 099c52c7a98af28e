"""Runs whose training list grew while they were down: the same bits, on one and two processes."""

import json
import shutil

import pytest

from tests.distributed.test_exactness import assert_equal_runs, weights
from tests.distributed.test_sharded_orders import SHARDED, sharded  # noqa: F401

SHORT = 18


def epoch(system, number):
    return weights(system / "networks" / f"epoch.{number}.pt")


def equal(one, other) -> bool:
    return one.keys() == other.keys() and all(one[name].equal(other[name]) for name in one)


def lists_of(recipe) -> list[dict]:
    starts = json.loads((recipe / "environment.json").read_text())
    return [start["training_list"] for start in starts if "training_list" in start]


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "kill"), [(1, "0:3"), (2, "1:2")])
def test_the_epoch_under_way_ends_on_its_list_and_the_next_has_all(
    sharded,  # noqa: F811
    processes,
    kill,
):
    options = ["normed", *SHARDED, "network.checkpoint_interval_steps=1", "recipe.end_stage=1"]
    listed = sharded.folder / "packed" / "train_list.txt"
    whole = listed.read_text()
    short = "".join(whole.splitlines(keepends=True)[:SHORT])

    def run(system, epochs, **kill):
        words = (f"paths.system_folder={system}", f"network.max_epochs={epochs}")
        return sharded.run(*options, *words, processes=processes, **kill)

    listed.write_text(short)
    outcome = run("never", 1)
    assert outcome.status == 0, outcome.output
    assert run("grown", 2, TEST_KILL=kill).status != 0
    assert not (sharded.system("grown") / "networks" / "epoch.1.pt").exists()
    listed.write_text(whole)
    outcome = run("grown", 2)
    assert outcome.status == 0, outcome.output
    assert (
        "the training list grew: epoch 1 ends with the 18 utterances that it began with, and the "
        "next one uses all" in outcome.output
    )
    assert "starts over" not in outcome.output
    assert equal(epoch(sharded.system("grown"), 1), epoch(sharded.system("never"), 1))
    # As a run that had ended that epoch before the list grew.
    outcome = run("never", 2)
    assert outcome.status == 0 and "epoch 2 is the first with it" in outcome.output, outcome.output
    assert equal(epoch(sharded.system("grown"), 2), epoch(sharded.system("never"), 2))
    for system in ("grown", "never"):
        first, last = lists_of(sharded.system(system))
        assert (first["utterances"], first["from_epoch"]) == (SHORT, 1)
        assert (last["utterances"], last["from_epoch"]) == (26, 2)
        assert last["parts"] == [["demo-train", 26]]


def test_a_list_that_lost_a_recording_in_the_middle_begins_its_epoch_anew(sharded, capsys):  # noqa: F811
    options = ["debug", *SHARDED, "recipe.end_stage=1", "network.checkpoint_interval_steps=1"]
    outcome = sharded.call(capsys, *options, "network.max_steps=2")
    assert outcome.status == 0, outcome.output
    listed = sharded.folder / "packed" / "train_list.txt"
    lines = listed.read_text().splitlines(keepends=True)
    listed.write_text("".join(lines[:3] + lines[4:]))
    outcome = sharded.call(capsys, *options, "network.max_epochs=1")
    assert outcome.status == 0, outcome.output
    assert "that of the checkpoint: its epoch starts over" in outcome.output


def test_a_list_that_grew_goes_on_in_one_process(sharded, capsys):  # noqa: F811
    options = ["debug", *SHARDED, "recipe.end_stage=1", "network.checkpoint_interval_steps=1"]
    listed = sharded.folder / "packed" / "train_list.txt"
    whole = listed.read_text()
    listed.write_text("".join(whole.splitlines(keepends=True)[:SHORT]))
    outcome = sharded.call(capsys, *options, "network.max_steps=2")
    assert outcome.status == 0, outcome.output
    copy = sharded.output / "copy"
    shutil.copytree(sharded.system(), copy)
    outcome = sharded.call(capsys, *options, "network.max_epochs=1", "paths.system_folder=copy")
    assert outcome.status == 0, outcome.output
    listed.write_text(whole)
    # Training is over with the epoch under way: the grown list has no turn.
    outcome = sharded.call(capsys, *options, "network.max_epochs=1")
    assert outcome.status == 0, outcome.output
    assert "epoch 1 ends with the 18 utterances that it began with" in outcome.output
    assert outcome.output.count("training ended: network.max_epochs = 1") == 1
    assert equal(epoch(sharded.system(), 1), epoch(copy, 1))
    assert_equal_runs(sharded.system(), copy)
