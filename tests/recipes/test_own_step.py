"""A user's training step, in a file next to the recipe, by documented interfaces alone."""

import pytest
import torch

from tests.recipes.resuming import assert_resumes_exactly
from tests.steps_shown import shown_files

CONFIG = """
own < normed
network.training_step = 'mean_teacher.MeanTeacher'
network.max_epochs = 2
network.checkpoint_interval_steps = 2
network.print_interval = 1
teacher.decay = 0.8
"""

FAULTY = """
import torch

from asdf.training.steps import TrainingStep


class Forgetful(TrainingStep):
    taken = 0

    def compute_gradient(self, window):
        self.taken += 1
        window.set_gradient((1 / self.taken) * window.gradient())


class Idle(TrainingStep):
    def compute_gradient(self, window):
        pass


class Twice(TrainingStep):
    def compute_gradient(self, window):
        window.backward()
        window.backward()


class Forgotten(TrainingStep):
    keeps_minibatches = False

    def compute_gradient(self, window):
        slope = window.gradient()
        with window.moved(slope):
            window.backward()


class Wrong(TrainingStep):
    def compute_gradient(self, window):
        window.gradeint()


class Parts(TrainingStep):
    divides_window = True

    def compute_gradient(self, window):
        window.backward(of=window.labels == 2)


class Curved(TrainingStep):
    needs_curvature = True

    def compute_gradient(self, window):
        window.backward()


class Undeclared(TrainingStep):
    def compute_gradient(self, window):
        window.backward(of=window.labels == window.labels[0])


class Full(TrainingStep):
    def compute_gradient(self, window):
        window.backward()

    def state(self):
        return {"self": self}
"""


@pytest.fixture
def own(recipe):
    teacher = shown_files()["mean_teacher"]
    return recipe.with_files(CONFIG, mean_teacher=teacher, my_steps=FAULTY)


@pytest.mark.slow
@pytest.mark.parametrize(("kill", "processes"), [("0:5", 1), ("1:5", 2)])
def test_a_killed_run_ends_as_one_never_killed(own, kill, processes):
    assert_resumes_exactly(own, "own", processes=processes, TEST_KILL=kill)


@pytest.mark.parametrize(
    ("step", "status", "problem"),
    [
        ("my_steps.Forgetfull", 2, "Did you mean 'Forgetful'?"),
        ("my_steps.Forgetful", 2, "restored from its saved state, training does not continue"),
        ("my_steps.Idle", 1, "made no pass. It must call"),
        ("my_steps.Twice", 1, "the weights still have the gradient of an earlier pass"),
        ("my_steps.Forgotten", 1, "= False, a training step may read its minibatches only"),
        ("my_steps.Wrong", 1, "'StepWindow' object has no attribute 'gradeint' ("),
        ("my_steps.Parts", 1, "chooses 0 utterances"),
        ("my_steps.Undeclared network.loss=supervised_contrastive", 1, "divides_window = True in"),
        ("my_steps.Full", 2, "a checkpoint cannot hold what state() returns"),
        ("my_steps.Curved computing.compile=True", 2, "set computing.compile = False"),
        ("my_steps.Parts network.loss=supervised_contrastive", 2, "needs whole steps: choose ano"),
        ("plane", 2, "the nearest is 'plain'"),
    ],
)
def test_a_dry_run_refuses_what_does_not_fit(own, capsys, step, status, problem):
    words = f"network.training_step={step}".split()
    outcome = own.call(capsys, "own", *words, "--dry-run")
    outcome.refused(problem, status=status)
    assert not own.system("normed").exists()


def test_a_step_that_comes_later_begins_at_the_weights_trained_so_far(own, capsys):
    words = ("own", "recipe.end_stage=1")
    own.call(capsys, *words, "network.training_step=plain", "network.max_epochs=1").ok()
    learnt = own.load("epoch.1", "normed")
    outcome = own.call(capsys, *words, "teacher.decay=1.0").ok()
    assert "no state of MeanTeacher" in outcome.output, outcome.output
    later = own.load("epoch.2", "normed")
    teacher = later["training_step"]["state"]["teacher"]
    # It does not move, so it is what the plain steps left.
    for name in ("convolution.weight", "output.weight"):
        assert torch.equal(teacher[name], learnt["model_state_dict"][name])
        assert not torch.equal(teacher[name], later["model_state_dict"][name])
    # A damaged state is refused in one message.
    torch.save({**later, "training_step": [1]}, own.system("normed") / "networks" / "epoch.2.pt")
    outcome = own.call(capsys, *words, "network.max_epochs=3")
    outcome.refused("'training_step' is damaged", status=1)


NETWORK = """
import torch
from torch import nn

from asdf.networks import DetectorNetwork


class OnlyScores(DetectorNetwork):
    def __init__(self, settings):
        super().__init__(settings)
        self.output = nn.Linear(400, 2)

    def forward(self, waveforms_BT):
        if self.training:
            waveforms_BT = waveforms_BT.mixed()
        embeddings_BE = waveforms_BT[:, :400]
        return embeddings_BE, self.output(embeddings_BE)
"""


def test_a_dry_run_tries_the_forward_of_training(own, capsys):
    own.call(capsys, "own", "--dry-run").ok()
    assert not own.system("normed").exists()
    (own.folder / "only_scores.py").write_text(NETWORK)
    words = ("network.network_class=only_scores.OnlyScores", "network.training_step=plain")
    outcome = own.call(capsys, "own", *words, "--dry-run")
    outcome.refused("'Tensor' object has no attribute 'mixed'", status=1)
