"""A step on mixed clips is that of the mean of mixed losses over its window, however divided."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from asdf.data.batches import Batch, Mixup, find_mixup
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections
from asdf.training.losses import CrossEntropy, OCSoftmax, Targets
from asdf.training.losses.loss_building import find_loss_class
from asdf.training.objective import StepWeights
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from tests.unit.training.conftest import BY_GRADIENT
from tests.unit.training.test_step import LABELS, SIZE, UTTERANCES, WAVEFORMS, Net

EPOCH = 3
CLASS_WEIGHTS = (0.1, 0.9)


def settings_of(**network) -> Sections:
    settings = Sections()
    settings.recipe.seed = 5
    settings.augmentation.mixup_probability = 0.7
    for name, value in {**BY_GRADIENT, **network}.items():
        setattr(settings.network, name, value)
    return settings


def make(settings: Sections) -> Step:
    torch.manual_seed(0)
    return Step(Net(), UTTERANCES, settings, World())


def mixed_waveforms(mixup: Mixup, keys: list[tuple[int, int]]) -> torch.Tensor:
    mixtures = mixup.draw_all(keys)
    weights = torch.from_numpy(mixtures.weights)[:, None]
    own = WAVEFORMS[[index for _, index in keys]]
    return weights * own + (1 - weights) * WAVEFORMS[mixtures.partners]


def first_window(plan: TrainingPlan) -> Window:
    return next(plan.windows(EPOCH))


def take(step: Step, plan: TrainingPlan, progress: Progress) -> dict[str, torch.Tensor]:
    """Take a step with SGD of rate 1: the weights change by the gradient."""
    mixup = find_mixup(step.settings, SIZE)
    before = {name: weight.clone() for name, weight in step.network.state_dict().items()}
    window = first_window(plan)
    clips = (Batch(mixed_waveforms(mixup, share.clip_keys())) for share in window.shares)
    step.take(window, clips, progress, [])
    return {name: before[name] - weight for name, weight in step.network.state_dict().items()}


def expected(settings: Sections, window: Window) -> tuple[float, float, dict[str, torch.Tensor]]:
    """By targets that are mixed, and by hand: sums of losses and of weights, and the gradient."""
    network = make(settings).network
    mixup = find_mixup(settings, SIZE)
    keys = [(EPOCH, index) for index in window.utterances.tolist()]
    mixtures = mixup.draw_all(keys)
    _, logits = network(mixed_waveforms(mixup, keys))
    log_probabilities = F.log_softmax(logits, 1)
    loss, total = torch.zeros(()), 0.0
    for row, (_, index) in enumerate(keys):
        shares = {index: mixtures.weights[row]}
        if mixtures.partners[row] != index:
            shares[mixtures.partners[row]] = 1 - mixtures.weights[row]
        for utterance, weight in shares.items():
            label = int(LABELS[utterance])
            loss = loss - weight * CLASS_WEIGHTS[label] * log_probabilities[row, label]
            total += weight * CLASS_WEIGHTS[label]
    (loss / total).backward()
    gradient = {name: parameter.grad for name, parameter in network.named_parameters()}
    return float(loss.detach()), total, gradient


@pytest.mark.parametrize(
    "plan",
    [
        TrainingPlan(SIZE, 11, seed=5),
        TrainingPlan(SIZE, 4, 3, seed=5),
        TrainingPlan(SIZE, 3, 4, seed=5),
        TrainingPlan(SIZE, 1, 11, seed=5),
    ],
)
def test_the_gradient_is_that_of_the_mixed_mean_over_the_window(plan: TrainingPlan) -> None:
    settings = settings_of()
    loss, weight, gradient = expected(settings, first_window(plan))
    progress = Progress()
    torch.testing.assert_close(take(make(settings), plan, progress), gradient, rtol=1e-5, atol=1e-6)
    assert progress.loss_sum == pytest.approx(loss, rel=1e-5)
    assert progress.weight_sum == pytest.approx(weight, rel=1e-6)


def test_without_mixed_clips_the_step_has_the_same_bits() -> None:
    plan = TrainingPlan(SIZE, 4, 2, seed=5)
    never = settings_of()
    never.augmentation.mixup_probability = 1e-12
    off = settings_of()
    off.augmentation.mixup_probability = 0.0
    window = first_window(plan)
    gradients = []
    for settings in (never, off):
        step = make(settings)
        clips = (Batch(WAVEFORMS[torch.from_numpy(share.utterances)]) for share in window.shares)
        step.take(window, clips, Progress(), [])
        gradients.append(step.network.state_dict())
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)


def test_a_loss_with_parameters_mixes_its_values() -> None:
    torch.manual_seed(1)
    loss = OCSoftmax(Sections(), 4)
    embeddings, labels, others = torch.randn(6, 4), torch.arange(6) % 2, torch.ones(6).long()
    outputs = Outputs(embeddings, loss.logits(embeddings, torch.zeros(6, 2)))
    weights = torch.linspace(0, 1, 6)
    targets = Targets(labels, partners=Targets(others), weights_B=weights)
    values = loss.of_minibatch(outputs, targets)
    first = loss.of_minibatch(outputs, Targets(labels))
    second = loss.of_minibatch(outputs, Targets(others))
    torch.testing.assert_close(values, weights * first + (1 - weights) * second)
    assert values[0] == second[0] and values[5] == first[5]


def test_a_denominator_is_the_mixed_sum_of_class_weights() -> None:
    loss = CrossEntropy(settings_of(), 0)
    labels = torch.tensor([0, 1, 1])
    partners = torch.tensor([1, 0, 1])
    mixed = loss.mixed_normaliser(labels, partners, torch.tensor([0.25, 0.5, 0.3]))
    assert mixed == pytest.approx(0.25 * 0.1 + 0.75 * 0.9 + 0.5 * 0.9 + 0.5 * 0.1 + 0.9)
    ones = torch.ones(3)
    assert loss.mixed_normaliser(labels, partners, ones) == pytest.approx(loss.normaliser(labels))


class Joint(CrossEntropy):
    is_joint = True


def test_a_loss_that_compares_utterances_refuses_mixup() -> None:
    settings = settings_of(loss=f"{__name__}.Joint")
    with pytest.raises(UsageError, match="compares utterances with each other"):
        find_loss_class(settings, None)
    settings.augmentation.mixup_probability = 0.0
    assert find_loss_class(settings, None) is Joint


def test_labels_and_clips_are_mixed_alike() -> None:
    """The loader's mixtures are those of the step: both follow from the keys."""
    settings = settings_of()
    step = make(settings)
    share = first_window(TrainingPlan(SIZE, 6, seed=5)).shares[0]
    mixtures = find_mixup(settings, SIZE).draw_all(share.clip_keys())
    targets = step.targets.of_share(share, StepWeights(1.0))
    assert targets.weights_B.tolist() == mixtures.weights.tolist()
    assert targets.partners.labels_B.tolist() == LABELS[mixtures.partners].tolist()
    assert 0 < np.count_nonzero(mixtures.weights < 1) < 6
