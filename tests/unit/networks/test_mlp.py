"""The back end with a hidden layer is its formula, with standardised and clipped features."""

from __future__ import annotations

import torch

from asdf.networks import MLPBackEnd
from asdf.settings.sections import BackEnd


def make_back_end(dropout: float = 0.3) -> MLPBackEnd:
    torch.manual_seed(0)
    return MLPBackEnd(3, BackEnd(mlp_hidden=5, mlp_dropout=dropout))


def test_it_is_its_formula():
    back_end = make_back_end().eval()
    back_end.norm.running_mean.copy_(torch.tensor([1.0, 2.0, 3.0]))
    back_end.norm.running_var.copy_(torch.tensor([4.0, 9.0, 16.0]))
    features_BLC = torch.tensor([[[1.0, 2.0, 3.0], [3.0, 8.0, 3.0]], [[1000.0, -1000.0, 3.0]] * 2])
    embeddings, logits = back_end(features_BLC)
    # (2 - 1) / 2, (5 - 2) / 3, 0; and far from all of training: clipped to 4 deviations.
    standard = torch.tensor([[0.5, 1.0, 0.0], [4.0, -4.0, 0.0]])
    state = back_end.state_dict()
    expected = (standard @ state["hidden.weight"].T + state["hidden.bias"]).clamp(min=0)
    torch.testing.assert_close(embeddings, expected, atol=1e-4, rtol=1e-4)
    expected_logits = expected @ state["out_layer.weight"].T + state["out_layer.bias"]
    torch.testing.assert_close(logits, expected_logits, atol=1e-4, rtol=1e-4)


def test_training_standardises_by_the_minibatch():
    back_end = make_back_end(dropout=0.0).train()
    features_BLC = torch.randn(64, 1, 3) * 7 + 100
    embeddings, _ = back_end(features_BLC)
    x_BC = features_BLC[:, 0]
    standard = (x_BC - x_BC.mean(dim=0)) / x_BC.std(dim=0, unbiased=False)
    state = back_end.state_dict()
    expected = (standard @ state["hidden.weight"].T + state["hidden.bias"]).clamp(min=0)
    torch.testing.assert_close(embeddings, expected, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(state["norm.running_mean"], 0.1 * x_BC.mean(dim=0))
