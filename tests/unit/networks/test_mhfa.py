"""Multi-head factorised attentive pooling is its formula."""

from __future__ import annotations

import torch

from asdf.networks import MHFABackEnd


def sum_layers(states, weights):
    """Add up the layers, each times its share by a softmax of `weights`."""
    shares = weights.exp() / weights.exp().sum()
    total = torch.zeros_like(states[0])
    for weight, state in zip(shares, states, strict=True):
        total = total + weight * state
    return total


def test_mhfa_is_its_formula():
    torch.manual_seed(0)
    states = [torch.randn(2, 9, 6) for _ in range(3)]
    back_end = MHFABackEnd(6, 3, heads=4, compression=5, embedding=7)
    back_end.weights_k.data = torch.tensor([0.3, -1.0, 2.0])
    back_end.weights_v.data = torch.tensor([1.0, 0.0, -0.5])
    keys = back_end.cmp_linear_k(sum_layers(states, back_end.weights_k))
    values = back_end.cmp_linear_v(sum_layers(states, back_end.weights_v))
    scores = back_end.att_head(keys).exp()
    heads = []
    for head in range(4):
        score = scores[:, :, head]
        attention = score / score.sum(dim=1, keepdim=True)
        heads.append((attention[:, :, None] * values).sum(dim=1))
    embeddings, logits = back_end(states)
    torch.testing.assert_close(
        embeddings, back_end.pooling_fc(torch.cat(heads, dim=1)), atol=1e-5, rtol=0
    )
    torch.testing.assert_close(logits, back_end.output(embeddings))
