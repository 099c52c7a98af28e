"""Every loss: a step's gradient is that of one big batch, on any number of processes, and a resumed
training is the uninterrupted one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections
from asdf.training.losses import Loss, Targets
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList
from tests.distributed.noise_training import (
    SIZE,
    check_resumed,
    descend,
    make_clips,
    make_network,
    steps_of,
    train_and_resume,
    train_on_noise,
)
from tests.distributed.worlds import compute_in_worlds

REGIONS = ["north", "south"]


class Centres(Loss):
    """A loss of one's own with parameters, of which the scores know nothing."""

    columns = ("region",)

    def __init__(self, settings: Sections, dimension: int) -> None:
        super().__init__(settings, dimension)
        self.centres_PE = nn.Parameter(torch.randn(len(REGIONS), dimension))

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        regions = torch.tensor([REGIONS.index(region) for region in columns["region"]])
        distances_B = (embeddings_BE - self.centres_PE[regions]).norm(dim=1)
        return distances_B + nn.functional.cross_entropy(logits_B2, labels_B, reduction="none")


class Ranks(Centres):
    """A joint loss of one's own with parameters, and scores of its own."""

    is_joint = True

    def logits(self, embeddings_BE, logits_B2):
        return embeddings_BE @ self.centres_PE.T

    def per_utterance(self, embeddings_BE, logits_B2, labels_B, columns):
        scores_B = (embeddings_BE @ self.centres_PE[0]).tanh() + logits_B2[:, 1]
        mean = torch.where(labels_B == 1, scores_B, 0.0).mean()
        return (scores_B - mean) ** 2


CASES: dict[str, dict[str, Any]] = {
    "cross_entropy": {"loss.label_smoothing": 0.1},
    "likelihood ratios": {"network.loss": "cross_entropy", "network.score": "llr"},
    "focal": {},
    "oc_softmax": {},
    "am_softmax": {"loss.margin_warmup_epochs": 1.5},
    "aam_softmax": {"loss.scale": 8.0},
    "p2sgrad": {},
    "supervised_contrastive": {"loss.contrastive_temperature": 0.5},
    "own": {"network.loss": f"{__name__}.Centres"},
    "own joint": {"network.loss": f"{__name__}.Ranks"},
}


def settings_of(name: str) -> Sections:
    return steps_of({"network.loss": name, **CASES[name]})


def make_list() -> TrialList:
    names = [f"{i}.wav" for i in range(SIZE)]
    regions = [REGIONS[i % 3 == 0] for i in range(SIZE)]
    labels = np.arange(SIZE, dtype=np.int8) % 2
    return TrialList(names, labels, columns={"region": regions}, name="noise")


def train(name: str, world: World, **options: Any) -> dict[str, Any]:
    return train_on_noise(settings_of(name), make_list(), world, **options)


def train_in_big_batches(name: str) -> dict[str, Any]:
    """Train one epoch in plain torch: a window is one batch."""
    network = make_network(plain=True)
    step = Step(network, make_list(), settings_of(name), World())
    loss = step.objective.loss
    labels = torch.arange(SIZE) % 2
    weights = torch.tensor([0.3, 0.7])[labels]
    clips = make_clips()
    parameters = [value for value in network.parameters() if value.requires_grad]
    total = 0.0
    position = 0
    for window in TrainingPlan(SIZE, 6, 2).windows(1):
        chosen = torch.from_numpy(window.utterances)
        loss.begin_step(position / SIZE)
        embeddings, logits = network(clips[chosen])
        columns = {"region": [make_list().columns["region"][index] for index in chosen.tolist()]}
        values = loss.of_minibatch(Outputs(embeddings, logits), Targets(labels[chosen], columns))
        mean = values.sum() / weights[chosen].sum()
        descend(mean, parameters)
        total += float(values.detach().double().sum())
        position = window.end
    return {"state": network.state_dict(), "loss": total}


def work_of(world: World) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in CASES:
        result = train_and_resume(world, partial(train, name, world, plain=False))
        results[name] = {**result, "plain": train(name, world, plain=True, epochs=1)}
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> Callable[[int], dict[str, Any]]:
    """Return what a world of a number of processes computes; its processes start when asked for."""

    @cache
    def in_worlds() -> dict[int, dict[str, Any]]:
        return compute_in_worlds(work_of, tmp_path_factory.mktemp("losses"))

    @cache
    def alone() -> dict[str, Any]:
        return work_of(World())

    return lambda processes: alone() if processes == 1 else in_worlds()[processes]


SIZES = [1, *(pytest.param(number, marks=pytest.mark.slow) for number in (2, 3))]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("processes", SIZES)
def test_steps_are_those_of_one_big_batch(results, processes: int, name: str) -> None:
    result = results(processes)[name]["plain"]
    expected = train_in_big_batches(name)
    torch.testing.assert_close(
        result["model_state_dict"], expected["state"], rtol=1e-5, atol=1e-5, check_stride=False
    )
    assert result["losses"] == pytest.approx([expected["loss"]], rel=1e-5)
    start = make_network(plain=True).state_dict()
    assert not torch.equal(result["model_state_dict"]["hidden.weight"], start["hidden.weight"])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("processes", SIZES)
def test_a_resumed_training_is_the_uninterrupted_one(results, processes: int, name: str) -> None:
    check_resumed(results(processes)[name])


@pytest.mark.slow
def test_statistics_of_batch_norm_see_each_clip_once(results) -> None:
    for processes in (1, 2, 3):
        batches = []
        for name in ("cross_entropy", "supervised_contrastive"):
            state = results(processes)[name]["whole"]["model_state_dict"]
            batches.append(int(state["norm.num_batches_tracked"]))
        # Three minibatches per epoch.
        assert batches == [6, 6]
