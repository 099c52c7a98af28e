"""What several processes must not change, and what a kill must not lose."""

import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch

from asdf.data.training_plan import TrainingPlan
from asdf.trials.lists import read_list
from tests.conftest import PATIENCE_S
from tests.unit.checkpoint.test_base_weights import write_base

UNDROPPED = """
undropped < debug
network.network_class = 'small_networks.Undropped'
paths.system_folder = 'undropped'
"""


def weights(path: Path) -> dict[str, torch.Tensor]:
    return torch.load(path, weights_only=True)["model_state_dict"]


def metrics(system: Path) -> list[dict]:
    """The lines of metrics.jsonl without what depends on the clock."""
    lines = [json.loads(line) for line in (system / "metrics.jsonl").read_text().splitlines()]
    timed = ("utterances_per_s", "data_wait", "seconds_left")
    return [{key: line[key] for key in line if key not in timed} for line in lines]


def step_losses(system: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in metrics(system) if line["kind"] == "step"}


def assert_equal_runs(this: Path, other: Path) -> None:
    """Networks, to the last bit of weights, optimiser and progress, score files and metrics."""
    networks = sorted(path.name for path in (this / "networks").glob("epoch.*.pt"))
    assert networks == sorted(path.name for path in (other / "networks").glob("epoch.*.pt"))
    for name in networks:
        first = torch.load(this / "networks" / name, weights_only=True)
        second = torch.load(other / "networks" / name, weights_only=True)
        classes = [file["optimizer_state_dict"].pop("class", "") for file in (first, second)]
        assert classes[0] == classes[1]
        assert list(first) == list(second)
        for key in ("model_state_dict", "optimizer_state_dict", "unaveraged_state_dict"):
            torch.testing.assert_close(first.get(key, {}), second.get(key, {}), rtol=0, atol=0)
        assert (
            first["progress"] == second["progress"]
            and first["training_loss"] == second["training_loss"]
        )
    scores = sorted(path.relative_to(this) for path in (this / "scores").rglob("*.txt"))
    assert scores and scores == sorted(
        path.relative_to(other) for path in (other / "scores").rglob("*.txt")
    )
    for path in scores:
        assert (this / path).read_bytes() == (other / path).read_bytes()
    assert metrics(this) == metrics(other)


def check_killed(recipe, words, kills, processes, run=None):
    """A run that is killed as often as `kills` says ends as one that never was; its last output."""
    run = run or partial(recipe.run, processes=processes)
    whole = run(*words, "paths.system_folder=whole")
    assert whole.status == 0, whole.output
    killed = (*words, "paths.system_folder=killed")
    for kill in kills:
        assert recipe.run(*killed, processes=processes, TEST_KILL=kill).status != 0
    resumed = run(*killed)
    assert resumed.status == 0, resumed.output
    assert "going on from" in resumed.output and "starts over" not in resumed.output
    assert_equal_runs(recipe.system("whole"), recipe.system("killed"))
    return whole.output


@pytest.mark.slow
def test_two_processes_take_the_steps_of_one(recipe, capsys):
    """A global minibatch of 8 on both, also with class weights, accumulation and a short last step.

    Batch norm is over both processes.
    """
    recipe.add_configs(UNDROPPED)
    options = (
        "network.class_weights=(0.1, 0.9)",
        "network.optimizer_step_interval=2",
        "network.print_interval=1",
        "network.global_minibatch_size=8",
        "recipe.end_stage=1",
    )
    alone = recipe.call(capsys, "debug", "undropped", *options)
    first = recipe.output.rename(recipe.folder / "one")
    second = recipe.run("debug", "undropped", *options, processes=2)
    assert alone.status == 0 and second.status == 0, alone.output + second.output
    assert "rank 1 of 2" in second.output and "4 of 8 utterances per minibatch" in second.output
    steps = "16 utterances per optimiser step ({} per process and minibatch, {}, 2 minibatches)"
    assert steps.format(8, "1 process") in alone.output
    assert steps.format(4, "2 processes") in second.output
    for system, tolerance in (("system1", 1e-6), ("undropped", 1e-4)):
        folders = (first / system, recipe.system(system))
        losses, same = (step_losses(folder) for folder in folders)
        assert list(losses) == [1, 2, 3, 4, 5, 6]
        assert same == pytest.approx(losses, rel=0, abs=max(1e-5, tolerance))
        ends = [weights(folder / "networks" / "epoch.3.pt") for folder in folders]
        torch.testing.assert_close(ends[0], ends[1], rtol=0, atol=tolerance)


def test_score_files_do_not_depend_on_the_number_of_processes(recipe, capsys):
    assert recipe.call(capsys, "normed", "network.max_epochs=1").status == 0
    files = [
        recipe.system("normed") / "scores" / "epoch.1" / f"demo-{name}.txt"
        for name in ("dev", "eval")
    ]
    expected = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    # Three processes and batches of few utterances: some process has a batch less than the others.
    recipe.run("normed", "recipe.start_stage=2", "computing.processes=3").ok()
    assert [path.read_bytes() for path in files] == expected


@pytest.mark.slow
def test_a_network_with_graphs_is_validated_by_two_processes_and_scored_by_one(recipe, capsys):
    network = ("network.network_class=asdf.networks.SSL_AASIST_L", "front_end.architecture=tiny")
    options = ("debug", *network, "network.max_epochs=1", "paths.system_folder=graphs")
    recipe.run(*options, processes=2).ok()
    files = sorted((recipe.system("graphs") / "scores" / "epoch.1").glob("*.txt"))
    assert [path.name for path in files] == ["demo-dev.txt", "demo-eval.txt"]
    expected = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    recipe.call(capsys, *options, "recipe.start_stage=2").ok()
    assert [path.read_bytes() for path in files] == expected


# Where each start dies: (rank, forward passes before it). One before the first checkpoint, one on a
# step after a checkpoint, one in a later epoch. One of two processes dies where torchrun restarts.
@pytest.mark.slow_but("1-kills0")
@pytest.mark.parametrize(
    ("processes", "kills"),
    [
        (1, ["0:1", "0:5", "0:9"]),
        # From three on the sums depend on the order in which the gradients are added.
        (3, ["2:3", "0:2"]),
        (4, ["0:3"]),
    ],
)
def test_a_killed_run_ends_as_one_never_killed(recipe, capsys, processes, kills):
    options = ["normed", "network.checkpoint_interval_steps=2", "network.max_epochs=4"]
    # Of one process, with what the bits of a GPU need.
    options.append(f"computing.deterministic={processes == 1}")

    here = partial(recipe.call, capsys) if processes == 1 else None
    output = check_killed(recipe, options, kills, processes, here)
    promised = "computing.deterministic: the same command gives the same bits"
    assert (promised in output) == (processes == 1)


@pytest.mark.slow
def test_a_changed_number_of_processes_loses_no_turn(recipe, capsys):
    options = (
        "debug",
        "network.checkpoint_interval_steps=2",
        "network.max_epochs=1",
        "network.minibatch_size=2",
    )
    assert recipe.run(*options, processes=2, TEST_KILL="1:5").status != 0
    position = torch.load(recipe.system() / "networks" / "resume.pt", weights_only=True)[
        "progress"
    ]["position"]
    assert position == 16
    outcome = recipe.call(capsys, *options).ok()
    assert "trained by 2 processes so far, by 1 from here on" in outcome.output
    last = torch.load(recipe.system() / "networks" / "epoch.1.pt", weights_only=True)["progress"]
    # 26 utterances: 4 a step before the stop, 2 a step afterwards.
    assert last["step"] == 4 + 5


def test_every_utterance_has_one_turn_over_all_ranks(corpus):
    size = len(read_list(corpus / "train_list.txt", corpus))
    for ranks in (1, 2, 3, 5):
        turns = [
            index
            for rank in range(ranks)
            for window in TrainingPlan(size, 4, 2, ranks, rank, seed=3).windows(epoch=2)
            for share in window.shares
            for index in share.utterances[: share.counted].tolist()
        ]
        assert sorted(turns) == list(range(size))


MIXED = (
    "augmentation.mixup_probability=0.6",
    "augmentation.chain=('time_mask', 'silence')",
    "network.class_weights=(0.1, 0.9)",
)


UPDATES = """
updates < debug
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'tiny'
front_end.weights = 'base.pt'
front_end.trained_parts = ('norms', 'layers:2')
lora.rank = 3
network.optimizer = 'sgd'
network.initial_learning_rate = 0.03
network.global_minibatch_size = 8
network.max_epochs = 1
recipe.end_stage = 1
recipe.validation_sets = ('demo-dev',)
"""


@pytest.mark.slow
def test_two_processes_update_as_one(recipe, capsys):
    recipe.add_configs(UPDATES)
    write_base(recipe.folder / "base.pt")
    recipe.call(capsys, "updates", "paths.system_folder=one").ok()
    recipe.run("updates", "paths.system_folder=two", processes=2).ok()
    first, second = read(recipe, "one"), read(recipe, "two")
    state = first["model_state_dict"]
    # What was added begins at 0: it has moved by more than the processes may differ.
    added = [name for name in state if "lora_B" in name]
    assert len(added) == 12
    assert min(float(state[name].abs().max()) for name in added) > 1e-4
    # Whoever trained it: what rests is not in the file, and has the same numbers.
    assert second["base"] == first["base"]
    torch.testing.assert_close(second["model_state_dict"], state, rtol=0, atol=1e-6)


@pytest.mark.slow
def test_updates_go_on_from_their_file(recipe):
    """Which holds only what was trained: to the last bit of a run that was never stopped."""
    recipe.add_configs(UPDATES)
    write_base(recipe.folder / "base.pt")
    network = "network.network_class=small_networks.FrontEnded"
    check_killed(recipe, ["updates", network, "network.checkpoint_interval_steps=2"], ["1:3"], 2)
    assert "base" in torch.load(recipe.system("killed") / "networks/epoch.1.pt", weights_only=True)


def read(recipe, system: str) -> dict:
    return torch.load(recipe.system(system) / "networks" / "epoch.1.pt", weights_only=True)


DROPS = """
drops < debug
network.network_class = 'asdf.networks.SSL_ASP'
front_end.architecture = 'tiny'
front_end.layer = 'weighted'
front_end.unfreeze_after_epochs = 1
front_end.layer_drop = 0.5
front_end.time_mask_proportion = 0.2
front_end.time_mask_length = 2
network.max_epochs = 2
network.minibatch_size = 3
network.optimizer_step_interval = 2
network.checkpoint_interval_steps = 1
recipe.end_stage = 1
recipe.validation_sets = ()
"""


@pytest.mark.slow
def test_three_processes_unfreeze_together_and_resume_exactly(recipe):
    """Each draws layers and frames of its own. One run is cut short after the first of the two
    steps in which the front end learns; a stop before that is a test of one process."""
    recipe.add_configs(DROPS)
    whole = recipe.run("drops", "paths.system_folder=whole", processes=3).ok()
    assert whole.output.index("the front end is frozen") < whole.output.index(
        "the front end is trained from here on"
    )
    recipe.run("drops", "paths.system_folder=part", "network.max_steps=3", processes=3).ok()
    recipe.run("drops", "paths.system_folder=part", processes=3).ok()
    folders = [recipe.system(name) / "networks" for name in ("whole", "part")]
    first, second = (torch.load(folder / "epoch.2.pt", weights_only=True) for folder in folders)
    for key in ("model_state_dict", "optimizer_state_dict"):
        torch.testing.assert_close(first[key], second[key], rtol=0, atol=0)
    before, after = (
        torch.load(folders[0] / f"epoch.{n}.pt", weights_only=True)["model_state_dict"]
        for n in (1, 2)
    )
    layers = "front_end.model.encoder.transformer.layers.0.feed_forward.output_dense.weight"
    assert not torch.equal(before[layers], after[layers])


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
    ("options", "processes", "kill"),
    [
        (MIXED, 1, "0:5"),
        (["recipe.sampler=balanced_attacks"], 1, "0:5"),
        (["recipe.sampler=my_sampler.Repeating"], 1, "0:4"),
        (["recipe.sampler=balanced_classes"], 2, "1:3"),
    ],
)
def test_a_killed_run_of_other_turns_ends_as_one_never_killed(samplers, options, processes, kill):
    words = ["normed", *options, "network.checkpoint_interval_steps=2"]
    check_killed(samplers, words, [kill], processes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "processes", "steps", "tolerance"),
    [
        # 26 utterances in windows of 12; 19 turns in windows of 8.
        (("debug", *MIXED, "network.optimizer_step_interval=2",
          "network.global_minibatch_size=6"), (2, 3), 9, 1e-6),
        (("undropped", "recipe.sampler=my_sampler.Repeating",
          "network.global_minibatch_size=8"), (2,), 9, 1e-4),
    ],
)  # fmt: skip
def test_processes_take_the_turns_of_one(samplers, capsys, options, processes, steps, tolerance):
    words = (*options, "network.print_interval=1", "recipe.end_stage=1")
    samplers.call(capsys, *words, "paths.system_folder=one").ok()
    losses = step_losses(samplers.system("one"))
    assert list(losses) == list(range(1, steps + 1))
    expected = weights(samplers.system("one") / "networks" / "epoch.3.pt")
    for number in processes:
        name = f"p{number}"
        samplers.run(*words, f"paths.system_folder={name}", processes=number).ok()
        near = pytest.approx(losses, rel=0, abs=max(1e-5, tolerance))
        assert step_losses(samplers.system(name)) == near
        ends = weights(samplers.system(name) / "networks" / "epoch.3.pt")
        torch.testing.assert_close(ends, expected, rtol=0, atol=tolerance)


def test_an_order_that_depends_on_the_process_is_refused_by_all_of_them(samplers):
    outcome = samplers.run("debug", "recipe.sampler=my_sampler.ByRank", processes=2)
    assert outcome.status != 0
    assert (
        "recipe.sampler = 'my_sampler.ByRank': 1 of the 2 processes have a different order of "
        "epoch 1 than the first" in outcome.output
    )
    assert "[rank 1] error" not in outcome.output


LAYERED = """
layered < debug
network.network_class = 'asdf.networks.SSL_Linear'
front_end.architecture = 'tiny'
network.optimizer = 'sgd'
network.initial_learning_rate = 0.03
network.global_minibatch_size = 8
network.max_epochs = 1
recipe.end_stage = 1
recipe.validation_sets = ('demo-dev',)
"""
COMPILED = "computing.compile='layers'"
LAUNCHER = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None, reason="compiling for the CPU needs g++")
@pytest.mark.parametrize("choice", ["", "front_end.gradient_checkpointing=True"])
def test_two_processes_with_compiled_layers_train_the_network_of_one_without(
    recipe, tmp_path, capsys, choice
):
    recipe.add_configs(LAYERED)
    words = [choice] if choice else []
    recipe.call(capsys, "layered", "paths.system_folder=plain", *words).ok()
    # By a Python of their own: the compiler starts processes, which the tests' warm one forks.
    both = subprocess.run(
        [*LAUNCHER, "run.py", "layered", "paths.system_folder=compiled", COMPILED, *words],
        cwd=recipe.folder,
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    assert both.returncode == 0, both.stdout
    assert "the next step compiles the network" in both.stdout
    plain, compiled = (
        torch.load(recipe.system(name) / "networks" / "epoch.1.pt", weights_only=True)
        for name in ("plain", "compiled")
    )
    torch.testing.assert_close(
        compiled["model_state_dict"], plain["model_state_dict"], rtol=1e-4, atol=1e-5
    )
