"""A copy on the host has the tensors' bytes, whatever happens to the tensors afterwards."""

import io

import torch
from torch import nn

from asdf.training.checkpoints import HostCopies


def saved(content) -> bytes:
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def trained() -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3))
    network[2].weight = network[0].weight  # shared, and saved once
    network.register_buffer("part", torch.arange(10.0)[2:8:3])
    network.register_buffer("empty", torch.zeros(0, dtype=torch.int64))
    network.register_buffer("none", torch.zeros(0))
    optimiser = torch.optim.Adam(network.parameters())
    network(torch.rand(5, 3)).sum().backward()
    optimiser.step()
    return network, optimiser


def test_a_copy_is_saved_as_what_it_is_of_and_does_not_change_with_it():
    network, optimiser = trained()
    content = {
        "network": network.state_dict(),
        "optimiser": optimiser.state_dict(),
        "rest": [1, (2.5, torch.ones(2, dtype=torch.bfloat16)), "text", None],
    }
    before = saved(content)
    copied = HostCopies().take(content)
    assert saved(copied) == before
    assert copied["network"]._metadata == content["network"]._metadata
    optimiser.step()
    network[1].running_mean += 1
    assert saved(content) != before
    assert saved(copied) == before
