"""The supervised contrastive loss is the formula of its paper, summed one by one."""

import math

import pytest
import torch

from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.training.losses import SupervisedContrastive
from asdf.training.losses.detection_losses import contrast
from asdf.training.losses.loss_building import build_loss
from tests.small_networks import Plain
from tests.unit.conftest import network_settings
from tests.unit.training.losses.test_building import LIST

EMBEDDINGS = torch.randn(7, 4, dtype=torch.double, generator=torch.Generator().manual_seed(2))
LABELS = torch.tensor([0, 1, 0, 0, 1, 1, 0])


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
    losses = contrast(EMBEDDINGS, LABELS, temperature)
    expected = by_hand(EMBEDDINGS.tolist(), LABELS.tolist(), temperature)
    torch.testing.assert_close(losses, torch.tensor(expected, dtype=torch.double))


def test_gradients_are_those_of_the_formula() -> None:
    embeddings = EMBEDDINGS.clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda e: contrast(e, LABELS, 0.2), embeddings)


def test_the_only_utterance_of_its_class_has_no_contrast() -> None:
    embeddings = EMBEDDINGS[:3].clone().requires_grad_()
    losses = contrast(embeddings, torch.tensor([0, 1, 0]), 0.1)
    assert losses[1] == 0 and losses[0] > 0
    losses.sum().backward()
    assert embeddings.grad.isfinite().all()
    # One utterance alone, as the last of an epoch.
    alone = EMBEDDINGS[:1].clone().requires_grad_()
    losses = contrast(alone, LABELS[:1], 0.1)
    losses.sum().backward()
    assert losses.tolist() == [0.0] and alone.grad.tolist() == [[0.0] * 4]


def test_cross_entropy_is_added() -> None:
    settings = Sections()
    settings.loss.contrastive_temperature = 0.3
    settings.loss.contrastive_weight = 0.25
    loss = SupervisedContrastive(settings, 4)
    logits = torch.tensor([[0.0, 1.0]] * 7)
    values = loss.per_utterance(EMBEDDINGS, logits, LABELS, {})
    entropies = torch.nn.functional.cross_entropy(logits, LABELS, reduction="none")
    expected = entropies + 0.25 * contrast(EMBEDDINGS, LABELS, 0.3)
    torch.testing.assert_close(values, expected)
    assert not loss.gives_logits and not loss.state_dict()


@pytest.mark.parametrize("setting", ["compile", "cuda_graphs"])
def test_two_passes_are_neither_compiled_nor_captured(setting: str) -> None:
    settings = network_settings(loss="supervised_contrastive", train_clip_size=4000)
    setattr(settings.computing, setting, True)
    with pytest.raises(UsageError, match=f"cannot be combined with computing.{setting}"):
        build_loss(Plain(settings), LIST, settings)
