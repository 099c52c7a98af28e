"""With a frame-level head a step is that of one big batch, on any number of processes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from asdf.data.datasets import ClipFrames
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections
from asdf.training.step import Step
from asdf.trials.trial_list import TrialList
from tests.distributed.noise_training import descend, steps_of, train_epochs
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
    return results


@pytest.fixture(scope="module")
def results(tmp_path_factory) -> dict[int, dict[str, Any]]:
    folder = tmp_path_factory.mktemp("frames")
    return {1: work(World()), **compute_in_worlds(work, folder)}


def test_the_crops_of_some_spoofs_are_bona_fide() -> None:
    settings = settings_of("plain", 1)
    window = next(TrainingPlan(SIZE, SIZE).windows(1))
    heard = make_frames(settings).of_clips(window.clip_keys())
    changed = heard != make_list().labels[window.utterances]
    assert 0 < changed.sum() < SIZE // 2


@pytest.mark.parametrize("step_interval", [1, 2])
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_steps_are_those_of_one_big_batch(results, processes: int, step_interval: int) -> None:
    state = results[processes][f"plain {step_interval}"]["model_state_dict"]
    torch.testing.assert_close(state, train_in_big_batches(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("processes", [1, 2, 3])
def test_a_step_does_not_depend_on_its_division(results, processes: int, name: str) -> None:
    expected = results[1][f"{name} 1"]
    learnt = expected["model_state_dict"]
    start = make_network().state_dict()
    assert not torch.equal(learnt["frame_output.weight"], start["frame_output.weight"])
    for step_interval in (1, 2):
        result = results[processes][f"{name} {step_interval}"]
        # The weights of mixed clips are numbers of float32.
        torch.testing.assert_close(result["model_state_dict"], learnt, rtol=0, atol=TOLERANCE)
        assert result["losses"] == pytest.approx(expected["losses"], rel=1e-7)
