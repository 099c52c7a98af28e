"""Parameter groups, the steps of each optimiser or class, and going on from a checkpoint."""

import io

import pytest
import torch
from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.networks import FrontEnd, build_network
from asdf.networks.front_ends.architectures import Architecture
from asdf.networks.interface import front_end_parameters
from asdf.training.optimisers import (
    build_optimiser,
    find_optimiser,
    group_parameters,
    load_optimiser_state,
    optimiser_state,
)
from asdf.training.schedules import find_schedule, set_learning_rate
from asdf.training.training_progress import Progress
from tests import user_optimisers
from tests.unit.conftest import network_settings


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.front = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.output = nn.Linear(4, 2)
        self.position_bias = nn.Parameter(torch.zeros(4))

    def front_end_parameters(self):
        return self.front.parameters()


def groups(network, chosen) -> dict[str, tuple[float, float]]:
    """Learning rate and weight decay of each parameter by its name."""
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    optimiser = build_optimiser(network, chosen)
    return {
        names[id(p)]: (g["lr"], g["weight_decay"])
        for g in optimiser.param_groups
        for p in g["params"]
    }


def test_the_front_end_has_its_own_rate_and_skipped_parameters_no_decay():
    chosen = network_settings(
        initial_learning_rate=0.5,
        weight_decay=0.01,
        weight_decay_skiplist=("batchnorm", "Position"),
    )
    chosen.front_end.learning_rate = 0.001
    assert groups(Small(), chosen) == {
        "front.weight": (0.001, 0.01),
        "front.bias": (0.001, 0.01),
        "norm.weight": (0.5, 0.0),  # by its module's class
        "norm.bias": (0.5, 0.0),
        "output.weight": (0.5, 0.01),
        "output.bias": (0.5, 0.01),
        "position_bias": (0.5, 0.0),  # by its own name
    }


def test_frozen_parameters_are_left_out():
    network = Small()
    network.front.requires_grad_(False)
    assert set(groups(network, network_settings())) == {
        n for n, _ in network.named_parameters() if "front" not in n
    }
    network.requires_grad_(False)
    with pytest.raises(UsageError, match="no parameter of the network is trained"):
        build_optimiser(network, network_settings())


def test_a_parameter_that_two_modules_share_is_trained_once():
    network = Small()
    network.again = nn.Linear(4, 2)
    network.again.weight = network.output.weight
    assert len(groups(network, network_settings())) == 8


class OfGpu(nn.Parameter):
    """Says so; the fused kernels of the CPU do what those of GPUs do."""

    is_cuda = True


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_an_overflow_in_the_first_step_leaves_no_trace(name):
    network = nn.Linear(3, 2)
    network.weight, network.bias = OfGpu(torch.ones(2, 3)), OfGpu(torch.ones(2))
    optimiser = build_optimiser(network, network_settings(optimizer=name, momentum=0.9))
    assert optimiser.defaults["fused"] is True
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(network(torch.full((1, 3), torch.inf)).sum()).backward()
    scaler.step(optimiser)
    assert all(parameter.eq(1).all() for parameter in network.parameters())
    assert all(not moment.any() for state in optimiser.state.values() for moment in state.values())


def trained(network, chosen) -> torch.optim.Optimizer:
    optimiser = build_optimiser(network, chosen)
    network(torch.ones(4, 3)).sum().backward()
    optimiser.step()
    return optimiser


def test_going_on_keeps_the_moments_and_takes_rates_from_the_settings():
    network = nn.Linear(3, 2)
    state = trained(
        network, network_settings(optimizer="adam", initial_learning_rate=0.1, weight_decay=0.5)
    ).state_dict()
    optimiser = build_optimiser(
        network, network_settings(optimizer="adam", initial_learning_rate=0.01, weight_decay=0.0)
    )
    load_optimiser_state(optimiser, state)
    assert torch.equal(optimiser.state[network.weight]["exp_avg"], state["state"][0]["exp_avg"])
    group = optimiser.param_groups[0]
    assert group["base_lr"] == 0.01 and group["weight_decay"] == 0.0
    # AdamW goes on from the moments of Adam, with a weight decay of its own kind.
    other = build_optimiser(network, network_settings(optimizer="adamw"))
    before = dict(other.param_groups[0])
    load_optimiser_state(other, state)
    assert all(other.param_groups[0][name] == before[name] for name in before if name != "params")


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
@pytest.mark.parametrize("order", [(None, True), (True, None)])
def test_going_on_may_change_whether_the_optimiser_is_fused(name, order):
    """As in a run that goes on on a GPU after the CPU, or the other way round.

    Torch can fuse on the CPU as well.
    """
    chosen = network_settings(optimizer=name, initial_learning_rate=0.1, momentum=0.9)

    def train(*parts: bool | None) -> nn.Module:
        """Take three steps with each of `parts`, fused or not, with a checkpoint in between."""
        torch.manual_seed(1)
        network, state = nn.Linear(3, 2), None
        for fused in parts:
            optimiser = build_optimiser(network, chosen)
            for group in optimiser.param_groups:
                group["fused"] = fused
            if state:
                load_optimiser_state(optimiser, state)
            assert [group["fused"] for group in optimiser.param_groups] == [fused]
            for _ in range(3):
                network(torch.ones(4, 3)).square().sum().backward()
                optimiser.step()
                optimiser.zero_grad()
            state = optimiser.state_dict()
        assert name == "sgd" or [float(item["step"]) for item in state["state"].values()] == [6, 6]
        return network

    changed, same = train(*order), train(None, None)
    torch.testing.assert_close(changed.state_dict(), same.state_dict(), rtol=1e-5, atol=1e-6)


@pytest.mark.real_gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU: pytest -m real_gpu")
def test_a_state_of_the_cpu_goes_on_fused_on_a_gpu():
    chosen = network_settings(optimizer="adam", initial_learning_rate=0.1)
    state = trained(nn.Linear(3, 2), chosen).state_dict()
    network = nn.Linear(3, 2).cuda()
    optimiser = build_optimiser(network, chosen)
    load_optimiser_state(optimiser, state)
    assert optimiser.param_groups[0]["fused"] is True
    assert {state["step"].device.type for state in optimiser.state.values()} == {"cuda"}
    network(torch.ones(4, 3).cuda()).sum().backward()
    optimiser.step()
    assert {float(state["step"]) for state in optimiser.state.values()} == {2.0}


OWN = "tests.user_optimisers"


def chosen_for(path, **network):
    return network_settings(
        optimizer=path, initial_learning_rate=0.05, weight_decay=0.01, **network
    )


def train(network, optimiser, first, last):
    """Take the steps `first` to `last`, each with inputs of its own."""
    for step in range(first, last):
        inputs = torch.randn(4, 3, generator=torch.Generator().manual_seed(step))
        network(inputs).square().sum().backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)


def make_network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def weights_of(network):
    return torch.cat([parameter.detach().flatten() for parameter in network.parameters()])


NAMES = ("RAdam", "NAdam", "Adagrad", "RMSprop", "Adafactor", "AdamW", "SGD")
CLASSES = {f"torch.optim.{name}": getattr(torch.optim, name) for name in NAMES}
CLASSES[f"{OWN}.Lion"] = user_optimisers.Lion


# By their short names, with what the settings say of them.
SHORT_NAMES = {
    "sgd": (torch.optim.SGD, {"momentum": 0.9}),
    "adam": (torch.optim.Adam, {"betas": (0.8, 0.99)}),
    "adamw": (torch.optim.AdamW, {"betas": (0.8, 0.99)}),
}


@pytest.mark.parametrize("path", [*SHORT_NAMES, *CLASSES])
def test_its_steps_are_those_of_a_plain_loop(path):
    """Batch norm is in a group of its own, without weight decay."""
    ours, theirs = make_network(), make_network()
    kind, options = SHORT_NAMES.get(path) or (CLASSES[path], {})
    chosen = chosen_for(path)
    if options:
        chosen.network.momentum, chosen.network.adam_betas = 0.9, (0.8, 0.99)
    optimiser = build_optimiser(ours, chosen)
    assert type(optimiser) is kind
    without = list(theirs[1].parameters())
    decayed = [*theirs[0].parameters(), *theirs[2].parameters()]
    groups = [{"params": without, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.01}]
    train(ours, optimiser, 0, 4)
    # One kernel for all parameters, where torch has one for the CPU.
    fused = {"fused": True} if kind.__name__ in ("SGD", "Adam", "AdamW") else {}
    train(theirs, kind(groups, lr=0.05, **options, **fused), 0, 4)
    assert torch.equal(weights_of(ours), weights_of(theirs))
    assert not torch.equal(weights_of(ours), weights_of(make_network()))


@pytest.mark.parametrize("path", [*CLASSES, f"{OWN}.Growing"])
def test_a_run_that_goes_on_takes_the_same_steps(path):
    whole, resumed = make_network(), make_network()
    train(whole, build_optimiser(whole, chosen_for(path)), 0, 7)
    first = build_optimiser(resumed, chosen_for(path))
    train(resumed, first, 0, 3)
    file = io.BytesIO()
    torch.save(optimiser_state(first), file)
    file.seek(0)
    second = build_optimiser(resumed, chosen_for(path))
    load_optimiser_state(second, torch.load(file, weights_only=True))
    train(resumed, second, 3, 7)
    assert torch.equal(weights_of(whole), weights_of(resumed))


def test_options_are_those_of_the_settings_and_counts_those_of_the_checkpoint():
    network = make_network()
    chosen = chosen_for(f"{OWN}.Growing")
    first = build_optimiser(network, chosen)
    train(network, first, 0, 3)
    state = optimiser_state(first)
    for group in state["param_groups"]:
        group["growth"] = 9.0  # as if the class had had another default
    second = build_optimiser(network, chosen_for(f"{OWN}.Growing"))
    load_optimiser_state(second, state)
    taken = [(group["growth"], group["taken"], group["lr"]) for group in second.param_groups]
    assert taken == [(0.5, 3, 0.05), (0.5, 3, 0.05)]


@pytest.mark.parametrize(
    ("saved", "other", "options"),
    [
        ("sgd", "adam", {}),
        ("adam", "torch.optim.RAdam", {}),
        ("torch.optim.RAdam", "adam", {}),
        ("torch.optim.RAdam", "torch.optim.NAdam", {}),
        ("torch.optim.RMSprop", f"{OWN}.Lion", {}),
        ("sgd", "sgd", {"weight_decay_skiplist": ("bias",)}),
    ],
)
def test_a_checkpoint_of_another_class_or_of_other_groups_is_refused(saved, other, options):
    network = make_network()
    state = optimiser_state(trained(network, chosen_for(saved)))
    with pytest.raises(
        AsdfError, match=r"another optimiser.*network\.optimizer.*another paths\.sy"
    ):
        load_optimiser_state(build_optimiser(network, chosen_for(other, **options)), state)


def test_a_checkpoint_of_other_parameters_is_refused():
    state = optimiser_state(trained(nn.Linear(3, 2), chosen_for("sgd")))
    with pytest.raises(AsdfError, match="another optimiser"):
        load_optimiser_state(build_optimiser(nn.Linear(3, 2, bias=False), chosen_for("sgd")), state)


@pytest.mark.parametrize("name", ["sgd", "adam", "adamw"])
def test_a_short_name_and_its_class_write_the_same_state(name):
    """It has nothing that earlier versions do not know."""
    network = make_network()
    kind = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}[name]
    states = [
        optimiser_state(build_optimiser(network, chosen_for(value)))
        for value in (name, f"torch.optim.{kind}")
    ]
    assert states[0] == states[1] and list(states[0]) == ["state", "param_groups"]


def test_a_class_without_weight_decay_is_reported(caplog):
    build_optimiser(make_network(), chosen_for("torch.optim.Rprop"))
    assert "torch.optim.Rprop takes no weight decay: network.weight_decay has no" in caplog.text


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("torch.optim.LBFGS", "its step computes the loss again"),
        (f"{OWN}.Closing", "its step computes the loss again"),
        ("torch.optim.SparseAdam", "SparseAdam does not support dense gradients"),
        ("torch.optim.Muon", "Muon only supports 2D parameters"),
        (f"{OWN}.Matrices", "cannot be made for this network: ValueError: a vector"),
        (f"{OWN}.Forgetful", "it does not continue as without a stop"),
        (f"{OWN}.Unsavable", "a checkpoint cannot hold its state"),
        (f"{OWN}.Switching", "other weights for scoring than for training"),
        ("torch.optim.Optimizer", "missing 1 required positional argument"),
        ("torch.nn.Linear", "is not a class derived from torch.optim.Optimizer, which"),
        ("torch.optim.RAdm", "has no class 'RAdm'. Did you mean 'RAdam'?"),
    ],
)
def test_what_cannot_be_trained_with_is_refused(path, problem):
    with pytest.raises(UsageError, match=r"network\.optimizer") as caught:
        build_optimiser(make_network(), chosen_for(path))
    assert problem in str(caught.value)


def test_trying_it_changes_no_draw_of_the_network():
    torch.manual_seed(5)
    expected = torch.rand(3)
    network = make_network()
    torch.manual_seed(5)
    build_optimiser(network, chosen_for("torch.optim.RAdam"))
    assert torch.equal(torch.rand(3), expected)


def test_one_kernel_where_the_class_offers_it_and_the_settings_do_not_say():
    groups = [{"params": list(make_network().parameters())}]
    for name, fused in (("AdamW", True), ("Adagrad", None), ("RAdam", "none")):
        named = find_optimiser(chosen_for(f"torch.optim.{name}"), None)
        optimiser = named.build(groups, fused=True)
        assert optimiser.defaults.get("fused", "none") == fused
    named = find_optimiser(chosen_for("torch.optim.AdamW"), None)
    named.arguments["fused"] = False
    assert named.build(groups, fused=True).defaults["fused"] is False


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
