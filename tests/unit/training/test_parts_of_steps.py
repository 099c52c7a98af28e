"""Passes over parts of a step, and recordings without labels: means are over what counts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.training.step import Step
from asdf.training.steps import TrainingStep
from asdf.trials.trial_list import UNLABELLED, TrialList
from tests.unit.conftest import network_settings
from tests.unit.training.conftest import BY_GRADIENT, step_and_gradient
from tests.unit.training.test_step import LABELS, SIZE, WAVEFORMS, Net

WEIGHTS = torch.tensor([0.1, 0.9])
# Every third recording has no label.
KNOWN = np.arange(SIZE) % 3 > 0
WINDOW = next(TrainingPlan(SIZE, 4, 2).windows(1))
CHOSEN = torch.from_numpy(WINDOW.utterances)


class Whole(TrainingStep):
    takes_unlabelled = True

    def compute_gradient(self, window):
        window.backward()


class Shares(Whole):
    """The same by a loss of its own."""

    divides_window = True

    def compute_gradient(self, window):
        window.backward(loss=window.losses_of)


class Half(Whole):
    divides_window = True
    own = False

    def compute_gradient(self, window):
        first = np.arange(len(window)) < 5
        window.backward(of=first, loss=window.losses_of if self.own else None)


class HalfByShares(Half):
    own = True


class Clips(Whole):
    """Sets a gradient of zeros, and remembers that of the clips."""

    divides_window = True
    slopes: list[torch.Tensor]

    def compute_gradient(self, window):
        zero = 0.0 * window.gradient()
        Clips.slopes = [window.clip_gradient(part, part.clips) for part in window.minibatches]
        window.set_gradient(zero)


def take(kind: type[TrainingStep], labels: np.ndarray):
    """Return the gradient of a step, by SGD at a rate of 1, and its loss."""
    torch.manual_seed(0)
    named = f"{__name__}.{kind.__name__}"
    settings = network_settings(
        **BY_GRADIENT, training_step=named, train_clip_size=WAVEFORMS.shape[1]
    )
    utterances = TrialList([f"{i}.wav" for i in range(SIZE)], labels, name="some")
    step = Step(Net(), utterances, settings, World())
    gradient, taken = step_and_gradient(step, WINDOW, WAVEFORMS)
    return gradient, taken.loss


def expected(rows: np.ndarray):
    """The gradient of the weighted mean over some rows of the window, in plain torch."""
    torch.manual_seed(0)
    network = Net()
    chosen = CHOSEN[torch.from_numpy(np.flatnonzero(rows))]
    loss = F.cross_entropy(
        network(WAVEFORMS[chosen])[1], torch.from_numpy(LABELS).long()[chosen], WEIGHTS
    )
    loss.backward()
    return {name: value.grad for name, value in network.named_parameters()}, float(loss.detach())


def unlabelled() -> np.ndarray:
    return np.where(KNOWN, LABELS, UNLABELLED)


@pytest.mark.parametrize("kind", [Whole, Shares])
def test_recordings_without_labels_count_for_nothing_in_the_mean(kind):
    gradient, loss = take(kind, unlabelled())
    wanted, value = expected(KNOWN[WINDOW.utterances])
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-7)
    assert loss == pytest.approx(value, rel=1e-6)


def test_a_step_of_nothing_else_has_a_loss_of_zero():
    gradient, loss = take(Whole, np.full(SIZE, UNLABELLED))
    assert loss == 0.0 and not any(value.any() for value in gradient.values())


@pytest.mark.parametrize("kind", [Half, HalfByShares])
def test_a_pass_over_a_part_has_the_mean_of_that_part(kind):
    gradient, _ = take(kind, LABELS)
    wanted, _ = expected(np.arange(len(WINDOW.utterances)) < 5)
    torch.testing.assert_close(gradient, wanted, rtol=1e-5, atol=1e-7)


def test_the_gradient_of_clips_is_that_of_the_steps_mean():
    gradient, _ = take(Clips, LABELS)
    assert not any(value.any() for value in gradient.values())
    torch.manual_seed(0)
    clips = WAVEFORMS[CHOSEN].requires_grad_()
    labels = torch.from_numpy(LABELS).long()[CHOSEN]
    F.cross_entropy(Net()(clips)[1], labels, WEIGHTS).backward()
    torch.testing.assert_close(torch.cat(Clips.slopes), clips.grad, rtol=1e-5, atol=1e-8)
