"""The losses by hand, by torch, and by what other systems' code computes (losses.npz)."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from asdf.errors import UsageError
from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections
from asdf.training.losses import (
    AAMSoftmax,
    AMSoftmax,
    CrossEntropy,
    Focal,
    LikelihoodRatio,
    Loss,
    OCSoftmax,
    P2SGrad,
    SupervisedContrastive,
    Targets,
)
from asdf.training.losses.loss import contrast
from asdf.training.losses.loss_building import build_loss
from tests.conftest import ROOT
from tests.small_networks import Plain
from tests.unit.conftest import network_settings
from tests.unit.training.losses.test_building import LIST

LOGITS = torch.tensor([[2.0, -1.0], [0.5, 0.25], [-3.0, 4.0]])
LABELS = torch.tensor([0, 1, 0])
EMBEDDINGS = torch.zeros(3, 0)


def weighted(**values) -> Sections:
    settings = Sections()
    settings.network.class_weights = (0.1, 0.9)
    for name, value in values.items():
        setattr(settings.loss, name, value)
    return settings


def test_class_weights_multiply_the_values_and_sum_up_in_the_normaliser() -> None:
    loss = CrossEntropy(weighted(), 0)
    values = loss.of_minibatch(Outputs(EMBEDDINGS, LOGITS), Targets(LABELS))
    expected = F.cross_entropy(LOGITS, LABELS, torch.tensor([0.1, 0.9]), reduction="none")
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-7)
    assert math.isclose(loss.normaliser(LABELS), 1.1)


def test_label_smoothing_is_a_mixture_of_both_classes() -> None:
    loss = CrossEntropy(weighted(label_smoothing=0.2), 0)
    values = loss.per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    true = -LOGITS.log_softmax(1).gather(1, LABELS[:, None])[:, 0]
    other = -LOGITS.log_softmax(1).gather(1, 1 - LABELS[:, None])[:, 0]
    torch.testing.assert_close(values, 0.9 * true + 0.1 * other)


def test_focal_loss_is_the_formula() -> None:
    values = Focal(weighted(focal_gamma=1.5), 0).per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    for logits, label, value in zip(LOGITS.tolist(), LABELS.tolist(), values.tolist(), strict=True):
        difference = logits[label] - logits[1 - label]
        p = 1 / (1 + math.exp(-difference))
        assert math.isclose(value, -((1 - p) ** 1.5) * math.log(p), rel_tol=1e-5)


def test_focal_loss_of_gamma_0_is_cross_entropy() -> None:
    focal = Focal(weighted(focal_gamma=0.0), 0).per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    torch.testing.assert_close(focal, F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_likelihood_ratios_are_without_the_weighted_priors() -> None:
    loss = LikelihoodRatio(weighted(), 0)
    loss.begin_training(torch.tensor([0] * 90 + [1] * 30))
    scored = loss.logits(EMBEDDINGS, LOGITS)
    ratios = scored[:, 1] - scored[:, 0]
    # 30 bona fide utterances of weight 0.9, and 90 spoofs of weight 0.1.
    expected = LOGITS[:, 1] - LOGITS[:, 0] - math.log((30 * 0.9) / (90 * 0.1))
    torch.testing.assert_close(ratios, expected)
    learnt = loss.per_utterance(EMBEDDINGS, scored, LABELS, {})
    torch.testing.assert_close(learnt, F.cross_entropy(LOGITS, LABELS, reduction="none"))
    assert list(loss.state_dict()) == ["log_priors_2"]


REFERENCE = dict(np.load(ROOT / "tests" / "fixtures" / "losses.npz"))
REFERENCE_LABELS = torch.from_numpy(REFERENCE["labels"]).long()
CASES = {
    "am_softmax_scale32_margin02": (AMSoftmax, {"scale": 32.0, "margin": 0.2}),
    "am_softmax_scale20_margin09": (AMSoftmax, {"scale": 20.0, "margin": 0.9}),
    "aam_softmax_scale32_margin02": (AAMSoftmax, {"scale": 32.0, "margin": 0.2}),
    "p2sgrad_mse": (P2SGrad, {}),
    "oc_softmax_09_02_20": (OCSoftmax, {}),
}


def make(kind: type[Loss], dimension: int = 16, **values) -> Loss:
    settings = Sections()
    for name, value in values.items():
        setattr(settings.loss, name, value)
    return kind(settings, dimension)


def close(actual: torch.Tensor, name: str) -> None:
    expected = torch.from_numpy(np.asarray(REFERENCE[name]))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_reference(name: str) -> None:
    kind, values = CASES[name]
    loss = make(kind, **values)
    embeddings = torch.from_numpy(REFERENCE["embeddings"]).requires_grad_()
    is_one_class = kind is OCSoftmax
    weight = loss.weight_1E if is_one_class else loss.weight_2E
    reference = REFERENCE["oc_weight"].T if is_one_class else REFERENCE["weight"]
    weight.data.copy_(torch.from_numpy(reference))
    logits = loss.logits(embeddings, torch.zeros(12, 2))
    losses = loss.per_utterance(embeddings, logits, REFERENCE_LABELS, {})
    losses.mean().backward()
    close(losses.mean().detach(), f"{name}_loss")
    close(embeddings.grad, f"{name}_grad_embeddings")
    close(weight.grad.T if is_one_class else weight.grad, f"{name}_grad_weight")
    if is_one_class:
        close(logits[:, 1].detach(), "oc_softmax_scores")


def test_the_margin_rises_by_the_epoch() -> None:
    loss = make(AMSoftmax, margin=0.4, margin_warmup_epochs=2.0)
    margins = []
    for epochs in (0.0, 0.5, 1.5, 2.0, 7.25):
        loss.begin_step(epochs)
        margins.append(round(float(loss.margin), 6))
    assert margins == [0.0, 0.1, 0.3, 0.4, 0.4]
    assert list(loss.state_dict()) == ["weight_2E"]


def test_angles_with_a_margin_are_those_of_the_definition() -> None:
    angles = torch.tensor([0.3, 1.2, 2.0, 2.8])
    cosines = torch.stack([angles.cos(), -angles.cos()], dim=1)
    margin = 0.5
    expected = torch.where(
        angles + margin < np.pi, (angles + margin).cos(), angles.cos() - 1 + np.cos(margin)
    )
    actual = make(AAMSoftmax, margin=margin).harder(cosines)[:, 0]
    torch.testing.assert_close(actual, expected)


def test_an_embedding_on_its_vector_has_a_finite_gradient() -> None:
    loss = make(AAMSoftmax, dimension=3)
    embeddings = loss.weight_2E.detach().clone().requires_grad_()
    logits = loss.logits(embeddings, torch.zeros(2, 2))
    loss.per_utterance(embeddings, logits, torch.arange(2), {}).sum().backward()
    assert embeddings.grad.isfinite().all() and loss.weight_2E.grad.isfinite().all()


def test_cosines_are_of_32_bits_under_autocast() -> None:
    loss = make(OCSoftmax, dimension=4)
    with torch.autocast("cpu", torch.bfloat16):
        logits = loss.logits(torch.randn(2, 4).bfloat16(), torch.zeros(2, 2))
    assert logits.dtype == torch.float32


ROWS = torch.randn(7, 4, dtype=torch.double, generator=torch.Generator().manual_seed(2))
CLASSES = torch.tensor([0, 1, 0, 0, 1, 1, 0])


def by_hand(embeddings: list[list[float]], labels: list[int], temperature: float) -> list[float]:
    """Equation 2 of Khosla et al., without tensors."""

    def cosine(i: int, j: int) -> float:
        product = sum(a * b for a, b in zip(embeddings[i], embeddings[j], strict=True))
        return product / math.hypot(*embeddings[i]) / math.hypot(*embeddings[j])

    losses = []
    for i, label in enumerate(labels):
        others = [j for j in range(len(labels)) if j != i]
        total = sum(math.exp(cosine(i, j) / temperature) for j in others)
        positives = [j for j in others if labels[j] == label]
        logs = [math.log(math.exp(cosine(i, j) / temperature) / total) for j in positives]
        losses.append(-sum(logs) / len(logs) if logs else 0.0)
    return losses


@pytest.mark.parametrize("temperature", [0.07, 0.5])
def test_it_is_the_formula(temperature: float) -> None:
    losses = contrast(ROWS, CLASSES, temperature)
    expected = by_hand(ROWS.tolist(), CLASSES.tolist(), temperature)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.double))


def test_gradients_are_those_of_the_formula() -> None:
    embeddings = ROWS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: contrast(e, CLASSES, 0.2), embeddings)


def test_the_only_utterance_of_its_class_has_no_contrast() -> None:
    embeddings = ROWS[:3].clone().requires_grad_()
    losses = contrast(embeddings, torch.tensor([0, 1, 0]), 0.1)
    assert losses[1] == 0 and losses[0] > 0
    losses.sum().backward()
    assert embeddings.grad.isfinite().all()
    # One utterance alone, as the last of an epoch.
    alone = ROWS[:1].clone().requires_grad_()
    losses = contrast(alone, CLASSES[:1], 0.1)
    losses.sum().backward()
    assert losses.tolist() == [0.0] and alone.grad.tolist() == [[0.0] * 4]


def test_cross_entropy_is_added() -> None:
    settings = Sections()
    settings.loss.contrastive_temperature = 0.3
    settings.loss.contrastive_weight = 0.25
    loss = SupervisedContrastive(settings, 4)
    logits = torch.tensor([[0.0, 1.0]] * 7)
    values = loss.per_utterance(ROWS, logits, CLASSES, {})
    entropies = torch.nn.functional.cross_entropy(logits, CLASSES, reduction="none")
    expected = entropies + 0.25 * contrast(ROWS, CLASSES, 0.3)
    torch.testing.assert_close(values, expected)
    assert not loss.gives_logits and not loss.state_dict()


@pytest.mark.parametrize("setting", ["compile", "cuda_graphs"])
def test_two_passes_are_neither_compiled_nor_captured(setting: str) -> None:
    settings = network_settings(loss="supervised_contrastive", train_clip_size=4000)
    setattr(settings.computing, setting, True)
    with pytest.raises(UsageError, match=f"cannot be combined with computing.{setting}"):
        build_loss(Plain(settings), LIST, settings)
