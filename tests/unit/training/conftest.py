"""Training in this process, of a small network on recordings of noise."""

import numpy as np
import pytest
import torch

from asdf.checkpoint.network_reading import fill_network
from asdf.data.batches import Batch
from asdf.data.datasets import TrainingClips
from asdf.data.loaders import BatchLoader
from asdf.data.training_plan import Window
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.runs.evaluations import ValidationResult, read_evaluations
from asdf.runs.layout import Layout
from asdf.training.callback_group import CallbackGroup, MetricsFile
from asdf.training.callbacks import Callback
from asdf.training.checkpoints import read_checkpoint
from asdf.training.loop import Trainer
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from tests.recordings import noise_waveforms, write_recordings
from tests.small_networks import Plain
from tests.unit.conftest import network_settings

SIZE = 10  # five steps an epoch


def validated(left: list[float]) -> ValidationResult | None:
    return ValidationResult({"dev": left.pop(0)}) if left else None


class StopAfter(StopRequest):
    """A signal that arrives while the step of this number is taken."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps_left = steps

    def __bool__(self) -> bool:
        self.steps_left -= 1
        self.reason = "" if self.steps_left > 0 else "signal SIGTERM"
        return bool(self.reason)


class Witness(Callback):
    def __init__(self, settings, folder):
        super().__init__(settings, folder)
        self.seen = []

    def on_start(self, step):
        self.seen.append(("start", step))

    def on_step(self, record):
        self.seen.append(("step", record["step"]))

    def on_evaluation(self, record):
        self.seen.append(("evaluation", record["step"]))

    def on_checkpoint(self, path):
        self.seen.append(("checkpoint", path.name))

    def on_end(self, record):
        self.seen.append(("end", record["reason"]))


def run_training(
    network,
    utterances,
    lengths,
    settings,
    folder,
    *,
    start="",
    stop=None,
    callbacks=(),
    watched=(),
    validate=lambda *_: {},
    loader=None,
    sampler=None,
) -> Trainer:
    """Train a network on recordings of `lengths` from `start` on, in the system `folder`."""
    step = Step(
        network, utterances, settings, World(), from_features=settings.front_end.cache_features
    )
    trainer = Trainer(
        step,
        loader=loader or clip_loader(utterances, lengths, settings),
        layout=Layout(folder),
        validate=validate,
        stop=stop if stop is not None else StopRequest(),
        callbacks=CallbackGroup(callbacks, watched, World()),
        sampler=sampler,
    )
    if start:
        checkpoint = read_checkpoint(folder / "networks" / start)
        fill_network(step.network, checkpoint)
        trainer.resume(checkpoint, read_evaluations(Layout(folder)))
    trainer.run()
    return trainer


# With these, the weights change by the gradient.
BY_GRADIENT = {
    "optimizer": "sgd",
    "schedule": "constant",
    "initial_learning_rate": 1.0,
    "weight_decay": 0.0,
    "class_weights": (0.1, 0.9),
}


def step_and_gradient(step: Step, window: Window, waveforms, progress=None):
    """Take a step with `BY_GRADIENT`; return the gradient and the result of the step."""
    before = {name: weight.clone() for name, weight in step.network.state_dict().items()}
    clips = (Batch(waveforms[torch.from_numpy(share.utterances)]) for share in window.shares)
    taken = step.take(window, clips, progress or Progress(), [])
    after = step.network.state_dict()
    return {name: before[name] - after[name] for name in before}, taken


def clip_loader(utterances, lengths, settings) -> BatchLoader:
    size, position = settings.network.train_clip_size, settings.network.clip_position
    clips = TrainingClips(
        utterances, lengths, size, settings.rawboost, settings.sad, 0, position=position
    )
    return BatchLoader(clips, 0, World())


@pytest.fixture
def utterances(tmp_path):
    return write_recordings(tmp_path, noise_waveforms([500] * SIZE))


@pytest.fixture
def train(utterances, tmp_path):
    """Train with these EERs one by one, going on from `start`; return trainer and witness."""

    def train(
        eers=(),
        start: str = "",
        stop: StopRequest | None = None,
        evaluate=None,
        callbacks=(),
        kind=Plain,
        profile_steps=None,
        **network,
    ):
        chosen = {
            "optimizer": "adam",
            "initial_learning_rate": 0.001,
            "schedule": "constant",
            "minibatch_size": 2,
            "train_clip_size": 400,
            "checkpoint_interval_s": None,
            "print_interval": 3,
            **network,
        }
        settings = network_settings(**chosen)
        settings.computing.profile_steps = profile_steps
        torch.manual_seed(0)
        left, witness = list(eers), Witness(settings, tmp_path)
        trainer = run_training(
            kind(settings),
            utterances,
            np.full(SIZE, 500),
            settings,
            tmp_path,
            start=start,
            stop=stop,
            callbacks=[MetricsFile(settings, tmp_path), *callbacks],
            watched=[witness],
            validate=evaluate or (lambda network, name: validated(left)),
        )
        return trainer, witness.seen

    return train
