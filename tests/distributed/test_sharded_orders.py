"""Epochs by shards out of tars: the same bits after a kill and on two processes."""

import shutil
import tarfile
from pathlib import Path

import pytest
import torch

from tests.distributed.test_exactness import UNDROPPED, assert_equal_runs, step_losses, weights

SHARDED = ("recipe.sampler=sharded", "recipe.shuffle_shards=2")
SHARD = 6


def pack_training_set(corpus: Path, folder: Path) -> Path:
    """Copy a demo corpus, its training recordings as tars of `SHARD`; return the copy."""
    shutil.copytree(corpus, folder)
    listed = folder / "train_list.txt"
    lines = listed.read_text().splitlines()
    moved = []
    for first in range(0, len(lines), SHARD):
        name = f"shards/{first // SHARD}.tar"
        (folder / "shards").mkdir(exist_ok=True)
        with tarfile.open(folder / name, "w") as tar:
            for line in lines[first : first + SHARD]:
                path, label = line.split()
                tar.add(folder / path, Path(path).name)
                moved.append(f"{name}/{Path(path).name} {label}\n")
                (folder / path).unlink()
    listed.write_text("".join(moved))
    return folder


@pytest.fixture
def sharded(recipe, corpus):
    """A recipe whose training set is five tars."""
    packed = pack_training_set(corpus, recipe.folder / "packed")
    recipe.add_configs(UNDROPPED)
    configs = recipe.folder / "configs" / "init_config.py"
    configs.write_text(configs.read_text().replace(str(corpus), str(packed)))
    return recipe


def test_a_dry_run_states_shards_and_shuffling_and_a_broken_shard_is_named(sharded, capsys):
    outcome = sharded.call(capsys, "debug", *SHARDED, "--dry-run")
    assert outcome.status == 0, outcome.output
    assert "26 turns of the 26 training utterances (sharded) = 7 steps per epoch" in outcome.output
    assert "5 shards, at most 2 open at a time" in outcome.output
    assert "5 archives of " in outcome.output
    assert "shuffling of 4 turns per step: " in outcome.output
    shard = sharded.folder / "packed" / "shards" / "3.tar"
    shard.write_bytes(shard.read_bytes()[:-20_000])
    for words in (("--dry-run",), ()):
        outcome = sharded.call(capsys, "debug", *SHARDED, *words)
        assert outcome.status == 1 and "Traceback" not in outcome.output
        assert "shards/3.tar" in outcome.output, outcome.output
    shard.unlink()
    outcome = sharded.call(capsys, "debug", *SHARDED)
    assert outcome.status == 1 and "6 of the 26 files of demo-train are not in" in outcome.output


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "kill"), [(1, "0:5"), (2, "1:3")])
def test_a_killed_run_ends_as_one_never_killed(sharded, processes, kill):
    options = ["normed", *SHARDED, "network.checkpoint_interval_steps=2"]

    def run(*words):
        return sharded.run(*options, *words, processes=processes)

    whole = run("paths.system_folder=whole")
    assert whole.status == 0, whole.output
    assert "5 shards, at most 2 open at a time" in whole.output
    words = [*options, "paths.system_folder=killed"]
    assert sharded.run(*words, processes=processes, TEST_KILL=kill).status != 0
    resumed = run("paths.system_folder=killed")
    assert resumed.status == 0, resumed.output
    assert "going on from resume.pt" in resumed.output and "starts over" not in resumed.output
    assert_equal_runs(sharded.system("whole"), sharded.system("killed"))


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(sharded):
    few = "network.global_minibatch_size=8"
    options = ("undropped", *SHARDED, few, "network.print_interval=1", "recipe.end_stage=1")
    alone = sharded.run(*options, "paths.system_folder=alone")
    together = sharded.run(*options, "paths.system_folder=together", processes=2)
    assert alone.status == 0 and together.status == 0, alone.output + together.output
    losses = step_losses(sharded.system("alone"))
    assert len(losses) == 3 * 4
    assert step_losses(sharded.system("together")) == pytest.approx(losses, rel=0, abs=1e-4)
    folders = (sharded.system("alone"), sharded.system("together"))
    ends = [weights(folder / "networks" / "epoch.3.pt") for folder in folders]
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-4)
