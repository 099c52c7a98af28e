"""Cross-entropy, focal loss and likelihood ratios, by hand and by torch."""

import math

import torch
from torch.nn import functional as F

from asdf.networks.interface import Outputs
from asdf.settings.sections import Sections
from asdf.training.losses import CrossEntropy, Focal, LikelihoodRatio, Targets

LOGITS = torch.tensor([[2.0, -1.0], [0.5, 0.25], [-3.0, 4.0]])
LABELS = torch.tensor([0, 1, 0])
EMBEDDINGS = torch.zeros(3, 0)


def settings_of(**values) -> Sections:
    settings = Sections()
    settings.network.class_weights = (0.1, 0.9)
    for name, value in values.items():
        setattr(settings.loss, name, value)
    return settings


def test_class_weights_multiply_the_values_and_sum_up_in_the_normaliser() -> None:
    loss = CrossEntropy(settings_of(), 0)
    values = loss.of_minibatch(Outputs(EMBEDDINGS, LOGITS), Targets(LABELS))
    expected = F.cross_entropy(LOGITS, LABELS, torch.tensor([0.1, 0.9]), reduction="none")
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-7)
    assert math.isclose(loss.normaliser(LABELS), 1.1)


def test_label_smoothing_is_a_mixture_of_both_classes() -> None:
    loss = CrossEntropy(settings_of(label_smoothing=0.2), 0)
    values = loss.per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    true = -LOGITS.log_softmax(1).gather(1, LABELS[:, None])[:, 0]
    other = -LOGITS.log_softmax(1).gather(1, 1 - LABELS[:, None])[:, 0]
    torch.testing.assert_close(values, 0.9 * true + 0.1 * other)


def test_focal_loss_is_the_formula() -> None:
    values = Focal(settings_of(focal_gamma=1.5), 0).per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    for logits, label, value in zip(LOGITS.tolist(), LABELS.tolist(), values.tolist(), strict=True):
        difference = logits[label] - logits[1 - label]
        p = 1 / (1 + math.exp(-difference))
        assert math.isclose(value, -((1 - p) ** 1.5) * math.log(p), rel_tol=1e-5)


def test_focal_loss_of_gamma_0_is_cross_entropy() -> None:
    focal = Focal(settings_of(focal_gamma=0.0), 0).per_utterance(EMBEDDINGS, LOGITS, LABELS, {})
    torch.testing.assert_close(focal, F.cross_entropy(LOGITS, LABELS, reduction="none"))


def test_likelihood_ratios_are_without_the_weighted_priors() -> None:
    loss = LikelihoodRatio(settings_of(), 0)
    loss.begin_training(torch.tensor([0] * 90 + [1] * 30))
    scored = loss.logits(EMBEDDINGS, LOGITS)
    ratios = scored[:, 1] - scored[:, 0]
    # 30 bona fide utterances of weight 0.9, and 90 spoofs of weight 0.1.
    expected = LOGITS[:, 1] - LOGITS[:, 0] - math.log((30 * 0.9) / (90 * 0.1))
    torch.testing.assert_close(ratios, expected)
    learnt = loss.per_utterance(EMBEDDINGS, scored, LABELS, {})
    torch.testing.assert_close(learnt, F.cross_entropy(LOGITS, LABELS, reduction="none"))
    assert list(loss.state_dict()) == ["log_priors_2"]
