"""A divided network in this process: alone in its group, or as one of three that never speak.

torch's backend `fake` makes a process a rank of a larger group, whose messages are lost: enough for
what only this rank's part decides.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode

from asdf.distributed.sharding import (
    ShardedNetwork,
    copies_of,
    divided_like,
    divides,
    gathered,
    group_size,
    is_sharded,
    local_part,
    whole_tensor,
)
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.networks.tuning.low_rank import update_map
from asdf.settings.sections import Computing, Lora, Sections
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.gradients import clip_and_measure, gradient_norm
from asdf.training.optimiser_state import load_optimiser_state
from asdf.training.optimisers import build_optimiser
from asdf.training.training_progress import Progress
from asdf.training.weight_average import WeightAverage

RANKS = 3
# torch.chunk of four rows for three processes.
ROWS = {0: slice(0, 2), 1: slice(2, 4), 2: slice(4, 4)}


class Net(nn.Module):
    """Two layers, of which the first is a unit, and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 6)
        self.norm = nn.BatchNorm1d(6)
        self.output = nn.Linear(6, 4)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.output(self.norm(self.first(inputs)))


@pytest.fixture
def alone(tmp_path) -> Iterator[None]:
    """A group of this process alone."""
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/group", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture(params=range(RANKS))
def rank(request) -> Iterator[int]:
    """The rank of this process in a group of three."""
    dist.init_process_group("fake", store=FakeStore(), rank=request.param, world_size=RANKS)
    yield request.param
    dist.destroy_process_group()


def pair(dtype: torch.dtype | None = None) -> tuple[Net, ShardedNetwork]:
    """Return a network, and another with the same numbers that is divided."""
    torch.manual_seed(0)
    network = Net()
    divided = Net()
    divided.load_state_dict(network.state_dict())
    return network, ShardedNetwork(divided, [divided.first], World(), dtype)


def noise() -> torch.Tensor:
    return torch.randn(7, 5, generator=torch.Generator().manual_seed(1))


def train(network: nn.Module, optimiser: torch.optim.Optimizer) -> None:
    network(noise()).square().mean().backward()
    optimiser.step()
    optimiser.zero_grad()


def adam(network: nn.Module) -> tuple[torch.optim.Optimizer, Sections]:
    settings = Sections()
    settings.network.optimizer = "adam"
    settings.network.initial_learning_rate = 0.01
    return build_optimiser(network, settings), settings


@pytest.mark.parametrize(
    ("shard", "processes", "expected"),
    [(True, 2, True), (True, 1, False), (False, 2, False)],
)
def test_a_process_alone_has_the_network_whole(shard: bool, processes: int, expected: bool) -> None:
    computing = replace(Computing(), shard_network=shard)
    assert divides(computing, World(size=processes)) is expected


def test_a_divided_network_computes_and_learns_what_a_whole_one_does(alone) -> None:
    network, sharded = pair()
    assert is_sharded(sharded.network) and not is_sharded(network)
    outputs = [one(noise()) for one in (network, sharded.network)]
    assert torch.equal(*outputs)
    for output in outputs:
        output.square().mean().backward()
    for whole, part in zip(network.parameters(), sharded.network.parameters(), strict=True):
        assert torch.equal(whole.grad, whole_tensor(part.grad))


def test_within_the_block_it_is_whole_and_has_the_buffers_of_now(alone) -> None:
    network, sharded = pair()
    for one in (network, sharded.network):
        one(noise()).sum().backward()  # which moves the statistics of batch norm
    with sharded.whole() as copied:
        assert not is_sharded(copied)
        for name, value in network.state_dict().items():
            assert torch.equal(copied.state_dict()[name], value), name
        assert torch.equal(copied.eval()(noise()), network.eval()(noise()))
    assert all(parameter.numel() == 0 for parameter in copied.parameters())


def test_units_compute_in_bf16_and_sum_gradients_in_float32(alone) -> None:
    _, sharded = pair(torch.bfloat16)
    seen = {}
    divided = sharded.network
    divided.first.register_forward_hook(lambda _m, inputs, out: seen.update(first=(inputs, out)))
    divided.output.register_forward_hook(lambda _m, inputs, out: seen.update(output=out))
    with torch.autocast("cpu", torch.bfloat16):
        divided(noise()).float().sum().backward()
    (given,), computed = seen["first"]
    assert given.dtype == torch.float32, "inputs are cast where they are used"
    assert computed.dtype == torch.bfloat16
    assert {parameter.dtype for parameter in divided.parameters()} == {torch.float32}
    assert {local_part(one.grad).dtype for one in divided.parameters()} == {torch.float32}


def test_gradients_may_be_summed_in_bf16(alone) -> None:
    network, _ = pair()
    divided = copy.deepcopy(network)
    ShardedNetwork(divided, [divided.first], World(), summed=torch.bfloat16)
    for one in (network, divided):
        one(noise()).square().mean().backward()
    for whole, part in zip(network.parameters(), divided.parameters(), strict=True):
        assert local_part(part.grad).dtype == torch.float32
        assert torch.equal(whole_tensor(part.grad), whole.grad.bfloat16().float())


def test_a_rank_takes_its_rows_of_a_whole_tensor(rank: int) -> None:
    network = nn.Linear(3, 4, bias=False)
    torch.manual_seed(0)
    sharded = ShardedNetwork(network, [], World(rank=rank, size=RANKS))
    whole = torch.arange(12.0).reshape(4, 3)
    part = divided_like(sharded.network.weight, whole)
    assert torch.equal(local_part(part), whole[ROWS[rank]])
    assert part.shape == whole.shape
    assert local_part(part).shape == local_part(sharded.network.weight).shape
    # A part of a file would hold all of the file in memory.
    assert local_part(part).untyped_storage().data_ptr() != whole.untyped_storage().data_ptr()
    # Of another shape it is none of this parameter's, such as the step of Adam.
    assert divided_like(sharded.network.weight, step := torch.tensor(2.0)) is step


def test_only_the_main_rank_gets_the_gathered_numbers(rank: int) -> None:
    weight = ShardedNetwork(nn.Linear(3, 4), [], World(rank=rank, size=RANKS)).network.weight
    assert gathered(weight).shape == ((4, 3) if rank == 0 else (0,))


def test_a_rank_without_numbers_measures_none(rank: int) -> None:
    network = ShardedNetwork(nn.Linear(3, 4, bias=False), [], World(rank=rank, size=RANKS)).network
    optimiser = torch.optim.SGD(network.parameters(), 0.1)
    held = local_part(network.weight)
    network.weight.grad = divided_like(network.weight, torch.full((4, 3), -3.0))
    off = torch.amp.GradScaler("cpu", enabled=False)
    largest = clip_and_measure(optimiser, off, network, None)
    assert largest.item() == (3.0 if held.numel() else 0.0)


def test_norms_and_limits_are_those_of_the_whole_gradient(alone) -> None:
    network, sharded = pair()
    off = torch.amp.GradScaler("cpu", enabled=False)
    measured = []
    for one in (network, sharded.network):
        one(noise()).square().sum().backward()
        optimiser = torch.optim.SGD(one.parameters(), 0.1)
        norms = (gradient_norm(optimiser, off), clip_and_measure(optimiser, off, one, 0.5))
        measured.append([*norms, gradient_norm(optimiser, off)])
    assert all(isinstance(norm, torch.Tensor) for norm in measured[1])
    assert torch.equal(torch.stack(measured[0]), torch.stack(measured[1]))


def test_a_checkpoint_of_a_divided_network_is_that_of_a_whole_one_and_goes_on(alone) -> None:
    contents = []
    for one in (pair()[0], pair()[1].network):
        optimiser, settings = adam(one)
        train(one, optimiser)
        off = torch.amp.GradScaler("cpu", enabled=False)
        parts = (one, optimiser, off, Progress(epochs=1, step=1), settings)
        contents.append(collect_checkpoint(*parts, World(), HostCopies()))
    whole, divided = contents
    assert whole.state.keys() == divided.state.keys()
    for name, value in whole.state.items():
        assert type(divided.state[name]) is torch.Tensor
        # Adam's kernel for several tensors rounds another way than that for divided ones.
        torch.testing.assert_close(divided.state[name], value, rtol=0, atol=1e-6)
    moments = whole.optimiser_state["state"]
    for number, values in divided.optimiser_state["state"].items():
        for name, value in values.items():
            torch.testing.assert_close(value, moments[number][name], rtol=1e-5, atol=1e-9)

    going_on = pair()[1].network
    optimiser, _ = adam(going_on)
    load_optimiser_state(optimiser, whole.optimiser_state)
    loaded = optimiser.state[going_on.output.weight]["exp_avg"]
    assert is_sharded(going_on) and hasattr(loaded, "to_local")


def test_averages_of_a_divided_network_move_and_swap(alone) -> None:
    network, sharded = pair()
    values = []
    for one in (network, sharded.network):
        average = WeightAverage(one, 0.75)
        optimiser = torch.optim.SGD(one.parameters(), 0.1)
        train(one, optimiser)
        average.update()
        with average.in_use():
            values.append([whole_tensor(parameter).clone() for parameter in one.parameters()])
        values.append([whole_tensor(parameter).clone() for parameter in one.parameters()])
    for averaged, expected in zip(values[2] + values[3], values[0] + values[1], strict=True):
        assert torch.equal(averaged, expected)


def test_the_weight_of_an_updated_layer_is_the_part_until_it_is_gathered(alone) -> None:
    linear = nn.Linear(4, 4)
    update_map(linear, Lora(rank=2), "linear")
    with torch.no_grad():
        linear.lora_B.normal_()
    updated = linear.weight.detach().clone()
    assert not torch.equal(updated, linear.base_weight)
    network = nn.Sequential(linear)
    ShardedNetwork(network, [linear], World())
    assert linear.weight is linear.base_weight
    inputs = torch.randn(3, 4)
    expected = inputs @ updated.T + whole_tensor(linear.bias)
    assert torch.allclose(network(inputs), expected, atol=1e-6)


class Sent(TorchDispatchMode):
    """Notes each exchange: its operation, the ranks of its group, and the numbers in it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[int], list[int]]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            place = 1 if "allreduce" in func.name() else 2
            group = dist.ProcessGroup.unbox(args[place])
            tensors = args[0] if isinstance(args[0], list) else args[:2]
            numbers = [tensor.numel() for tensor in tensors]
            name = func.name().removeprefix("c10d::").strip("_")
            self.seen.append((name, dist.get_process_group_ranks(group), numbers))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("group", [8, 0])
def test_of_64_ranks_a_group_gathers_layers_and_groups_add_up_gradients(group: int) -> None:
    """Rows are divided by 8 at most, so that with a group of 8 each process has one at most."""
    dist.init_process_group("fake", store=FakeStore(), rank=19, world_size=64)
    try:
        network = Net()
        ShardedNetwork(network, [network.first], World(rank=19, size=64), group=group)
        with Sent() as sent:
            network(noise()).square().mean().backward()
        shared = local_part(network.output.weight).numel()
        copied = copies_of(network.output.weight)
    finally:
        dist.destroy_process_group()
    node = list(range(16, 24)) if group else list(range(64))
    across = list(range(3, 64, 8))
    # Rows of (first.weight, bias) and of the rest, filled up to as many as there are processes.
    first, rest = 5 + 1, 1 + 1 + 6 + 1
    expected = []
    # The layer that is a unit is gathered again for its gradient.
    for numbers in (rest, first, first):
        expected.append(("allgather_base", node, [len(node) * numbers, numbers]))
    for numbers in (rest, first):
        expected.append(("reduce_scatter_base", node, [numbers, len(node) * numbers]))
        if group:
            expected.append(("allreduce", across, [numbers]))
    assert sent.seen == expected
    # Of four rows, this rank of its group (the fourth), or of all (the 20th), has one or none.
    assert (shared, copied) == ((6, 8) if group else (0, 1))


def test_groups_divide_the_number_of_processes() -> None:
    computing = replace(Computing(), shard_network=True)
    six = World(size=6)
    assert group_size(computing, six) == 6
    assert group_size(replace(computing, shard_group=3), six) == 3
    with pytest.raises(UsageError, match="6 processes cannot be divided into groups of 4"):
        group_size(replace(computing, shard_group=4), six)


class Told(World):
    """One of two nodes' processes; the others answer as it does."""

    def agree(self, value: Any) -> Any:
        return value

    def sum(self, numbers: Any) -> Any:
        return numbers


def test_a_group_may_be_a_node_whose_ranks_follow_each_other() -> None:
    computing = replace(Computing(), shard_network=True, shard_group="node")
    world = Told(rank=4, size=6, local_rank=1, local_size=3)
    assert group_size(computing, world) == 3
    with pytest.raises(UsageError, match="with consecutive ranks"):
        group_size(computing, replace(world, local_rank=2))
