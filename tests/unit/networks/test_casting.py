"""Weights that are cast together: autocast's numbers, and the layer is left as it was."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torchaudio.models.wav2vec2.components import EncoderLayer, FeedForward, SelfAttention

from asdf.networks import build_network, casting
from asdf.networks.back_ends import graph_back_end, ssl_aasist
from asdf.networks.casting import norms_shortened, weights_cast_together
from asdf.networks.front_ends import encoder_layers, wav2vec2
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


def tiny_network(choices: dict[str, object]) -> nn.Module:
    settings = Sections()
    settings.front_end.architecture = "tiny"
    for name, value in choices.items():
        setattr(settings.front_end, name, value)
    torch.manual_seed(1)
    return build_network(settings).train()


def gradients(network: nn.Module, waveforms: torch.Tensor) -> dict[str, torch.Tensor | None]:
    torch.manual_seed(3)
    with torch.autocast("cpu", torch.bfloat16):
        _, logits = network(waveforms)
    logits.float().square().sum().backward()
    result = gradients_by_name(network)
    network.zero_grad(set_to_none=True)
    return {"logits": logits.detach(), **result}


@pytest.mark.slow_but("gradient_checkpointing", "plain", "frozen")
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
    # For several parts of a minibatch, autocast adds up a weight's gradients in bfloat16, as it
    # casts the weight once for all of them. Here each part casts it for itself, so they are added
    # up in float32.
    monkeypatch.setattr(wav2vec2, "_recomputed_at_a_time", lambda utterances: utterances)
    # Joined projections add up gradients otherwise, and gates are rounded otherwise: see the next
    # test, and those of gated attention.
    for name in ("_is_known", "can_gate"):
        monkeypatch.setattr(casting, name, lambda _: False)
    network = tiny_network(choices)
    waveforms = torch.randn(2, 8000)
    with Casts() as counted:
        together = gradients(network, waveforms)
    for module in (wav2vec2, encoder_layers, graph_back_end, ssl_aasist):
        monkeypatch.setattr(module, "weights_cast_together", lambda *_: nullcontext())
    with Casts() as plain:
        alone = gradients(network, waveforms)
    assert counted.together > 0 and plain.together == 0
    assert plain.alone - counted.alone >= 4 * counted.together
    torch.testing.assert_close(together, alone, rtol=0, atol=0)


def make_layer(**options: object) -> EncoderLayer:
    torch.manual_seed(0)
    attention = SelfAttention(32, 4)
    return EncoderLayer(attention, 0.0, options.get("norm_first", True), FeedForward(32, 64, 0, 0))


def pass_through(layer, x_BLC, together=False, short_norms=False, dtype=torch.bfloat16):
    """Return a layer's output and gradients, in one dictionary."""
    leaf = x_BLC.clone().requires_grad_()
    cast = weights_cast_together(layer, CPU, short_norms) if together else nullcontext()
    with torch.autocast("cpu", dtype, enabled=dtype is not torch.float32), cast:
        # Not the leaf itself: autocast would cast that once.
        output = layer(leaf.clone())[0]
    output.float().square().sum().backward()
    result = {name: p.grad for name, p in layer.named_parameters() if p.grad is not None}
    layer.zero_grad(set_to_none=True)
    return {"output": output.detach(), "input": leaf.grad, **result}


@pytest.mark.parametrize("norm_first", [True, False])
def test_joined_projections_cast_their_input_once_and_are_as_exact_as_three(norm_first):
    layer = make_layer(norm_first=norm_first)
    x_BLC = torch.randn(2, 9, 32)
    exact = pass_through(layer, x_BLC, dtype=torch.float32)
    with Casts() as alone:
        apart = pass_through(layer, x_BLC)
    with Casts() as counted:
        joined = pass_through(layer, x_BLC, together=True)
    # 12 weights and their gradients, and 2 of the 3 inputs with theirs.
    assert alone.alone - counted.alone == 2 * 12 + 2 * 2
    assert joined.keys() == apart.keys() == exact.keys()
    for name, expected in exact.items():
        scale = float(expected.abs().max())
        error, error_apart = (
            float((result[name].float() - expected).abs().mean()) / scale
            for result in (joined, apart)
        )
        assert error <= 1.1 * error_apart + 1e-4, name
    assert "forward" not in vars(layer.attention)
    again = pass_through(layer, x_BLC)
    assert all(torch.equal(again[name], apart[name]) for name in apart)


def test_projections_that_do_not_all_learn_or_are_watched_are_cast_apart():
    layer = make_layer()
    x_BLC = torch.randn(2, 9, 32)
    layer.attention.q_proj.weight.requires_grad_(False)
    apart, joined = pass_through(layer, x_BLC), pass_through(layer, x_BLC, together=True)
    assert all(torch.equal(joined[name], apart[name]) for name in apart)
    layer.attention.q_proj.weight.requires_grad_(True)
    seen = []
    layer = make_layer()
    layer.attention.v_proj.register_forward_hook(lambda *_: seen.append(1))
    pass_through(layer, x_BLC, together=True)
    assert seen == [1]


def test_short_norms_are_in_the_format_of_autocast():
    """A GPU's autocast would compute them in float32 whatever comes in, a CPU's does not."""
    layer = make_layer()
    x_BLC = torch.randn(2, 9, 32)
    exact = pass_through(layer, x_BLC, dtype=torch.float32)
    inputs = []
    for part in (layer.attention, layer.feed_forward):
        part.register_forward_pre_hook(lambda _, given: inputs.append(given[0].dtype))
    result = pass_through(layer, x_BLC, together=True, short_norms=True)
    assert inputs == [torch.bfloat16] * 2
    # A bias of keys changes no attention: its gradient is rounding alone.
    del exact["attention.k_proj.bias"]
    for name, expected in exact.items():
        error = (result[name].float() - expected).abs().mean() / expected.abs().max()
        assert error < 0.01, name
    inputs.clear()
    pass_through(layer, x_BLC, together=True)
    assert inputs == [torch.float32] * 2


def test_norms_that_are_watched_or_have_no_weights_stay_long():
    layer = nn.Sequential(nn.LayerNorm(4, elementwise_affine=False), nn.LayerNorm(4))
    handle = layer[1].register_forward_hook(lambda *_: None)
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16), weights_cast_together(layer, CPU, True):
            assert layer(torch.randn(2, 4)).dtype is dtype
        handle.remove()


@pytest.mark.parametrize(
    ("choices", "norms"),
    # Of the first convolution, of the projection, before the first layer, and 2 of each layer.
    [({}, 7), ({"gradient_checkpointing": True}, 7 + 5), ({"frozen": True}, 7)],
    ids=["plain", "checkpointing", "frozen"],
)
def test_a_networks_norms_are_short_where_the_block_says_so(choices, norms, monkeypatch):
    monkeypatch.setattr(wav2vec2, "_recomputed_at_a_time", lambda utterances: utterances)
    network = tiny_network(choices)
    waveforms = torch.randn(2, 8000)
    calls = []
    normalize = casting._normalize
    monkeypatch.setattr(
        casting, "_normalize", lambda norm, x: (calls.append(norm), normalize(norm, x))[1]
    )
    with norms_shortened(True):
        short = gradients(network, waveforms)
    assert len(calls) == norms
    long = gradients(network, waveforms)
    assert len(calls) == norms
    assert torch.allclose(short["logits"], long["logits"], atol=0.1)
    for name, expected in long.items():
        assert (short[name] is None) is (expected is None), name


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
