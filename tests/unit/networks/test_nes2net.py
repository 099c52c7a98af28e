"""Nes2Net-X equals the published network."""

from __future__ import annotations

import pytest
import torch

from asdf.checkpoint.base_weights import load_layers
from asdf.extras.zoo.layouts.importing import load_detector_weights
from asdf.networks import Nes2NetXBackEnd
from tests.unit.networks.conftest import build
from tests.unit.networks.inspection import count_parameters


@pytest.mark.parametrize(
    ("name", "pooling", "size"), [("mean", "mean", 512_039), ("astp", "attentive", 777_383)]
)
def test_nes2net_x_is_the_published_one(name, pooling, size, reference, recorded):
    back_end = Nes2NetXBackEnd(1024, pooling=pooling).eval()
    state = torch.load(reference(f"nes2net_x_{name}.pth"), weights_only=True, map_location="cpu")
    load_layers(back_end, state, name)
    expected = recorded(f"nes2net_x_{name}.npz")
    with torch.no_grad():
        _, logits = back_end(expected["features"].transpose(1, 2))
    torch.testing.assert_close(logits, expected["logits"], atol=1e-5, rtol=0)
    assert count_parameters(back_end) == size


def test_a_published_nes2net_x_checkpoint_loads(small, reference, tmp_path):
    small.front_end.weights = str(reference("fairseq_xlsr_like.pt"))
    small.back_end.nes2net_splits = (4, 2)
    network = build(small, "SSL_Nes2NetX")
    front_end = torch.load(reference("ssl_aasist.pth"), weights_only=True, map_location="cpu")
    state = {}
    for name, tensor in front_end.items():
        if name.startswith("ssl_model.model."):
            state[name] = tensor
    back_end = {}
    for name, tensor in network.back_end.state_dict().items():
        back_end[name] = torch.randn_like(tensor.float())
        state[f"Nested_Res2Net_TDNN.{name}"] = back_end[name]
    torch.save(state, tmp_path / "published.pth")
    load_detector_weights(network, tmp_path / "published.pth")
    assert torch.equal(network.back_end.fc.weight, back_end["fc.weight"])
    assert torch.equal(
        network.back_end.Build_in_Res2Nets[2].bns[0].bias,
        back_end["Build_in_Res2Nets.2.bns.0.bias"],
    )
