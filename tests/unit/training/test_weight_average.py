"""Averages of the weights: their recurrence, where they are in use, and going on with them."""

import pytest
import torch
from torch import nn

from asdf.checkpoint.network_file import NetworkFile
from asdf.checkpoint.network_reading import fill_network
from asdf.errors import AsdfError
from asdf.runs.evaluations import ValidationResult
from asdf.training.checkpoints import read_checkpoint
from asdf.training.gradients import WeightAverage, load_unaveraged
from asdf.training.steps import Plain


def make_network():
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2), nn.Linear(4, 2))
    network[0].bias.requires_grad_(False)
    network[3].weight = network[2].weight
    return network


def state_of(network):
    return {name: value.clone() for name, value in network.state_dict().items()}


def assert_same(this, other):
    torch.testing.assert_close(this, other, rtol=0, atol=0)


def test_the_weights_come_back_where_they_were_also_after_an_error():
    network = make_network()
    average = WeightAverage(network, 0.5)
    addresses = [parameter.data_ptr() for parameter in network.parameters()]
    with torch.no_grad():
        network[0].weight += 1
    before = state_of(network)
    with pytest.raises(ZeroDivisionError), average.in_use():
        assert addresses == [parameter.data_ptr() for parameter in network.parameters()]
        assert not torch.equal(network[0].weight, before["0.weight"])
        _ = 1 / 0
    assert_same(state_of(network), before)


def test_a_file_has_the_averages_and_the_weights_of_all_that_learns():
    network = make_network()
    average = WeightAverage(network, 0.5)
    start = state_of(network)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter += 1
    average.update()
    file = NetworkFile(state=network.state_dict())
    names = list(file.state)
    average.save_in(file)
    assert list(file.state) == names
    learning = {
        "0.weight",
        "1.weight",
        "1.bias",
        "2.weight",
        "2.bias",
        "3.weight",  # the same as 2.weight
        "3.bias",
    }
    assert set(file.unaveraged_state) == learning
    for name in learning:
        torch.testing.assert_close(file.state[name], start[name] + 0.5)
        torch.testing.assert_close(file.unaveraged_state[name], start[name] + 1)
    assert torch.equal(file.state["0.bias"], start["0.bias"] + 1)


@pytest.mark.parametrize(
    "entry", [{"9.weight": torch.zeros(2, 4)}, {"2.weight": torch.zeros(4, 2)}, {"2.weight": 3}]
)
def test_weights_of_another_network_are_refused_and_change_nothing(entry):
    network = make_network()
    before = state_of(network)
    with pytest.raises(AsdfError, match="weights before averaging"):
        load_unaveraged(network, {"2.bias": torch.zeros(2), **entry})
    assert_same(state_of(network), before)


EMA = {"ema_decay": 0.8, "initial_learning_rate": 0.01}


def test_validation_sees_what_the_network_file_holds(train, tmp_path):
    """And training is what it is without averages."""
    seen = {}

    def evaluate(network, name):
        seen[name.file] = state_of(network)
        return ValidationResult({"dev": 0.5})

    trainer, _ = train(evaluate=evaluate, max_epochs=2, **EMA)
    weights = state_of(trainer.step.network)
    for name in ("epoch.1.pt", "epoch.2.pt"):
        file = read_checkpoint(tmp_path / "networks" / name)
        assert_same(dict(file.state), seen[name])
    assert_same(file.unaveraged_state, weights)
    without, _ = train(max_epochs=2, **{**EMA, "ema_decay": None})
    assert_same(state_of(without.step.network), weights)
    assert not torch.equal(seen["epoch.2.pt"]["output.weight"], weights["output.weight"])


def test_each_step_moves_the_averages(train, tmp_path):
    """Held against the recurrence over the weights of each of the ten steps."""
    one_step = {"checkpoint_interval_steps": 1, "evaluation_interval_steps": 1}
    train(eers=[0.5] * 20, max_epochs=2, **one_step, **EMA)
    files = sorted(
        (tmp_path / "networks").glob("epoch.*.pt"),
        key=lambda path: read_checkpoint(path).progress["step"],
    )
    steps = [read_checkpoint(path) for path in files]
    assert [file.progress["step"] for file in steps] == list(range(1, 11))
    average = steps[0].state["output.weight"].double()
    for file in steps[1:]:
        weights = file.unaveraged_state["output.weight"].double()
        average = 0.8 * average + (1 - 0.8) * weights
        torch.testing.assert_close(file.state["output.weight"].double(), average, rtol=0, atol=1e-7)


class Doubled(Plain):
    """A step that begins with other weights than those that were built."""

    def begin(self, network):
        with torch.no_grad():
            network.output.weight *= 2


def test_averages_begin_with_the_weights_that_a_step_begins_with(train, tmp_path):
    kind = f"{__name__}.Doubled"
    one_step = {"checkpoint_interval_steps": 1, "evaluation_interval_steps": 1}
    train(eers=[0.5] * 9, training_step=kind, max_steps=1, **one_step, **EMA)
    file = read_checkpoint(next((tmp_path / "networks").glob("*.pt")))
    torch.manual_seed(0)
    begun, _ = train(training_step=kind, max_steps=0, **EMA)
    doubled = begun.step.network.output.weight.detach().double()
    expected = 0.8 * doubled + 0.2 * file.unaveraged_state["output.weight"].double()
    torch.testing.assert_close(file.state["output.weight"].double(), expected, rtol=0, atol=1e-7)


def test_averages_may_begin_and_end_later(train, tmp_path):
    """The weights are those of a run without; the averages begin with those that are there."""
    plain, _ = train(max_epochs=2, **{**EMA, "ema_decay": None})
    first = read_checkpoint(tmp_path / "networks" / "epoch.1.pt")
    assert first.unaveraged_state is None
    begun, _ = train(start="epoch.1.pt", max_epochs=2, **EMA)
    assert_same(state_of(begun.step.network), state_of(plain.step.network))
    later = read_checkpoint(tmp_path / "networks" / "epoch.2.pt")
    lengths = []
    for file_state in (first.state, later.unaveraged_state):
        lengths.append(float((later.state["output.weight"] - file_state["output.weight"]).norm()))
    whole = float((first.state["output.weight"] - later.unaveraged_state["output.weight"]).norm())
    assert max(lengths) < whole
    train(max_epochs=1, **EMA)
    ended, _ = train(start="epoch.1.pt", max_epochs=2, **{**EMA, "ema_decay": None})
    assert_same(state_of(ended.step.network), state_of(plain.step.network))
    last = read_checkpoint(tmp_path / "networks" / "epoch.2.pt")
    assert last.unaveraged_state is None
    fill_network(ended.step.network, last)


def test_the_numbers_of_a_loss_are_averaged_with_the_network(train, tmp_path):
    """And its run goes on exactly, under a class of torch's optimisers."""
    options = {**EMA, "loss": "oc_softmax", "optimizer": "torch.optim.NAdam"}
    path = tmp_path / "networks" / "epoch.2.pt"
    train(max_epochs=2, **options)
    whole = read_checkpoint(path)
    name = next(name for name in whole.state if name.startswith("trained_loss."))
    assert not torch.equal(whole.state[name], whole.unaveraged_state[name])
    train(max_epochs=1, **options)
    train(start="epoch.1.pt", max_epochs=2, **options)
    again = read_checkpoint(path)
    for entry in ("state", "unaveraged_state", "optimiser_state"):
        first = {**getattr(again, entry), "class": 0}
        assert_same(first, {**getattr(whole, entry), "class": 0})
