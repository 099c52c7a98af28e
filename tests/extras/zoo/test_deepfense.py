"""DeepFense's AASIST: equal to the toolkit's code on features that tell its nodes apart."""

from __future__ import annotations

import pytest
import torch

from asdf.networks import DeepFenseAASISTBackEnd, DeepFenseMLPBackEnd
from tests.unit.networks.official import load_drawn, official_case


@pytest.mark.parametrize(("key", "frames"), [("logits", 50), ("short", 13)])
def test_aasist_scores_as_the_toolkit(key, frames):
    case = official_case("deepfense_aasist_features")
    back_end = DeepFenseAASISTBackEnd(16).eval()
    state = {}
    for name, tensor in case.state.items():
        ours = name.replace("losses.0.fc.", "out_layer.").removeprefix("backend.")
        state[ours] = tensor
    load_drawn(back_end, state)
    with torch.no_grad():
        embeddings, logits = back_end(case.inputs[:, :frames])
    assert embeddings.shape == (2, 160)
    # The largest logit is 365, and processors round differently.
    torch.testing.assert_close(logits, case.outputs[key], atol=2e-2, rtol=1e-5)


def test_mlp_is_its_layers_one_after_the_other():
    """A batch norm of frames, and another activation, by their formulas."""
    back_end = DeepFenseMLPBackEnd(4, (3,), "batch", "tanh").eval()
    linear, norm = back_end.projection_block[0], back_end.projection_block[1].bn
    norm.running_mean[:] = torch.tensor([0.1, 0.2, 0.3])
    norm.running_var[:] = torch.tensor([1.0, 4.0, 9.0])
    features = torch.randn(2, 5, 4)
    embeddings, logits = back_end(features)
    x = features @ linear.weight.T + linear.bias
    x = (x - norm.running_mean) / (norm.running_var + 1e-5).sqrt()
    torch.testing.assert_close(embeddings, x.tanh().mean(dim=1))
    torch.testing.assert_close(logits, embeddings @ back_end.fc.weight.T + back_end.fc.bias)
