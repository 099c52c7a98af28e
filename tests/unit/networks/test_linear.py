"""The mean and a linear layer are their formula."""

from __future__ import annotations

import torch

from asdf.networks import LinearBackEnd


def test_it_is_the_mean_and_a_linear_layer():
    torch.manual_seed(0)
    back_end = LinearBackEnd(6)
    features = torch.randn(2, 9, 6)
    embeddings, logits = back_end(features)
    torch.testing.assert_close(embeddings, features.sum(dim=1) / 9)
    weight, bias = back_end.proj_fc.weight, back_end.proj_fc.bias
    torch.testing.assert_close(logits, embeddings @ weight.T + bias)
    assert list(back_end.state_dict()) == ["proj_fc.weight", "proj_fc.bias"]
