"""Attentive statistics pooling is its formula."""

from __future__ import annotations

import torch

from asdf.networks import ASPBackEnd


def test_attentive_statistics_are_their_formula():
    torch.manual_seed(0)
    back_end = ASPBackEnd(6, 5)
    x = torch.randn(2, 9, 6)
    embeddings, logits = back_end(x)
    for row in range(2):
        scores = back_end.attention(x[row]).flatten()
        weights = scores.exp() / scores.exp().sum()
        mean = weights @ x[row]
        deviation = (weights @ (x[row] - mean) ** 2).sqrt()
        expected = torch.cat([mean, deviation])
        torch.testing.assert_close(embeddings[row], expected, atol=1e-5, rtol=0)
        torch.testing.assert_close(logits[row], back_end.output(embeddings[row]))
    assert torch.isfinite(back_end(x[:, :1])[0]).all()
