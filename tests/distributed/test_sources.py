"""Detection and source tracing together: the same steps on any number of processes, and resumed."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.settings.sections import Sections
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList
from tests.distributed.noise_training import (
    check_resumed,
    descend,
    steps_of,
    train_and_resume,
    train_epochs,
)
from tests.distributed.worlds import compute_in_worlds

SIZE = 22
FEATURES = 400
# The last attack is of no class, and neither are bona fide trials.
ATTACKS = ["A01", "-", "A02", "-", "A03", "-", "A09", "-"]
CLASSES = ("A01", "A02", "A03")
LOSSES = {"linear": "cross_entropy", "cosine": "p2sgrad"}
TOLERANCES = {"linear": 1e-6, "cosine": 1e-12}


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(FEATURES, 5)
        self.output = nn.Linear(5, 2)

    def forward(self, clips_BT: Tensor) -> tuple[Tensor, Tensor]:
        embeddings_BE = torch.tanh(self.hidden(clips_BT.to(self.hidden.weight.dtype)))
        return embeddings_BE, self.output(embeddings_BE)


def settings_of(head: str) -> Sections:
    values = {
        "network.train_clip_size": FEATURES,
        "source.column": "attack",
        "source.classes": CLASSES,
        "source.weight": 0.6,
        "source.head": head,
        # Cross-entropy of detection is computed in float32, cosines in the network's float64.
        "network.loss": LOSSES[head],
    }
    return steps_of(values)


def make_list() -> TrialList:
    attacks = [ATTACKS[index % 8] for index in range(SIZE)]
    labels = np.array([attack == "-" for attack in attacks], np.int8)
    return TrialList([f"{i}.wav" for i in range(SIZE)], labels, columns={"attack": attacks})


def make_clips() -> Tensor:
    return torch.randn(SIZE, FEATURES, generator=torch.Generator().manual_seed(1))


def make_step(head: str, world: World) -> Step:
    torch.manual_seed(0)
    return Step(Small().double().train(), make_list(), settings_of(head), world)


def train(head: str, world: World, **options: Any) -> dict[str, Any]:
    return train_epochs(make_step(head, world), make_clips(), **options)


def train_in_big_batches() -> dict[str, Tensor]:
    """One epoch in plain torch: a window is one batch, and both losses are means over it."""
    network = make_step("linear", World()).network
    attacks = make_list().columns["attack"]
    classes = torch.tensor([CLASSES.index(a) if a in CLASSES else -100 for a in attacks])
    labels = torch.tensor([int(attack == "-") for attack in attacks])
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    clips = make_clips()
    for window in TrainingPlan(SIZE, 6, 2).windows(1):
        chosen = torch.from_numpy(window.utterances)
        outputs = network(clips[chosen])
        loss = F.cross_entropy(outputs.logits_B2.float(), labels[chosen], weight=weights.float())
        loss = loss + 0.6 * F.cross_entropy(outputs.extras["sources"], classes[chosen])
        descend(loss, network.parameters())
    return network.state_dict()


def work(world: World) -> dict[str, Any]:
    return {head: train_and_resume(world, partial(train, head, world)) for head in LOSSES}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[int, dict[str, Any]]:
    return {1: work(World()), **compute_in_worlds(work, tmp_path_factory.mktemp("sources"))}


def test_steps_are_those_of_one_big_batch(results) -> None:
    state = results[1]["linear"]["one"]["model_state_dict"]
    torch.testing.assert_close(state, train_in_big_batches(), rtol=1e-6, atol=1e-7)
    first = make_step("linear", World()).network.state_dict()
    assert not torch.equal(state["class_head.output.weight"], first["class_head.output.weight"])


@pytest.mark.parametrize("head", ["linear", "cosine"])
@pytest.mark.parametrize("processes", [2, 3])
def test_any_number_of_processes_takes_the_same_steps(results, processes: int, head: str) -> None:
    alone = results[1][head]["whole"]
    together = results[processes][head]["whole"]
    torch.testing.assert_close(
        together["model_state_dict"], alone["model_state_dict"], rtol=0, atol=TOLERANCES[head]
    )
    assert together["sources"] == alone["sources"]


@pytest.mark.parametrize("head", ["linear", "cosine"])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_resumed_training_is_the_uninterrupted_one(results, processes: int, head: str) -> None:
    check_resumed(results[processes][head])
