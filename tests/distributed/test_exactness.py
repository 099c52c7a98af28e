"""What several processes must not change, and what a kill must not lose."""

import json
from pathlib import Path

import pytest
import torch

from asdf.data.training_plan import TrainingPlan
from asdf.trials.lists import read_list

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
    assert (
        "rank 1 of 2" in second.output and "4 of the 8 utterances of a minibatch" in second.output
    )
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
    outcome = recipe.run("normed", "recipe.start_stage=2", "computing.processes=3")
    assert outcome.status == 0, outcome.output
    assert [path.read_bytes() for path in files] == expected


@pytest.mark.slow
def test_a_network_with_graphs_is_validated_by_two_processes_and_scored_by_one(recipe, capsys):
    network = ("network.network_class=asdf.networks.SSL_AASIST_L", "front_end.architecture=tiny")
    options = ("debug", *network, "network.max_epochs=1", "paths.system_folder=graphs")
    outcome = recipe.run(*options, processes=2)
    assert outcome.status == 0, outcome.output
    files = sorted((recipe.system("graphs") / "scores" / "epoch.1").glob("*.txt"))
    assert [path.name for path in files] == ["demo-dev.txt", "demo-eval.txt"]
    expected = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    alone = recipe.call(capsys, *options, "recipe.start_stage=2")
    assert alone.status == 0, alone.output
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

    def run_to_the_end(*words):
        if processes == 1:
            return recipe.call(capsys, *words)
        return recipe.run(*words, processes=processes)

    whole = run_to_the_end(*options, "paths.system_folder=whole")
    assert whole.status == 0, whole.output
    promised = "computing.deterministic: the same command gives the same bits"
    assert (promised in whole.output) == (processes == 1)
    killed = (*options, "paths.system_folder=killed")
    for kill in kills:
        assert recipe.run(*killed, processes=processes, TEST_KILL=kill).status != 0
    resumed = run_to_the_end(*killed)
    assert resumed.status == 0, resumed.output
    assert "going on from" in resumed.output
    assert_equal_runs(recipe.system("whole"), recipe.system("killed"))


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
    outcome = recipe.call(capsys, *options)
    assert outcome.status == 0, outcome.output
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
