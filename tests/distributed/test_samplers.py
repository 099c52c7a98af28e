"""Samplers on several processes, and a kill in the middle of their epochs."""

import pytest
import torch

from tests.distributed.test_exactness import UNDROPPED, assert_equal_runs, step_losses, weights

FEW = "network.global_minibatch_size=8"

SAMPLER = """
import os
import numpy as np
from asdf.data.samplers import Sampler
from asdf.runs.seeds import generator


class Repeating(Sampler):
    def order(self, epoch):
        return generator(self.seed, "mine", epoch).integers(0, len(self.utterances), 19)


class ByRank(Sampler):
    def order(self, epoch):
        return np.arange(len(self.utterances)) * (os.environ.get("RANK", "0") == "0")
"""


@pytest.fixture
def samplers(recipe):
    (recipe.folder / "my_sampler.py").write_text(SAMPLER)
    recipe.add_configs(UNDROPPED)
    return recipe


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sampler", "processes", "kill"),
    [
        ("balanced_attacks", 1, "0:5"),
        ("my_sampler.Repeating", 1, "0:4"),
        ("balanced_classes", 2, "1:3"),
    ],
)
def test_a_killed_run_ends_as_one_never_killed(samplers, capsys, sampler, processes, kill):
    options = ["normed", f"recipe.sampler={sampler}", "network.checkpoint_interval_steps=2"]

    def run(*words):
        return samplers.run(*options, *words, processes=processes)

    whole = run("paths.system_folder=whole")
    assert whole.status == 0, whole.output
    words = [*options, "paths.system_folder=killed"]
    assert samplers.run(*words, processes=processes, TEST_KILL=kill).status != 0
    resumed = run("paths.system_folder=killed")
    assert resumed.status == 0, resumed.output
    assert "going on from resume.pt" in resumed.output and "starts over" not in resumed.output
    assert_equal_runs(samplers.system("whole"), samplers.system("killed"))


@pytest.mark.slow
def test_two_processes_take_the_turns_of_one(samplers, capsys):
    options = ("undropped", "recipe.sampler=my_sampler.Repeating", FEW, "network.print_interval=1")
    alone = samplers.call(capsys, *options, "recipe.end_stage=1")
    first = samplers.output.rename(samplers.folder / "one")
    second = samplers.run(*options, "recipe.end_stage=1", processes=2)
    assert alone.status == 0 and second.status == 0, alone.output + second.output
    losses = step_losses(first / "undropped")
    # 19 turns in windows of 8.
    assert list(losses) == list(range(1, 10))
    assert step_losses(samplers.system("undropped")) == pytest.approx(losses, rel=0, abs=1e-4)
    folders = (first / "undropped", samplers.system("undropped"))
    ends = [weights(folder / "networks" / "epoch.3.pt") for folder in folders]
    torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=1e-4)


def test_an_order_that_depends_on_the_process_is_refused_by_all_of_them(samplers):
    outcome = samplers.run("debug", "recipe.sampler=my_sampler.ByRank", processes=2)
    assert outcome.status != 0
    assert (
        "recipe.sampler = 'my_sampler.ByRank': 1 of the 2 processes have a different order of "
        "epoch 1 than the first" in outcome.output
    )
