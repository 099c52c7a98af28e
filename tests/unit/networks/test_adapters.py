"""Bottleneck adapters: where they hang, and that they begin as nothing."""

import pytest
import torch
import torch.nn.functional as F

from asdf.errors import UsageError
from asdf.networks import build_network
from asdf.networks.tuning.adapters import Bottleneck
from asdf.settings.sections import Adapter
from tests.unit.networks.inspection import names_with_gradient, trainable_names

DENSE = "feed_forward.output_dense.adapter"
NUMBERS = ("down_weight", "down_bias", "up_weight", "up_bias")


def test_a_bottleneck_adds_a_small_network():
    torch.manual_seed(0)
    adapter = Bottleneck(6, 3, "a")
    inputs = torch.randn(4, 5, 6)
    assert torch.equal(adapter(inputs), inputs)
    with torch.no_grad():
        adapter.up_weight.normal_()
        adapter.down_bias.normal_()
    narrow = F.gelu(inputs @ adapter.down_weight.T + adapter.down_bias)
    torch.testing.assert_close(adapter(inputs), inputs + narrow @ adapter.up_weight.T)


@pytest.mark.parametrize(
    ("positions", "modules"),
    [
        (("layers",), [f"layers.{n}.{DENSE}" for n in (0, 1)]),
        (("before",), ["layers.0.adapter_before"]),
        (("after",), ["feature_adapter"]),
        (
            ("before", "layers", "after"),
            [
                "layers.0.adapter_before",
                f"layers.0.{DENSE}",
                f"layers.1.{DENSE}",
                "feature_adapter",
            ],
        ),
    ],
)
def test_what_learns_and_that_the_start_is_the_base(positions, modules, tiny, waveforms):
    tiny.network.network_class = "asdf.networks.SSL_ASP"
    tiny.front_end.gradient_checkpointing = True
    torch.manual_seed(3)
    plain = build_network(tiny).train()
    tiny.adapter = Adapter(width=5, positions=positions)
    torch.manual_seed(3)
    network = build_network(tiny).train()
    outputs = network(waveforms)[1]
    assert torch.equal(outputs, plain(waveforms)[1])
    added = [name for name in network.state_dict() if name not in plain.state_dict()]
    prefix = "front_end.model.encoder.transformer."
    names = [f"{module}.{number}" for module in modules for number in NUMBERS]
    assert {name.removeprefix(prefix) for name in added} == set(names)
    outputs.sum().backward()
    assert names_with_gradient(network) == trainable_names(network)
    learning = set(trainable_names(network))
    if positions == ("after",):
        assert learning == {name for name, _ in network.named_parameters()}
    else:
        own = {name for name in learning if name.startswith("front_end")}
        assert own == {name for name in added if name.startswith("front_end")}
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if "up_weight" in name:
                parameter.normal_()
                before = network(waveforms)[1]
                parameter.zero_()
                assert not torch.allclose(before, outputs, atol=1e-4), name


def test_behind_a_frozen_front_end_an_adapter_learns_with_the_back_end(tiny, waveforms):
    tiny.front_end.frozen = True
    tiny.front_end.layer = "weighted"
    tiny.adapter = Adapter(width=5, positions=("after",))
    network = build_network(tiny).train()
    names = {name.partition(".")[0] for name in trainable_names(network)}
    assert names == {"front_end", "feature_adapter", "back_end"}  # the sum's weights
    features = network.front_end_features(waveforms)
    assert torch.equal(network.eval().forward_features(features)[1], network(waveforms)[1])


@pytest.mark.parametrize(
    ("network_class", "layer", "positions", "message"),
    [
        ("SSL_MHFA", "last", ("after",), "'after' needs a network whose back end takes one"),
        ("AASIST_L", "last", ("after",), "has no front end"),
        ("SSL_ASP", 0, ("layers",), "has no encoder layers to add adapters to"),
    ],
)
def test_where_no_adapter_can_hang(network_class, layer, positions, message, tiny):
    tiny.network.network_class = f"asdf.networks.{network_class}"
    tiny.front_end.layer = layer
    tiny.adapter = Adapter(width=5, positions=positions)
    with pytest.raises(UsageError, match=message):
        build_network(tiny)
