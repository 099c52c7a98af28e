"""Counters of batch norms that are increased together."""

import copy

import torch
from torch import nn

from asdf.distributed.batch_norm import SynchronisedBatchNorm
from asdf.training.passes import batches_counted_together


class Norms(nn.Module):
    """One that is computed twice, one that is not computed, and one without a momentum."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = nn.BatchNorm1d(3)
        self.unused = nn.BatchNorm1d(3)
        self.averaging = nn.BatchNorm1d(3, momentum=None)
        self.once = SynchronisedBatchNorm.like(nn.BatchNorm1d(3))
        self.bare = nn.BatchNorm1d(3, track_running_stats=False)

    def forward(self, x_BC):
        x_BC = self.averaging(self.twice(self.twice(x_BC)))
        self.once.num_batches_tracked.add_(1)
        return self.bare(x_BC)


def test_counters_are_those_that_each_norm_would_have():
    torch.manual_seed(0)
    network = Norms().train()
    alone = copy.deepcopy(network)
    for _ in range(3):
        x_BC = torch.randn(4, 3)
        expected = alone(x_BC)
        with batches_counted_together(network):
            result = network(x_BC)
        assert torch.equal(result, expected)
    state = network.state_dict()
    assert {name: state[name].tolist() for name in state if "batches" in name} == {
        "twice.num_batches_tracked": 6,
        "unused.num_batches_tracked": 0,
        "averaging.num_batches_tracked": 3,
        "once.num_batches_tracked": 3,
    }
    for name, tensor in alone.state_dict().items():
        assert torch.equal(state[name], tensor), name
    assert network.twice.num_batches_tracked is network.twice._buffers["num_batches_tracked"]


def test_networks_in_evaluation_count_nothing():
    network = Norms().eval()
    with batches_counted_together(network):
        network.twice(torch.randn(4, 3))
    assert network.twice.num_batches_tracked == 0


def test_all_counters_are_one_operation(monkeypatch):
    network = nn.Sequential(*(nn.BatchNorm1d(3) for _ in range(4))).train()
    sizes = []
    add = torch._foreach_add_
    monkeypatch.setattr(
        torch, "_foreach_add_", lambda counters, n: (sizes.append(len(counters)), add(counters, n))
    )
    with batches_counted_together(network):
        network(torch.randn(4, 3))
    assert sizes == [4]
    assert [norm.num_batches_tracked.item() for norm in network] == [1, 1, 1, 1]
