"""Training steps of one's own: what the classes of docs and of recipes/ideas compute is what
their papers say, on any number of processes, and a resumed training is the uninterrupted one.

Each is compared with a loop in plain torch, whose step is one batch.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import cross_entropy

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.runs.seeds import generator
from asdf.trials.trial_list import TrialList
from tests.distributed.noise_training import (
    FEATURES,
    SIZE,
    check_resumed,
    make_clips,
    make_network,
    steps_of,
    train_and_resume,
    train_on_noise,
)
from tests.distributed.worlds import compute_in_worlds
from tests.steps_shown import load, with_settings

RATE = 0.1
WEIGHTS = torch.tensor([0.3, 0.7])
ATTACKS = ["A01", "A02", "A03"]
LABELS = torch.arange(SIZE) % 2

Sam = with_settings(load("my_sam").SAM, rho=0.2)
AdaptiveSam = with_settings(load("my_sam").SAM, rho=0.5, adaptive=True)
Mldg = with_settings(load("mldg").MLDG, inner_rate=0.3, weight=0.8)
FirstOrder = with_settings(load("mldg").MLDG, inner_rate=0.3, weight=0.8, first_order=True)
Attacked = with_settings(load("adversarial").Adversarial, radius=0.2, rate=0.08, steps=3)
Teacher = with_settings(load("mean_teacher").MeanTeacher, decay=0.8, weight=3.0, warmup_epochs=0.5)
Gem = with_settings(load("gem").GEM, column="region")
CASES = {
    "sam": "Sam",
    "adaptive sam": "AdaptiveSam",
    "mldg": "Mldg",
    "mldg of first order": "FirstOrder",
    "adversarial": "Attacked",
    "mean teacher": "Teacher",
    "gem": "Gem",
}


def make_list() -> TrialList:
    names = [f"{i}.wav" for i in range(SIZE)]
    attacks = ["-" if i % 2 else ATTACKS[i // 2 % 3] for i in range(SIZE)]
    regions = [["north", "south", "west"][i % 5 % 3] for i in range(SIZE)]
    columns = {"attack": attacks, "region": regions}
    return TrialList(names, LABELS.numpy().astype(np.int8), columns=columns, name="noise")


def train(name: str, world: World, plain: bool, **options: Any) -> dict[str, Any]:
    decay = None if plain else 0.7
    named = {"network.training_step": f"{__name__}.{CASES[name]}", "network.ema_decay": decay}
    return train_on_noise(steps_of(named), make_list(), world, plain, **options)


Weights = dict[str, Tensor]
# Weights and what is known of a step: its number, epochs before it, and its utterances.
Slopes = Callable[[nn.Module, Weights, int, float, Tensor], Weights]


def logits(network: nn.Module, weights: Weights, clips: Tensor) -> Tensor:
    return functional_call(network, weights, (clips,))[1]


def mean_loss(
    network: nn.Module, weights: Weights, chosen: Tensor, clips: Tensor | None = None
) -> Tensor:
    values = logits(network, weights, make_clips()[chosen] if clips is None else clips)
    return cross_entropy(values, LABELS[chosen], WEIGHTS)


def slopes_of(loss: Tensor, weights: Weights, **options: bool) -> Weights:
    slopes = torch.autograd.grad(loss, list(weights.values()), **options)
    return dict(zip(weights, slopes, strict=True))


def length(vector: Weights) -> Tensor:
    return torch.cat([value.flatten() for value in vector.values()]).norm()


def sam(network, weights, step, epochs, chosen):
    slopes = slopes_of(mean_loss(network, weights, chosen), weights)
    factor = 0.2 / length(slopes)
    worst = {name: weights[name] + factor * slopes[name] for name in weights}
    return slopes_of(mean_loss(network, worst, chosen), worst)


def adaptive_sam(network, weights, step, epochs, chosen):
    slopes = slopes_of(mean_loss(network, weights, chosen), weights)
    # T_w g, and the worst weights rho T_w^2 g / ||T_w g|| away.
    scaled = {name: weights[name].abs() * slopes[name] for name in weights}
    factor = 0.5 / length(scaled)
    worst = {name: weights[name] + factor * weights[name].abs() * scaled[name] for name in weights}
    worst = {name: value.detach().requires_grad_() for name, value in worst.items()}
    return slopes_of(mean_loss(network, worst, chosen), worst)


def mldg(network, weights, step, epochs, chosen, first_order=False):
    draws = generator(0, "training step", step, "held out")
    attacks = np.array(make_list().columns["attack"])[chosen.numpy()]
    labels = LABELS[chosen].numpy()
    names = sorted(set(attacks[labels == 0]))
    held = attacks == (draws.choice(names) if names else "none")
    coins = draws.random(len(chosen)) < 0.5
    is_test = torch.from_numpy(np.where(labels == 1, coins, held))
    if is_test.all() or not is_test.any():
        return slopes_of(mean_loss(network, weights, chosen), weights)
    first = mean_loss(network, weights, chosen[~is_test])
    slopes = slopes_of(first, weights, create_graph=True)
    if first_order:
        slopes = {name: value.detach() for name, value in slopes.items()}
    ahead = {name: weights[name] - 0.3 * slopes[name] for name in weights}
    # One differentiation of the whole expression, through the step inside it.
    return slopes_of(first + 0.8 * mean_loss(network, ahead, chosen[is_test]), weights)


def first_order_mldg(network, weights, step, epochs, chosen):
    return mldg(network, weights, step, epochs, chosen, first_order=True)


def adversarial(network, weights, step, epochs, chosen):
    clean = make_clips()[chosen]
    starts = [
        generator(0, "training step", "start", int(epochs) + 1, index).uniform(-1, 1, FEATURES)
        for index in chosen.tolist()
    ]
    change = 0.2 * torch.from_numpy(np.stack(starts).astype(np.float32))
    for _ in range(3):
        moved = (clean + change).requires_grad_()
        (slope,) = torch.autograd.grad(mean_loss(network, weights, chosen, moved), moved)
        change = (change + 0.08 * slope.sign()).clamp(-0.2, 0.2)
    return slopes_of(mean_loss(network, weights, chosen, clean + change), weights)


class TeacherLoop:
    """The loop of a mean teacher, which remembers the teacher from step to step."""

    def __init__(self) -> None:
        self.teacher: Weights = {}

    def __call__(self, network, weights, step, epochs, chosen):
        now = {name: value.detach().clone() for name, value in weights.items()}
        if not self.teacher:
            self.teacher = now
        else:
            for name, value in now.items():
                self.teacher[name] = 0.8 * self.teacher[name] + 0.2 * value
        clips = make_clips()[chosen]
        taught = logits(network, self.teacher, clips).softmax(dim=1)
        learnt = logits(network, weights, clips).softmax(dim=1)
        distance = ((learnt - taught.detach()) ** 2).mean()
        weight = 3.0 * min(1.0, epochs / 0.5)
        return slopes_of(mean_loss(network, weights, chosen) + weight * distance, weights)


def gem(network, weights, step, epochs, chosen):
    names = list(dict.fromkeys(make_list().columns["region"]))
    values = np.array([names.index(value) for value in make_list().columns["region"]])[chosen]
    newest = values.max()

    def slope(value: int) -> np.ndarray:
        loss = mean_loss(network, weights, chosen[torch.from_numpy(values == value)])
        slopes = slopes_of(loss, weights)
        return torch.cat([part.flatten() for part in slopes.values()]).double().numpy()

    wanted = slope(newest)
    memories = [slope(value) for value in sorted(set(values) - {newest})]
    best = nearest_allowed(wanted, memories)
    sizes = [value.numel() for value in weights.values()]
    parts = torch.from_numpy(best).float().split(sizes)
    return {n: p.reshape(weights[n].shape) for n, p in zip(weights, parts, strict=True)}


def nearest_allowed(wanted: np.ndarray, memories: list[np.ndarray]) -> np.ndarray:
    """Return the vector nearest to `wanted` with no negative product with a memory.

    Of each choice of memories the nearest vector at right angles to them; the nearest of those
    that are allowed is the answer.
    """
    best = None
    for chosen in product([False, True], repeat=len(memories)):
        rows = np.array([m for m, is_in in zip(memories, chosen, strict=True) if is_in])
        candidate = wanted
        if len(rows):
            candidate = wanted - rows.T @ np.linalg.lstsq(rows @ rows.T, rows @ wanted)[0]
        is_allowed = all(candidate @ memory >= -1e-9 for memory in memories)
        distance = np.linalg.norm(candidate - wanted)
        if is_allowed and (best is None or distance < np.linalg.norm(best - wanted)):
            best = candidate
    assert best is not None
    return best


LOOPS: dict[str, Callable[[], Slopes]] = {
    "sam": lambda: sam,
    "adaptive sam": lambda: adaptive_sam,
    "mldg": lambda: mldg,
    "mldg of first order": lambda: first_order_mldg,
    "adversarial": lambda: adversarial,
    "mean teacher": TeacherLoop,
    "gem": lambda: gem,
}


def train_by_loop(name: str) -> dict[str, Tensor]:
    """Train an epoch by the loop in plain torch: a step is one batch."""
    network = make_network(plain=True)
    slopes_in = LOOPS[name]()
    for number, window in enumerate(TrainingPlan(SIZE, 6, 2).windows(1)):
        chosen = torch.from_numpy(window.utterances)
        weights = dict(network.named_parameters())
        slopes = slopes_in(network, weights, number, window.start / SIZE, chosen)
        with torch.no_grad():
            for key, value in weights.items():
                value -= RATE * slopes[key]
    return network.state_dict()


def work_of(world: World) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in CASES:
        result = train_and_resume(world, partial(train, name, world, plain=False))
        results[name] = {**result, "plain": train(name, world, plain=True, epochs=1)}
    return results


@pytest.fixture(scope="module")
def alone() -> dict[str, Any]:
    return work_of(World())


@pytest.fixture(scope="module")
def worlds(tmp_path_factory) -> dict[int, dict[str, Any]]:
    return compute_in_worlds(work_of, tmp_path_factory.mktemp("steps"))


def check_against_loop(learnt: dict[str, Tensor], name: str) -> None:
    expected = train_by_loop(name)
    for key, value in expected.items():
        torch.testing.assert_close(learnt[key], value, rtol=1e-6, atol=1e-6, check_stride=False)
    start = make_network(plain=True).state_dict()
    assert not torch.equal(learnt["hidden.weight"], start["hidden.weight"])


def check_continued(result: dict[str, Any], name: str) -> None:
    check_resumed(result, "unaveraged_state_dict")
    whole, resumed = result["whole"], result["resumed"]
    if name == "mean teacher":
        assert whole["training_step"]["class"].endswith("Step")
        teachers = [part["training_step"]["state"]["teacher"] for part in (resumed, whole)]
        torch.testing.assert_close(*teachers, rtol=0, atol=0)
    # Batch norm's statistics see each clip once: three minibatches per epoch.
    assert int(whole["model_state_dict"]["norm.num_batches_tracked"]) == 6


@pytest.mark.parametrize("name", CASES)
def test_steps_are_those_of_a_loop_in_plain_torch(alone, name: str) -> None:
    check_against_loop(alone[name]["plain"]["model_state_dict"], name)
    check_continued(alone[name], name)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("processes", [2, 3])
def test_steps_are_the_same_on_several_processes(worlds, processes: int, name: str) -> None:
    result = worlds[processes][name]
    check_against_loop(result["plain"]["model_state_dict"], name)
    check_continued(result, name)
