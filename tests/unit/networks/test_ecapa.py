"""ECAPA-TDNN equals a widely used implementation, and has the paper's sizes."""

from __future__ import annotations

import pytest
import torch

from asdf.networks import ECAPABackEnd
from asdf.networks.back_ends.ecapa import NormOfPooled
from asdf.settings.sections import BackEnd as BackEndSettings
from tests.unit.networks.inspection import count_parameters
from tests.unit.networks.official import load_drawn, official_case

NAMES = {
    "layer1": "blocks.0",
    "layer2": "blocks.1",
    "layer3": "blocks.2",
    "layer4": "aggregation",
    "attention": "pooling.attention",
}


def test_it_computes_what_the_other_implementation_does():
    case = official_case("ecapa")
    sizes = BackEndSettings(ecapa_channels=32, ecapa_attention=256)
    back_end = ECAPABackEnd(80, sizes).eval()
    state = {}
    for name, tensor in case.state.items():
        module, _, layer = name.partition(".")
        state[f"{NAMES.get(module, module)}.{layer}"] = tensor
    state |= {f"output.{name}": tensor for name, tensor in back_end.output.state_dict().items()}
    load_drawn(back_end, state)
    with torch.no_grad():
        embeddings, logits = back_end(case.inputs)
    torch.testing.assert_close(embeddings, case.outputs["embeddings"], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(logits, back_end.output(embeddings))


@pytest.mark.parametrize(("channels", "millions"), [(512, 6.2), (1024, 14.7)])
def test_the_sizes_are_the_papers(channels, millions):
    """On 80 filter banks, without the output."""
    with torch.device("meta"):
        back_end = ECAPABackEnd(80, BackEndSettings(ecapa_channels=channels))
    parameters = count_parameters(back_end) - count_parameters(back_end.output)
    assert round(parameters / 1e6, 1) == millions


def test_one_utterance_can_be_trained_on():
    """A batch norm refuses one value per channel; a last minibatch may have one utterance."""
    back_end = ECAPABackEnd(12, BackEndSettings(ecapa_channels=16)).train()
    back_end(torch.randn(1, 9, 12))[1].square().sum().backward()
    assert back_end.bn5.weight.grad is not None
    norm = NormOfPooled(3)
    norm.running_mean.fill_(2.0)
    norm.train()
    torch.testing.assert_close(norm(torch.tensor([[2.0, 3.0, 4.0]])), torch.tensor([[0.0, 1, 2]]))
    assert torch.equal(norm.running_mean, torch.full((3,), 2.0))
