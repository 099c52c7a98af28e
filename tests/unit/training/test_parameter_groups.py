"""Rates and weight decays of parameter groups, and their order, which checkpoints rely on."""

import pytest
import torch
from torch import nn

from asdf.errors import UsageError
from asdf.networks import FrontEnd, build_network
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.interface import front_end_parameters
from asdf.training.optimisers import build_optimiser, group_parameters
from asdf.training.schedules import find_schedule, set_learning_rate
from asdf.training.training_progress import Progress
from tests.unit.conftest import network_settings

# As in wav2vec 2.0 base: the norm comes before the first layer.
NORMED_FIRST = Architecture(
    ((8, 10, 5), (8, 8, 8)), "layer_norm", True, 8, 2, 2, 16, False, 4, 2
).to_text()


def layered_settings(layer_decay, architecture="tiny", **front_end):
    settings = network_settings(
        network_class="asdf.networks.SSL_ASP",
        initial_learning_rate=0.1,
        weight_decay=0.01,
        weight_decay_skiplist=("bias",),
    )
    settings.front_end.architecture = architecture
    settings.front_end.learning_rate = 0.008
    settings.front_end.layer_decay = layer_decay
    for name, value in front_end.items():
        setattr(settings.front_end, name, value)
    return settings


def rates_by_name(network, groups):
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    rates = {}
    for group in groups:
        for parameter in group["params"]:
            rates[names[id(parameter)]] = group["base_lr"]
    return rates


def test_without_layer_decay_the_groups_are_those_of_earlier_versions():
    settings = layered_settings(1.0)
    network = build_network(settings)
    front_end = {id(parameter) for parameter in front_end_parameters(network)}
    expected = []
    for is_front_end, decays in ((False, False), (False, True), (True, False), (True, True)):
        members = []
        for name, parameter in network.named_parameters():
            has_decay = "bias" not in name
            if (id(parameter) in front_end, has_decay) == (is_front_end, decays):
                members.append(name)
        expected.append((members, 0.008 if is_front_end else 0.1, 0.01 if decays else 0.0))
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    groups = []
    for group in group_parameters(network, settings):
        members = [names[id(parameter)] for parameter in group["params"]]
        groups.append((members, group["base_lr"], group["weight_decay"]))
    assert groups == expected


@pytest.mark.parametrize("settings", [{}, {"layer": "weighted"}, {"layer": 1}])
def test_each_layer_learns_slower_than_the_one_above_it(settings):
    """N layers: the convolutions with 0.5^N of the front end's rate, layer l with 0.5^(N - l)."""
    chosen = layered_settings(0.5, **settings)
    network = build_network(chosen)
    count = network.front_end.layers
    assert count == (1 if settings.get("layer") == 1 else network.front_end.encoder_layers)
    rates = rates_by_name(network, group_parameters(network, chosen))
    learning = [name for name, value in network.named_parameters() if value.requires_grad]
    assert set(rates) == set(learning)
    prefix = "front_end.model.encoder.transformer.layers."
    final_norm = "front_end.model.encoder.transformer.layer_norm."
    for name, rate in rates.items():
        if name.startswith(prefix):
            layer = 1 + int(name.removeprefix(prefix).split(".")[0])
            assert rate == pytest.approx(0.008 * 0.5 ** (count - layer), rel=1e-12), name
        elif name.startswith(final_norm):  # it ends the encoder, and belongs to its last layer
            assert network.front_end.architecture.layer_norm_first and rate == 0.008
        elif name.startswith("front_end.model."):
            assert rate == pytest.approx(0.008 * 0.5**count, rel=1e-12), name
        else:
            assert rate == 0.1, name


def test_the_norm_that_begins_an_encoder_lies_below_its_layers():
    chosen = layered_settings(0.5, NORMED_FIRST)
    network = build_network(chosen)
    rates = rates_by_name(network, group_parameters(network, chosen))
    assert rates["front_end.model.encoder.transformer.layer_norm.weight"] == 0.002


def test_a_schedule_lowers_all_of_them_alike():
    chosen = layered_settings(0.5)
    chosen.network.schedule, chosen.network.max_epochs = "linear", 4
    network = build_network(chosen)
    optimiser = build_optimiser(network, chosen)
    before = [group["base_lr"] for group in optimiser.param_groups]
    set_learning_rate(optimiser, find_schedule(chosen, None), chosen, Progress(epochs=3), 10)
    assert [group["lr"] for group in optimiser.param_groups] == pytest.approx(
        [rate / 4 for rate in before]
    )
    assert len(set(before)) == 2 + network.front_end.layers


class Unlayered(FrontEnd):
    dimension, window, hop = 4, 400, 160

    def make_model(self, settings):
        return nn.Conv1d(1, 4, 400, stride=160)

    def states(self, waveforms_BT):
        yield self.model(waveforms_BT.unsqueeze(1)).transpose(1, 2)


class WithFrontEnd(nn.Module):
    def __init__(self, front_end):
        super().__init__()
        self.front_end = front_end
        self.output = nn.Linear(4, 2)

    def front_end_parameters(self):
        return self.front_end.parameters()


class TwoLayers(Unlayered):
    encoder_layers = 2

    def make_model(self, settings):
        return nn.ModuleList([nn.Linear(1, 4), nn.Linear(4, 4), nn.Linear(4, 4)])

    def layer_modules(self):
        return list(self.model[1:])


def test_a_front_end_of_ones_own_may_state_its_layers():
    chosen = layered_settings(0.5)
    network = WithFrontEnd(TwoLayers(chosen.front_end))
    rates = rates_by_name(network, group_parameters(network, chosen))
    weights = {name: rate for name, rate in rates.items() if name.endswith("weight")}
    assert weights == {
        "front_end.model.0.weight": 0.002,
        "front_end.model.1.weight": 0.004,
        "front_end.model.2.weight": 0.008,
        "output.weight": 0.1,
    }


@pytest.mark.parametrize("front_end", [None, Unlayered])
def test_without_stated_layers_it_is_refused(front_end):
    chosen = layered_settings(0.5)
    part = front_end(chosen.front_end) if front_end else nn.Linear(3, 4)
    with pytest.raises(UsageError, match=r"front_end\.layer_decay = 0\.5.*layer_modules"):
        group_parameters(WithFrontEnd(part), chosen)
    torch.manual_seed(0)
    chosen.front_end.layer_decay = 1.0
    assert group_parameters(WithFrontEnd(part), chosen)
