"""Optimisers by class path: their steps, their groups, and going on from a checkpoint."""

import io

import pytest
import torch
from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.training.optimisers import (
    build_optimiser,
    find_optimiser,
    load_optimiser_state,
    optimiser_state,
)
from tests import user_optimisers
from tests.unit.conftest import network_settings

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


CLASSES = {
    "torch.optim.RAdam": torch.optim.RAdam,
    "torch.optim.NAdam": torch.optim.NAdam,
    "torch.optim.Adagrad": torch.optim.Adagrad,
    "torch.optim.RMSprop": torch.optim.RMSprop,
    "torch.optim.Adafactor": torch.optim.Adafactor,
    "torch.optim.AdamW": torch.optim.AdamW,
    "torch.optim.SGD": torch.optim.SGD,
    f"{OWN}.Lion": user_optimisers.Lion,
}


@pytest.mark.parametrize("path", CLASSES)
def test_its_steps_are_those_of_a_plain_loop(path):
    """Batch norm is in a group of its own, without weight decay."""
    ours, theirs = make_network(), make_network()
    optimiser = build_optimiser(ours, chosen_for(path))
    assert type(optimiser) is CLASSES[path]
    without = list(theirs[1].parameters())
    decayed = [*theirs[0].parameters(), *theirs[2].parameters()]
    groups = [{"params": without, "weight_decay": 0.0}, {"params": decayed, "weight_decay": 0.01}]
    train(ours, optimiser, 0, 4)
    # One kernel for all parameters, where torch has one for the CPU.
    options = {"fused": True} if path in ("torch.optim.AdamW", "torch.optim.SGD") else {}
    train(theirs, CLASSES[path](groups, lr=0.05, **options), 0, 4)
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
    ("saved", "other"),
    [
        ("adam", "torch.optim.RAdam"),
        ("torch.optim.RAdam", "adam"),
        ("torch.optim.RAdam", "torch.optim.NAdam"),
        ("torch.optim.RMSprop", f"{OWN}.Lion"),
    ],
)
def test_a_checkpoint_of_another_class_is_refused(saved, other):
    network = make_network()
    state = optimiser_state(build_optimiser(network, chosen_for(saved)))
    with pytest.raises(AsdfError, match="the checkpoint was trained with another optimiser"):
        load_optimiser_state(build_optimiser(network, chosen_for(other)), state)


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
        ("torch.nn.Linear", "a class derived from torch.optim.optimizer.Optimizer is required"),
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
