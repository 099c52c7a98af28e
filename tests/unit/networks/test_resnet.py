"""ResNet-18 equals the authors' code without the noise that it adds."""

from __future__ import annotations

import torch

from asdf.networks import ResNet18BackEnd
from tests.unit.networks.official import load_drawn, official_case


def test_it_scores_as_the_official_code():
    """On LFCCs of 60 values, as published."""
    case = official_case("resnet18")
    back_end = ResNet18BackEnd(60, 0, 256).eval()
    load_drawn(back_end, case.state)
    with torch.no_grad():
        embeddings, logits = back_end(case.inputs)
    expected = case.outputs["embeddings"]
    torch.testing.assert_close(embeddings[:, :16], expected, atol=1e-3, rtol=1e-4)
    torch.testing.assert_close(logits, case.outputs["logits"], atol=1e-3, rtol=1e-4)
