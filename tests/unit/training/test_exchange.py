"""Every step of a run sends its gradients in the same layout; finding it changes nothing."""

import random

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from asdf.distributed.world import World
from asdf.training.passes import Compiled, exchange_gradients, exchange_now

TWO = World(size=2)


@pytest.fixture
def group(tmp_path):
    """A process group of this process alone: layouts do not depend on the number of processes."""
    store = dist.FileStore(str(tmp_path / "store"), 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Net(nn.Module):
    """Its parameters are registered in another order than they are used; one of them is frozen."""

    def __init__(self):
        super().__init__()
        self.last = nn.Linear(300, 2)
        self.frozen = nn.Linear(6, 6).requires_grad_(False)
        self.first = nn.Linear(6, 300)
        self.norm = nn.BatchNorm1d(300)
        self.dropout = nn.Dropout(0.5)

    def forward(self, waveforms_BT):
        embeddings_BE = self.dropout(self.norm(self.first(self.frozen(waveforms_BT))))
        return embeddings_BE, self.last(embeddings_BE)


def layout(model) -> list[list[str]]:
    """The names of the parameters in the order in which they lie in each bucket."""
    names = {id(parameter): name for name, parameter in model.module.network.named_parameters()}
    buckets = model.reducer._get_zeros_like_grad_buckets()
    return [[names[id(parameter)] for parameter in bucket.parameters()] for bucket in buckets]


def take_step(model) -> list[list[str]]:
    """The layout in which the step sent its gradients."""
    output = model(torch.randn(4, 6))[1]
    used = layout(model)
    output.sum().backward()
    return used


def test_the_first_step_has_the_layout_of_every_other(group):
    model = exchange_gradients(Net(), TWO)
    # From the end, as gradients come, and not by the order in which forward happens to use them.
    expected = [
        ["norm.bias", "norm.weight", "first.bias", "first.weight", "last.bias", "last.weight"]
    ]
    assert [take_step(model) for _ in range(3)] == [expected] * 3


def test_the_pass_that_finds_the_layout_leaves_no_trace(group):
    network = Net()
    sources = (torch.manual_seed, np.random.seed, random.seed)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    drawn = []
    for exchange in (False, True):
        for source in sources:
            source(5)
        model = exchange_gradients(network, TWO) if exchange else None
        drawn.append((torch.rand(1).item(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]
    torch.testing.assert_close(network.state_dict(), before, rtol=0, atol=0)
    assert all(parameter.grad is None for parameter in network.parameters())
    assert model is not None and network.norm.num_batches_tracked == 0


def test_minibatches_before_the_last_of_a_step_stay_at_home(group):
    network = Net()
    model = exchange_gradients(network, TWO)
    clips = torch.randn(2, 4, 6)
    network.eval()
    with exchange_now(model, False):
        model(clips[0])[1].sum().backward()
    with exchange_now(model, True):
        model(clips[1])[1].sum().backward()
    summed = network.first.weight.grad.clone()
    network.zero_grad(set_to_none=True)
    network(clips.flatten(0, 1))[1].sum().backward()
    torch.testing.assert_close(summed, network.first.weight.grad, rtol=1e-5, atol=1e-6)


def test_a_compiled_network_is_not_compiled_for_it(group):
    network = Net()
    compiled = Compiled(network, 4)
    calls = []
    compiled._forward = lambda waveforms_BT: (
        calls.append(len(waveforms_BT)) or network(waveforms_BT)
    )
    model = exchange_gradients(compiled, TWO)
    assert calls == []
    take_step(model)
    assert calls == [4]


def test_one_process_exchanges_nothing():
    network = Net()
    assert exchange_gradients(network, World()) is network
    with exchange_now(network, False):
        network(torch.randn(4, 6))[1].sum().backward()
    assert network.first.weight.grad is not None
