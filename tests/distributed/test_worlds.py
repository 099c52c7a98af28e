"""What any number of processes computes alike: steps with further terms; errors of the main rank.

All cases of a number of processes share one start of them.
"""

from __future__ import annotations

import json
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy

from asdf.data.datasets import ClipFrames
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.errors import InUseError
from asdf.networks.interface import Outputs
from asdf.recipe.problems import failures
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

SIZE = 14
HOP = 160
CLIP = 800
LENGTH = 3000
PARTS = "0.01-0.04 0.15-0.16"
# Numbers of float32 that are exact.
CLASS_WEIGHTS = (0.25, 0.75)
FRAME_WEIGHTS = (3.0, 1.0)
WEIGHT = 0.4
# The network computes in float64, the loss of detection in float32.
TOLERANCE = 1e-8

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "mixed": {"augmentation.mixup_probability": 0.7},
    "joint": {"network.loss": "supervised_contrastive"},
}


class Framed(nn.Module):
    """Frames of spectra by hand; the last frame of a clip has none, as behind a real front end."""

    frame_hop = HOP

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * HOP, 5)
        self.output = nn.Linear(5, 2)
        self.frame_output = nn.Linear(5, 2)

    def forward(self, waveforms_BT):
        frames_BFE = torch.tanh(self.hidden(waveforms_BT.unfold(1, 2 * HOP, HOP)))
        embeddings_BE = frames_BFE.mean(dim=1)
        frames = {"frames": self.frame_output(frames_BFE)}
        return Outputs(embeddings_BE, self.output(embeddings_BE), frames)


def make_list() -> TrialList:
    labels = np.arange(SIZE, dtype=np.int8) % 2
    parts = ["-" if label else PARTS for label in labels]
    parts[0] = ""
    names = [f"{i}.wav" for i in range(SIZE)]
    return TrialList(names, labels, columns={"spoofed_s": parts}, name="noise")


def settings_of(name: str, step_interval: int) -> Sections:
    values = {
        "network.train_clip_size": CLIP,
        "network.optimizer_step_interval": step_interval,
        "network.global_minibatch_size": 12 // step_interval,
        "network.class_weights": CLASS_WEIGHTS,
        "localisation.enabled": True,
        "localisation.weight": WEIGHT,
        "localisation.class_weights": FRAME_WEIGHTS,
    }
    return steps_of({**values, **CASES[name]})


def make_network() -> nn.Module:
    torch.manual_seed(0)
    return Framed().double().train()


def make_frames(settings: Sections) -> ClipFrames:
    return ClipFrames(make_list(), np.full(SIZE, LENGTH), settings, HOP)


def make_clips() -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(SIZE, CLIP, generator=generator, dtype=torch.float64)


def train(name: str, world: World, step_interval: int) -> dict[str, Any]:
    """Train an epoch with SGD; return the checkpoint and the sums of the losses."""
    settings = settings_of(name, step_interval)
    step = Step(make_network(), make_list(), settings, world, frames=make_frames(settings))
    return train_epochs(step, make_clips(), epochs=1)


def train_in_big_batches() -> dict[str, Any]:
    """Train the same in plain torch, without mixup: a window is one batch."""
    settings = settings_of("plain", 1)
    network = make_network()
    frames = make_frames(settings)
    clips = make_clips()
    for window in TrainingPlan(SIZE, 12).windows(1):
        outputs = network(clips[torch.from_numpy(window.utterances)])
        frame_labels_BF = torch.from_numpy(frames.labels(window.clip_keys())).long()[:, :4]
        # What is heard of an utterance is bona fide where none of it is spoofed.
        labels_B = torch.from_numpy(frames.labels(window.clip_keys())).long().amin(dim=1)
        detection = cross_entropy(
            outputs.logits_B2, labels_B, torch.tensor(CLASS_WEIGHTS, dtype=torch.float64)
        )
        values_BF = cross_entropy(
            outputs.extras["frames"].transpose(1, 2), frame_labels_BF, reduction="none"
        )
        factors_BF = torch.tensor(FRAME_WEIGHTS, dtype=torch.float64)[frame_labels_BF]
        loss = detection + WEIGHT * (factors_BF * values_BF).mean()
        descend(loss, network.parameters())
    return network.state_dict()


def work(world: World) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name in CASES:
        for step_interval in (1, 2):
            results[f"{name} {step_interval}"] = train(name, world, step_interval)
    return {**results, **trace_all(world), "failures": note_failures(world)}


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[int, dict[str, Any]]:
    return {1: work(World()), **compute_in_worlds(work, tmp_path_factory.mktemp("worlds"))}


def test_the_crops_of_some_spoofs_are_bona_fide() -> None:
    settings = settings_of("plain", 1)
    window = next(TrainingPlan(SIZE, SIZE).windows(1))
    heard = make_frames(settings).of_clips(window.clip_keys())
    changed = heard != make_list().labels[window.utterances]
    assert 0 < changed.sum() < SIZE // 2


def test_steps_are_those_of_one_big_batch_however_divided(results) -> None:
    big = train_in_big_batches()
    start = make_network().state_dict()
    for name in CASES:
        expected = results[1][f"{name} 1"]
        learnt = expected["model_state_dict"]
        assert not torch.equal(learnt["frame_output.weight"], start["frame_output.weight"])
        for processes, step_interval in product((1, 2, 3), (1, 2)):
            result = results[processes][f"{name} {step_interval}"]
            state = result["model_state_dict"]
            # The weights of mixed clips are numbers of float32.
            torch.testing.assert_close(state, learnt, rtol=0, atol=TOLERANCE)
            assert result["losses"] == pytest.approx(expected["losses"], rel=1e-7)
            if name == "plain":
                torch.testing.assert_close(state, big, rtol=0, atol=TOLERANCE)


TRACED = 22
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


def traced_settings(head: str) -> Sections:
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


def make_traced_list() -> TrialList:
    attacks = [ATTACKS[index % 8] for index in range(TRACED)]
    labels = np.array([attack == "-" for attack in attacks], np.int8)
    return TrialList([f"{i}.wav" for i in range(TRACED)], labels, columns={"attack": attacks})


def make_traced_clips() -> Tensor:
    return torch.randn(TRACED, FEATURES, generator=torch.Generator().manual_seed(1))


def make_step(head: str, world: World) -> Step:
    torch.manual_seed(0)
    return Step(Small().double().train(), make_traced_list(), traced_settings(head), world)


def trace(head: str, world: World, **options: Any) -> dict[str, Any]:
    return train_epochs(make_step(head, world), make_traced_clips(), **options)


def trace_in_big_batches() -> dict[str, Tensor]:
    """One epoch in plain torch: a window is one batch, and both losses are means over it."""
    network = make_step("linear", World()).network
    attacks = make_traced_list().columns["attack"]
    classes = torch.tensor([CLASSES.index(a) if a in CLASSES else -100 for a in attacks])
    labels = torch.tensor([int(attack == "-") for attack in attacks])
    weights = torch.tensor([0.3, 0.7], dtype=torch.float64)
    clips = make_traced_clips()
    for window in TrainingPlan(TRACED, 6, 2).windows(1):
        chosen = torch.from_numpy(window.utterances)
        outputs = network(clips[chosen])
        loss = F.cross_entropy(outputs.logits_B2.float(), labels[chosen], weight=weights.float())
        loss = loss + 0.6 * F.cross_entropy(outputs.extras["sources"], classes[chosen])
        descend(loss, network.parameters())
    return network.state_dict()


def trace_all(world: World) -> dict[str, Any]:
    return {head: train_and_resume(world, partial(trace, head, world)) for head in LOSSES}


def test_traced_steps_are_those_of_one_big_batch(results) -> None:
    state = results[1]["linear"]["one"]["model_state_dict"]
    torch.testing.assert_close(state, trace_in_big_batches(), rtol=1e-6, atol=1e-7)
    first = make_step("linear", World()).network.state_dict()
    assert not torch.equal(state["class_head.output.weight"], first["class_head.output.weight"])


def test_any_number_of_processes_traces_alike_and_a_resumed_training_goes_on(results) -> None:
    for head, processes in product(LOSSES, (1, 2, 3)):
        alone = results[1][head]["whole"]
        together = results[processes][head]["whole"]
        torch.testing.assert_close(
            together["model_state_dict"], alone["model_state_dict"], rtol=0, atol=TOLERANCES[head]
        )
        assert together["sources"] == alone["sources"]
        check_resumed(results[processes][head])


def fail(kind: str) -> None:
    if kind == "of the project":
        raise InUseError("taken")
    if kind == "of Python":
        Path("/no/such/file").read_text()
    if kind == "of a library":
        json.loads("{")
    raise ValueError(lambda: "cannot be sent")


KINDS = ("of the project", "of Python", "of a library", "that cannot be sent")


def note_failures(world: World) -> list[list[str]] | None:
    """What each rank sees of failures on the main one."""
    lines = []
    for kind in KINDS:
        try:
            # As checks do, of which the project's errors are put together.
            collected = failures([partial(world.run_on_main, partial(fail, kind))])
            lines.append(f"collected {collected[0]!r} {collected[0].reported_by_main}")
        except Exception as error:
            reported = getattr(error, "reported_by_main", False)
            lines.append(f"{isinstance(error, OSError | ValueError)} {error} {reported}")
    return world.gather(lines)


def test_all_ranks_end_by_the_main_ones_error(results) -> None:
    first, second = results[2]["failures"]
    assert first[:3] == [
        "collected InUseError('taken') False",
        "True [Errno 2] No such file or directory: '/no/such/file' False",
        "True Expecting property name enclosed in double quotes: line 1 column 2 (char 1) False",
    ]
    assert second[:3] == [line.replace("False", "True") for line in first[:3]]
    assert first[3].startswith("True <function fail.<locals>.<lambda> at ")
    assert second[3].startswith("False <function fail.<locals>.<lambda> at ")
