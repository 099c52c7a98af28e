"""Terms next to the detection loss: the means of a whole step, however the step is divided."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from asdf.data.batches import find_mixup
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.world import World
from asdf.networks.interface import Outputs
from asdf.training.captured_passes import tensors_of
from asdf.training.losses import Targets, TermTargets
from asdf.training.losses.loss import ClipKey, Term
from asdf.training.objective import Objective, TargetSource
from asdf.training.step import Step
from tests.unit.conftest import network_settings
from tests.unit.training.conftest import BY_GRADIENT, step_and_gradient
from tests.unit.training.test_step import LABELS, SIZE, UTTERANCES, WAVEFORMS, Net

# Of each utterance; those below 0 do not count.
AIMS = torch.linspace(-1, 1, SIZE)


class Aiming(Term):
    """Squared errors of the first embedding."""

    name = "aims"
    weight = 0.7

    def targets_of(self, keys: Sequence[ClipKey]) -> Tensor:
        return AIMS[[index for _, index in keys]]

    def counts(self, targets: Tensor) -> Tensor:
        return (targets >= 0).double()

    def per_utterance(self, outputs: Outputs, targets: Tensor) -> Tensor:
        errors = (outputs.embeddings[:, 0] - targets) ** 2
        return torch.where(targets >= 0, errors, 0.0)


def make(detection_weight: float = 1.0, mixup: float = 0.0, **network) -> Step:
    torch.manual_seed(0)
    settings = network_settings(**{**BY_GRADIENT, "train_clip_size": WAVEFORMS.shape[1], **network})
    settings.augmentation.mixup_probability = mixup
    step = Step(Net(), UTTERANCES, settings, World())
    step.objective = Objective(step.objective.loss, (Aiming(),), detection_weight)
    step.targets = TargetSource(UTTERANCES, step.objective, settings, World().device)
    return step


def take(step: Step, window: Window) -> tuple[dict[str, Tensor], float]:
    """Return the gradient of the step, by SGD with a rate of 1, and its loss."""
    gradient, taken = step_and_gradient(step, window, WAVEFORMS)
    return gradient, taken.loss


def expected(window: Window, detection_weight: float) -> tuple[dict[str, Tensor], float]:
    """The gradient of the two means over the whole window at once, in plain torch."""
    network = make().network
    chosen = torch.from_numpy(window.utterances)
    embeddings, logits = network(WAVEFORMS[chosen])
    labels = torch.from_numpy(LABELS).long()[chosen]
    entropy = F.cross_entropy(logits, labels, weight=torch.tensor([0.1, 0.9]))
    counted = AIMS[chosen] >= 0
    errors = (embeddings[:, 0] - AIMS[chosen])[counted] ** 2
    loss = detection_weight * entropy + 0.7 * errors.mean()
    loss.backward()
    gradients = {name: parameter.grad for name, parameter in network.named_parameters()}
    return gradients, float(loss.detach())


@pytest.mark.parametrize("detection_weight", [1.0, 0.25, 0.0])
@pytest.mark.parametrize("minibatch, interval", [(8, 1), (4, 2), (2, 4)])
def test_a_step_has_the_gradient_of_both_means(
    minibatch: int, interval: int, detection_weight: float
) -> None:
    window = next(TrainingPlan(SIZE, minibatch, interval).windows(1))
    gradient, loss = take(make(detection_weight), window)
    aims, value = expected(window, detection_weight)
    torch.testing.assert_close(gradient, aims, rtol=1e-5, atol=1e-6)
    assert loss == pytest.approx(value, rel=1e-6)


def test_a_joint_loss_has_terms_as_well() -> None:
    window = next(TrainingPlan(SIZE, 4, 2).windows(1))
    whole = next(TrainingPlan(SIZE, 8, 1).windows(1))
    joint, _ = take(make(loss="supervised_contrastive"), window)
    once, _ = take(make(loss="supervised_contrastive"), whole)
    without = make(loss="supervised_contrastive")
    without.objective = Objective(without.objective.loss)
    without.targets = TargetSource(UTTERANCES, without.objective, without.settings, World().device)
    torch.testing.assert_close(joint, once, rtol=1e-5, atol=1e-6)
    by_term = {}
    detection, _ = take(without, window)
    for name, gradient in joint.items():
        by_term[name] = gradient - detection[name]
    # The rest is the gradient of the term alone.
    torch.testing.assert_close(by_term, expected(window, 0.0)[0], rtol=1e-4, atol=1e-6)


def test_the_terms_of_mixed_clips_are_mixed() -> None:
    step = make(mixup=1.0)
    window = next(TrainingPlan(SIZE, 8).windows(1))
    weights = step.targets.weights(window.clip_keys())
    mixtures = find_mixup(step.settings, SIZE).draw_all(window.clip_keys())
    own = (AIMS[window.utterances] >= 0).double().numpy()
    others = (AIMS[mixtures.partners] >= 0).double().numpy()
    count = (mixtures.weights * own + (1 - mixtures.weights.astype(float)) * others).sum()
    assert weights.factors["aims"] == pytest.approx(0.7 * weights.normaliser / count)
    targets = step.targets.of_share(window.shares[0], weights)
    outputs = Outputs(torch.zeros(8, 5), torch.zeros(8, 2))
    values = Aiming().of_minibatch(outputs, targets)
    squares = torch.where(AIMS >= 0, AIMS**2, 0.0)
    share = torch.from_numpy(mixtures.weights)
    aims = share * squares[window.utterances] + (1 - share) * squares[mixtures.partners]
    torch.testing.assert_close(values, aims)


def test_a_step_in_which_nothing_counts_learns_by_the_detection_loss() -> None:
    step = make()
    nothing = [index for index in range(SIZE) if AIMS[index] < 0]
    window = next(TrainingPlan(len(nothing), len(nothing)).windows(1))
    weights = step.targets.weights(window.clip_keys())
    assert weights.factors == {"aims": 0.0} and weights.normaliser > 0


def test_a_graph_gets_the_targets_of_terms() -> None:
    values, factor = torch.rand(2, 3), torch.tensor(0.3, dtype=torch.float64)
    targets = Targets(torch.tensor([0, 1]), terms={"aims": TermTargets(values, factor)})
    mixed = replace(targets, partners=targets.first(2), weights_B=torch.rand(2))
    found = tensors_of(mixed)
    assert [*map(id, found[:4])] == [*map(id, (mixed.labels_B, values, factor, mixed.weights_B))]
    partner = mixed.partners
    aims = partner.terms["aims"]
    assert [*map(id, found[4:])] == [*map(id, (partner.labels_B, aims.values, aims.factor))]
