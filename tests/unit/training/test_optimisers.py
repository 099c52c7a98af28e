"""Parameter groups, the steps of each optimiser, and going on from a checkpoint."""

import pytest
import torch
from torch import nn

from asdf.errors import AsdfError, UsageError
from asdf.training.optimisers import build_optimiser, load_optimiser_state
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


@pytest.mark.parametrize(
    ("name", "kind", "options"),
    [
        ("sgd", torch.optim.SGD, {"momentum": 0.9}),
        ("adam", torch.optim.Adam, {"betas": (0.8, 0.99)}),
        ("adamw", torch.optim.AdamW, {"betas": (0.8, 0.99)}),
    ],
)
def test_a_step_is_that_of_torchs_own_optimiser(name, kind, options):
    chosen = network_settings(
        optimizer=name, initial_learning_rate=0.1, weight_decay=0.01, weight_decay_skiplist=()
    )
    chosen.network.momentum, chosen.network.adam_betas = 0.9, (0.8, 0.99)
    torch.manual_seed(1)
    ours, theirs = nn.Linear(3, 2), nn.Linear(3, 2)
    theirs.load_state_dict(ours.state_dict())
    steps = (
        build_optimiser(ours, chosen),
        kind(theirs.parameters(), lr=0.1, weight_decay=0.01, **options),
    )
    assert type(steps[0]) is kind
    for _ in range(3):
        # The same gradients for both: a product may depend on where in memory its factors lie.
        for ours_part, theirs_part in zip(ours.parameters(), theirs.parameters(), strict=True):
            ours_part.grad = torch.randn_like(ours_part)
            theirs_part.grad = ours_part.grad.clone()
        for optimiser in steps:
            optimiser.step()
    # Ours may be torch's fused kernels, which round in other places: three steps of some ten
    # operations each, of numbers below 1.
    for ours_part, theirs_part in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(ours_part, theirs_part, rtol=0, atol=30 * 2**-24)


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


def test_a_state_of_another_optimiser_or_of_other_groups_is_refused():
    state = trained(nn.Linear(3, 2), network_settings(optimizer="sgd")).state_dict()
    for other in (
        build_optimiser(nn.Linear(3, 2), network_settings(optimizer="adam")),
        build_optimiser(
            nn.Linear(3, 2), network_settings(optimizer="sgd", weight_decay_skiplist=("bias",))
        ),
        build_optimiser(nn.Linear(3, 2, bias=False), network_settings(optimizer="sgd")),
    ):
        with pytest.raises(
            AsdfError, match=r"another optimiser.*network\.optimizer.*another paths\.system_folder"
        ):
            load_optimiser_state(other, state)
