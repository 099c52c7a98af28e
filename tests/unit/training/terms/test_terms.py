"""Terms next to the detection loss: means of a whole step, and what they may know and change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from asdf.data.batches import Batch, find_mixup
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.build import build_network
from asdf.networks.interface import Outputs
from asdf.report.drawing import course_lines, training_course
from asdf.training.graphs import tensors_of
from asdf.training.losses import Targets, TermTargets
from asdf.training.losses.loss import ClipKey, Term
from asdf.training.objective import Objective, TargetSource, check_needs
from asdf.training.step import Step
from asdf.training.training_progress import Progress
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


class Rising(Aiming):
    """Its weight is what is trained so far."""

    def begin_step(self, epochs: float) -> None:
        self.weight = epochs


class Seeing(Aiming):
    """Notes what it sees of the minibatches."""

    needs = ("clips", "features")

    def __init__(self) -> None:
        self.seen: list[dict[str, torch.Tensor]] = []

    def per_utterance(self, outputs, targets):
        self.seen.append(dict(outputs.extras))
        return super().per_utterance(outputs, targets)


def batches_of(window):
    return (Batch(WAVEFORMS[torch.from_numpy(share.utterances)]) for share in window.shares)


def with_term(step, term):
    step.objective = Objective(step.objective.loss, (term,))
    step.targets = TargetSource(UTTERANCES, step.objective, step.settings, World().device)
    return step


@pytest.mark.parametrize("minibatch, interval", [(4, 1), (2, 2)])
def test_the_mean_of_a_term_is_that_of_the_utterances_that_count(minibatch, interval):
    # At this rate the network stays what it is.
    step = make(initial_learning_rate=1e-30)
    progress = Progress()
    since = []
    for window in TrainingPlan(SIZE, minibatch, interval).windows(1):
        step.take(window, batches_of(window), progress, [])
        since.append((window.utterances, progress.terms_since_printed()))
    embeddings, _ = make().network(WAVEFORMS)
    errors = ((embeddings[:, 0] - AIMS) ** 2).detach().double()
    counted = AIMS >= 0
    assert progress.terms_of_epoch() == pytest.approx({"aims": float(errors[counted].mean())})
    for utterances, means in since:
        chosen = torch.from_numpy(utterances)
        values = errors[chosen][counted[chosen]]
        assert means == (pytest.approx({"aims": float(values.mean())}) if len(values) else {})
    again = Progress.from_state(progress.state())
    assert again.terms == progress.terms
    progress.begin_epoch()
    assert "terms" not in progress.state() and progress.terms_of_epoch() == {}


@pytest.mark.parametrize(
    "damage", [{"aims": [1.0]}, {"aims": "x"}, [1.0], {"aims": [1, 2, 3, "a"]}]
)
def test_damaged_sums_of_terms_are_refused(damage):
    with pytest.raises(ValueError, match="its terms is"):
        Progress.from_state({**Progress().state(), "terms": damage})


def test_the_weight_of_a_term_follows_the_epochs():
    window = next(iter(TrainingPlan(SIZE, 4, 2).windows(1)))
    slopes = {}
    for epochs in (0, 3):
        step = with_term(make(), Rising())
        before = {name: value.clone() for name, value in step.network.state_dict().items()}
        step.take(window, batches_of(window), Progress(epochs=epochs), [])
        after = step.network.state_dict()
        slopes[epochs] = {name: before[name] - after[name] for name in before}
    detection = expected(window, 1.0)[0]
    of_term = expected(window, 0.0)[0]
    for name in detection:
        # `expected` weighs the term by 0.7.
        alone = detection[name] - of_term[name]
        torch.testing.assert_close(slopes[0][name], alone, rtol=1e-4, atol=1e-6)
        whole = alone + 3 / 0.7 * of_term[name]
        torch.testing.assert_close(slopes[3][name], whole, rtol=1e-4, atol=1e-6)


def test_a_term_sees_the_clips_and_the_features():
    settings = network_settings(
        network_class="asdf.networks.ComposedDetector", train_clip_size=16_000
    )
    settings.front_end.front_end_class = "lfcc"
    settings.back_end.back_end_class = "linear"
    network = build_network(settings).train()
    term = Seeing()
    check_needs((term,), network, from_features=False)
    clips = 0.1 * torch.randn(2, 16_000)
    objective = Objective(make().objective.loss, (term,))
    outputs = objective.with_clips(network(clips), clips)
    assert outputs.extras["clips"] is clips
    torch.testing.assert_close(outputs.extras["features"], network.front_end(clips))
    # Scoring gives what it gave.
    assert not hasattr(network.eval()(clips), "extras")


def test_what_a_term_cannot_see_is_refused():
    with pytest.raises(UsageError, match="needs the features of a front end: derive Net from"):
        check_needs((Seeing(),), Net(), from_features=False)

    class Hearing(Aiming):
        needs = ("clips",)

    with pytest.raises(UsageError, match=r"set front_end.cache_features = False"):
        check_needs((Hearing(),), Net(), from_features=True)


def test_a_page_draws_the_terms():
    records = [
        {"kind": "step", "epoch": epoch, "loss": 1.0, "learning_rate": 0.1, "terms": {"aims": 2.0}}
        for epoch in (0.5, 1.0)
    ]
    records.append({"kind": "step", "epoch": 1.5, "terms": "broken"})
    course = training_course("run", records)
    assert course.terms == {"aims": [0.5, 2.0, 1.0, 2.0]}
    (line,) = course_lines([course], [course.terms["aims"]], "term:aims")
    assert line.points == [0.5, 2.0, 1.0, 2.0] and line.name == "run"
    assert course_lines([course], [[]], "term:others") == []
