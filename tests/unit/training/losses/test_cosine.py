"""Losses of cosines against what other systems' code computes, with gradients (losses.npz)."""

import numpy as np
import pytest
import torch

from asdf.settings.sections import Sections
from asdf.training.losses import AAMSoftmax, AMSoftmax, Loss, OCSoftmax, P2SGrad
from tests.conftest import ROOT

REFERENCE = dict(np.load(ROOT / "tests" / "fixtures" / "losses.npz"))
LABELS = torch.from_numpy(REFERENCE["labels"]).long()
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
    losses = loss.per_utterance(embeddings, logits, LABELS, {})
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
