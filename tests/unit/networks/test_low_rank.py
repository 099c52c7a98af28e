"""Low-rank updates: what they compute, against the package peft, and how they are merged."""

import copy

import pytest
import torch
from torch import nn

from asdf.networks.tuning import LowRankLinear, merge_updates, update_map
from asdf.settings.sections import Lora


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(12, 20)
        self.second = nn.Linear(20, 6, bias=False)

    def forward(self, x_BI):
        return self.second(torch.tanh(self.first(x_BI)))


def randomize(network: nn.Module) -> None:
    """Give the updates other numbers than those of the start."""
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "lora_B" in name:
                parameter.normal_()


def updated(dropout: float = 0.0) -> tuple[Small, Small]:
    """A network, and the same with updates."""
    torch.manual_seed(0)
    plain = Small()
    network = copy.deepcopy(plain)
    lora = Lora(rank=3, alpha=7.0, dropout=dropout)
    for name in ("first", "second"):
        update_map(network.get_submodule(name), lora, name)
    return plain, network


def as_in_peft(plain: Small, network: Small) -> nn.Module:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=3, lora_alpha=7.0, target_modules=["first", "second"])
    theirs = peft.get_peft_model(copy.deepcopy(plain), config)
    with torch.no_grad():
        for name in ("first", "second"):
            ours = network.get_submodule(name)
            layer = theirs.base_model.model.get_submodule(name)
            layer.lora_A["default"].weight.copy_(ours.lora_A)
            layer.lora_B["default"].weight.copy_(ours.lora_B)
    return theirs


@pytest.mark.parametrize("training", [True, False])
def test_outputs_gradients_and_merged_weights_are_those_of_peft(training):
    plain, network = updated()
    randomize(network)
    theirs = as_in_peft(plain, network).train(training)
    network.train(training)
    inputs = torch.randn(5, 9, 12)
    result, expected = network(inputs), theirs(inputs)
    torch.testing.assert_close(result, expected, rtol=3e-6, atol=3e-6)
    if training:
        result.square().sum().backward()
        expected.square().sum().backward()
        layer = theirs.base_model.model.first
        gradients = [network.first.lora_A.grad, network.first.lora_B.grad]
        others = [layer.lora_A["default"].weight.grad, layer.lora_B["default"].weight.grad]
        torch.testing.assert_close(gradients, others, rtol=1e-5, atol=1e-5)
    merged = theirs.merge_and_unload()
    merge_updates(network)
    for name in ("first", "second"):
        torch.testing.assert_close(
            network.get_submodule(name).weight.detach(),
            merged.get_submodule(name).weight.detach(),
            rtol=1e-6,
            atol=1e-6,
        )


@pytest.mark.parametrize("training", [True, False])
def test_at_the_start_nothing_changes(training):
    plain, network = updated(dropout=0.5)
    inputs = torch.randn(5, 12)
    assert torch.equal(network.train(training)(inputs), plain(inputs))
    before = {f"{name}.weight": plain.get_submodule(name).weight for name in ("first", "second")}
    for name, weight in before.items():
        assert torch.equal(network.state_dict()[name], weight)
        assert torch.equal(network.get_submodule(name[:-7]).weight, weight)


def test_merging_gives_a_plain_network_of_the_same_bits():
    plain, network = updated()
    randomize(network)
    inputs = torch.randn(5, 12)
    before = network.eval()(inputs)
    assert merge_updates(network) == 2
    assert torch.equal(network(inputs), before) and not torch.equal(before, plain(inputs))
    assert [type(module) for module in network.children()] == [nn.Linear, nn.Linear]
    assert list(network.state_dict()) == list(plain.state_dict())


def test_dropout_is_of_the_update_alone_and_in_training():
    _, network = updated(dropout=0.5)
    randomize(network)
    inputs = torch.randn(5, 12)
    assert not torch.equal(network.train()(inputs), network(inputs))
    assert torch.equal(network.eval()(inputs), network(inputs))
    linear = network.train().first
    torch.manual_seed(5)
    dropped = nn.functional.dropout(inputs, 0.5)
    torch.manual_seed(5)
    expected = nn.functional.linear(inputs, linear.base_weight, linear.bias)
    expected = expected + 7 / 3 * (dropped @ linear.lora_A.T @ linear.lora_B.T)
    torch.testing.assert_close(linear(inputs), expected)


def test_the_first_numbers_follow_from_seed_and_name_and_advance_nothing():
    torch.manual_seed(4)
    state = torch.get_rng_state()
    linears = [nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 6)]
    torch.set_rng_state(state)
    for linear, name in zip(linears, ("a", "b", "a"), strict=True):
        update_map(linear, Lora(rank=2), name)
    assert torch.equal(torch.get_rng_state(), state)
    assert isinstance(linears[0], LowRankLinear) and linears[0].lora_A.shape == (2, 6)
    assert torch.equal(linears[0].lora_A, linears[2].lora_A)
    assert not torch.equal(linears[0].lora_A, linears[1].lora_A)
    assert linears[0].lora_A.abs().max() <= 6**-0.5


class Attending(nn.Module):
    """torch's own layer, which multiplies by weights and not through its modules."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, x_BLC):
        return self.layer(x_BLC)


def test_fused_attention_sees_the_updates():
    """Also torch's fast path, which evaluation without gradients takes."""
    torch.manual_seed(0)
    plain = Attending()
    network = copy.deepcopy(plain)
    lora = Lora(rank=2)
    attention = network.layer.self_attn
    for part in ("q_proj", "v_proj"):
        update_map(attention, lora, part, part)
    update_map(attention.out_proj, lora, "out")
    update_map(network.layer.linear1, lora, "linear1")
    inputs = torch.randn(3, 5, 8)
    assert torch.equal(network(inputs), plain(inputs))
    randomize(network)
    merged = copy.deepcopy(network)
    assert merge_updates(merged) == 3
    assert type(merged.layer.self_attn) is nn.MultiheadAttention
    keys = slice(8, 16)
    base = plain.layer.self_attn.in_proj_weight
    assert torch.equal(merged.layer.self_attn.in_proj_weight[keys], base[keys])
    with torch.no_grad():
        results = [network(inputs), network.eval()(inputs)]
        expected = [merged(inputs), merged.eval()(inputs)]
    torch.testing.assert_close(results, expected, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(results[0], plain(inputs), atol=1e-3)


def test_parts_of_a_joined_projection_are_updated_as_single_maps_are():
    torch.manual_seed(1)
    attention = nn.MultiheadAttention(8, 2, batch_first=True)
    base = attention.in_proj_weight.detach().clone()
    update_map(attention, Lora(rank=2, alpha=4.0), "k", "k_proj")
    with torch.no_grad():
        attention.lora_B_k_proj.normal_()
    expected = base.clone()
    expected[8:16] += 2.0 * attention.lora_B_k_proj @ attention.lora_A_k_proj
    torch.testing.assert_close(attention.in_proj_weight, expected)
    assert torch.equal(attention.state_dict()["in_proj_weight"], base)
