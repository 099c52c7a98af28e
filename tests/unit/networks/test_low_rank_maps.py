"""Which linear maps of a front end are updated, of every kind of front end."""

import pytest
import torch
from torch import nn

from asdf.errors import UsageError
from asdf.networks import FrontEnd, build_network
from asdf.networks.tuning import (
    LowRankAttention,
    LowRankLinear,
    add_low_rank,
    linear_maps,
    merge_updates,
    updated_modules,
)
from asdf.settings.sections import Lora
from tests.unit.networks.inspection import names_with_gradient, trainable_names
from tests.unit.networks.test_low_rank import randomize

LAYERS = "encoder.transformer.layers"
ATTENTION = ("q_proj", "k_proj", "v_proj", "out_proj")


def updated_names(network: nn.Module) -> set[str]:
    """Names of the updated maps in the front end's model."""
    names = set()
    for name, _ in network.front_end.model.named_parameters():
        if ".lora_A" in name:
            names.add(name.replace(".lora_A_", ".").removesuffix(".lora_A"))
    return names


@pytest.mark.parametrize(
    ("targets", "maps"),
    [
        (("attention",), [f"attention.{name}" for name in ATTENTION]),
        (("feed_forward",), ["feed_forward.intermediate_dense", "feed_forward.output_dense"]),
        (("*.q_proj", "*.v_proj"), ["attention.q_proj", "attention.v_proj"]),
    ],
)
def test_targets_of_the_tiny_front_end(targets, maps, tiny):
    tiny.lora = Lora(rank=4, targets=targets)
    expected = {f"{LAYERS}.{layer}.{name}" for layer in (0, 1) for name in maps}
    assert updated_names(build_network(tiny)) == expected


def test_layers_that_are_not_computed_are_left_out(tiny):
    tiny.lora = Lora(rank=4)
    tiny.front_end.layer = 1
    names = updated_names(build_network(tiny))
    assert names and all(name.startswith(f"{LAYERS}.0.") for name in names)


@pytest.mark.slow_but("tiny")
@pytest.mark.parametrize("architecture", ["tiny", "wavlm_base"])
def test_a_network_begins_as_without_updates_and_only_they_and_the_back_end_learn(
    architecture, tiny, waveforms
):
    tiny.front_end.architecture = architecture
    tiny.front_end.layer = 1
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    torch.manual_seed(3)
    plain = build_network(tiny)
    tiny.lora = Lora(rank=4)
    torch.manual_seed(3)
    network = build_network(tiny)
    # torch computes attention by another kernel where WavLM's biases get gradients.
    with torch.no_grad():
        for training in (True, False):
            result = network.train(training)(waveforms)[1]
            assert torch.equal(result, plain.train(training)(waveforms)[1])
    added = set(network.state_dict()) - set(plain.state_dict())
    assert all("lora_" in name for name in added) and len(added) >= 12
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, network.state_dict()[name])
    learning = trainable_names(network)
    assert {name for name in learning if name.startswith("front_end")} == added
    network.train()(waveforms)[1].sum().backward()
    assert names_with_gradient(network) == learning


@pytest.mark.slow_but("wavlm_base")
@pytest.mark.parametrize("architecture", ["tiny", "wavlm_base"])
def test_merged_scores_are_the_same_bits(architecture, tiny, waveforms):
    tiny.front_end.architecture = architecture
    tiny.front_end.layer = 1
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    plain = build_network(tiny)
    tiny.lora = Lora(rank=4)
    network = build_network(tiny).eval()
    randomize(network)
    kinds = {type(module) for module in updated_modules(network)}
    joined = {LowRankAttention} if architecture == "wavlm_base" else set()
    assert kinds == {LowRankLinear} | joined
    before = network(waveforms)[1]
    merge_updates(network)
    assert torch.equal(network(waveforms)[1], before)
    assert list(network.state_dict()) == list(plain.state_dict())


def test_updates_survive_autocast_and_recomputing(tiny, waveforms):
    """In training by the small products, with dropout, which the backward pass repeats."""
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    tiny.lora = Lora(rank=4, dropout=0.5)
    gradients = []
    for recompute in (False, True):
        tiny.front_end.gradient_checkpointing = recompute
        torch.manual_seed(3)
        network = build_network(tiny).train()
        torch.manual_seed(4)
        randomize(network)
        torch.manual_seed(5)
        with torch.autocast("cpu", torch.bfloat16):
            logits = network(waveforms)[1]
        logits.float().sum().backward()
        by_name = {name: weight.grad for name, weight in network.named_parameters()}
        gradients.append({name: grad for name, grad in by_name.items() if grad is not None})
    assert any("lora_A" in name for name in gradients[0])
    torch.testing.assert_close(gradients[0], gradients[1], rtol=0, atol=0)


def test_parts_may_learn_next_to_the_updates(tiny):
    tiny.lora = Lora(rank=4, targets=("attention",))
    tiny.front_end.trained_parts = ("norms",)
    names = {name for name in trainable_names(build_network(tiny)) if name.startswith("front")}
    assert {name.rpartition(".")[2] for name in names} == {"lora_A", "lora_B", "weight", "bias"}
    assert all("norm" in name for name in names if "lora" not in name)


class Odd(nn.Linear):
    def forward(self, x_BI):
        return 2 * super().forward(x_BI)


class Own(FrontEnd):
    """A user's front end of torch's own layers."""

    dimension, window, hop, encoder_layers = 8, 400, 320, 2

    def make_model(self, settings):
        layers = [nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True) for _ in range(2)]
        return nn.ModuleDict(
            {"first": nn.Linear(400, 8), "layers": nn.ModuleList(layers), "odd": Odd(8, 8)}
        )

    def states(self, waveforms_BT):
        x_BLC = self.model["first"](waveforms_BT.unfold(1, 400, 320))
        yield x_BLC
        for layer in self.model["layers"]:
            x_BLC = layer(x_BLC)
            yield x_BLC


def test_a_front_end_of_ones_own_is_updated_in_all_of_its_maps(tiny, waveforms):
    front_end = Own(tiny.front_end)
    kinds = {linear.name: linear.kind for linear in linear_maps(front_end)}
    assert kinds["layers.1.self_attn.v_proj"] == kinds["layers.0.self_attn.out_proj"] == "attention"
    assert kinds["layers.1.linear2"] == "feed_forward" and kinds["first"] == ""
    add_low_rank(front_end, Lora(rank=2))
    before = Own(tiny.front_end)
    before.load_state_dict(front_end.state_dict(), strict=False)
    with torch.no_grad():
        assert torch.equal(front_end.eval()(waveforms), before.eval()(waveforms))
        randomize(front_end)
        features = front_end(waveforms)
        assert not torch.allclose(features, before(waveforms), atol=1e-3)
        assert merge_updates(front_end) == 2 * 4
        torch.testing.assert_close(front_end(waveforms), features, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        (Lora(rank=2, targets=("*.q_prj",)), r"no linear map '\*\.q_prj'"),
        (Lora(rank=2, targets=("odd*",)), "odd is a Odd, which computes differently from torch"),
        (Lora(rank=9), "maps 8 values to 8. The rank must not exceed the lower of the two"),
        (Lora(rank=2, dropout=0.1), "is part of a joined projection"),
    ],
)
def test_what_cannot_be_updated_is_an_error(lora, message, tiny):
    with pytest.raises(UsageError, match=message):
        add_low_rank(Own(tiny.front_end), lora)


def test_a_network_without_a_front_end_has_nothing_to_update(tiny):
    tiny.network.network_class = "asdf.networks.AASIST_L"
    tiny.lora.rank = 2
    with pytest.raises(UsageError, match=r"lora\.rank: asdf\.networks\.AASIST_L has no front end"):
        build_network(tiny)
