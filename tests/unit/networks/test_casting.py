"""Weights that are cast together: autocast's numbers, and the layer is left as it was."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from asdf.networks import build_network, layers, residual_blocks, wav2vec2
from asdf.networks.casting import weights_cast_together
from asdf.settings.sections import Sections
from tests.unit.networks.inspection import gradients_by_name

CPU = torch.device("cpu")


class Casts(TorchDispatchMode):
    """Counts how often a tensor is cast, alone or with others."""

    def __init__(self) -> None:
        super().__init__()
        self.alone = self.together = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.alone += function is torch.ops.aten._to_copy.default
        self.together += function is torch.ops.aten._foreach_copy_.default
        return function(*args, **(kwargs or {}))


def gradients(network: nn.Module, waveforms: torch.Tensor) -> dict[str, torch.Tensor | None]:
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        _, logits = network(waveforms)
    logits.float().square().sum().backward()
    result = gradients_by_name(network)
    network.zero_grad(set_to_none=True)
    return {"logits": logits.detach(), **result}


@pytest.mark.parametrize(
    "choices",
    [
        {},
        {"gradient_checkpointing": True},
        {"frozen": True},
        {"architecture": "wavlm_base", "layer": 1},
    ],
    ids=lambda choices: " ".join(choices) or "plain",
)
def test_numbers_are_those_of_autocast(choices, monkeypatch):
    settings = Sections()
    settings.front_end.architecture = "tiny"
    for name, value in choices.items():
        setattr(settings.front_end, name, value)
    # For several parts of a minibatch, autocast adds up a weight's gradients in bfloat16, as it
    # casts the weight once for all of them. Here each part casts it for itself, so they are added
    # up in float32.
    monkeypatch.setattr(wav2vec2, "_recomputed_at_a_time", lambda utterances: utterances)
    torch.manual_seed(1)
    network = build_network(settings).train()
    waveforms = torch.randn(2, 8000)
    with Casts() as counted:
        together = gradients(network, waveforms)
    for module in (wav2vec2, layers, residual_blocks):
        monkeypatch.setattr(module, "weights_cast_together", lambda *_: nullcontext())
    with Casts() as plain:
        alone = gradients(network, waveforms)
    assert counted.together > 0 and plain.together == 0
    assert plain.alone - counted.alone >= 4 * counted.together
    assert together.keys() == alone.keys()
    for name, expected in alone.items():
        if expected is None:
            assert together[name] is None, name
        else:
            assert torch.equal(together[name], expected), name


def test_the_layer_has_its_own_weights_again_also_after_a_failure():
    layer = nn.Linear(3, 2)
    weight = layer.weight
    together = weights_cast_together(layer, CPU)
    with torch.autocast("cpu", torch.bfloat16), pytest.raises(ZeroDivisionError), together:
        assert layer.weight.dtype is layer.bias.dtype is torch.bfloat16
        raise ZeroDivisionError
    assert layer.weight is weight
    assert list(layer.state_dict()) == ["weight", "bias"]


def test_only_what_autocast_casts_is_cast():
    class Own(nn.Linear):
        pass

    half = nn.Linear(2, 2).to(torch.bfloat16)
    for layer in (Own(2, 2), half, nn.LayerNorm(2)):
        with torch.autocast("cpu", torch.bfloat16), weights_cast_together(layer, CPU):
            assert layer.weight is layer._parameters["weight"]
    layer = nn.Linear(2, 2)
    with weights_cast_together(layer, CPU):
        assert layer.weight is layer._parameters["weight"]
