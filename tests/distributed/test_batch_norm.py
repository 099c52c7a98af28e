"""Batch norm over several processes is that of one process with all the utterances."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

from asdf.distributed.batch_norm import SynchronisedBatchNorm, synchronise_batch_norm
from asdf.errors import UsageError
from tests.distributed.worlds import start_processes

SIZES = (3, 5, 2)  # utterances of the minibatch of each rank


def network() -> nn.Module:
    torch.manual_seed(1)
    layers = nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.Flatten(2), nn.BatchNorm1d(4, affine=False)
    )
    nn.init.uniform_(layers[1].weight)
    nn.init.uniform_(layers[1].bias)
    return layers.double()


def minibatch(processes: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    sizes = (sum(SIZES[:processes]), 2, 7, 6)
    return 3 + 2 * torch.randn(sizes, generator=generator, dtype=torch.float64)


def outcome(layers: nn.Module, x_BC: Tensor) -> dict[str, Tensor]:
    """Return output, gradients of input and parameters of a summed loss, and buffers."""
    x_BC = x_BC.clone().requires_grad_()
    y_BC = layers(x_BC)
    (y_BC**3 + y_BC).sum().backward()
    gradients = {f"gradient {name}": p.grad for name, p in layers.named_parameters()}
    return {
        "output": y_BC.detach(),
        "input": x_BC.grad,
        **gradients,
        **dict(layers.named_buffers()),
    }


def work(rank: int, processes: int, folder: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=processes
    )
    layers = synchronise_batch_norm(network())
    local = minibatch(processes).split(SIZES[:processes])[rank]
    torch.save(outcome(layers, local), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.slow
def test_several_processes_normalise_as_one_batch(tmp_path: Path) -> None:
    processes = len(SIZES)
    start_processes(work, (processes, str(tmp_path)), processes)
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(processes)]
    expected = outcome(network(), minibatch(processes))
    for name, value in expected.items():
        if name in ("output", "input"):
            actual = torch.cat([part[name] for part in parts])
        elif name.startswith("gradient"):
            actual = torch.stack([part[name] for part in parts]).sum(dim=0)
        else:
            actual = parts[0][name]
            assert all(torch.equal(part[name], actual) for part in parts)
        torch.testing.assert_close(actual, value, rtol=1e-9, atol=1e-9)


def test_parameters_names_and_evaluation_stay_as_they_are() -> None:
    layers = network()
    x_BC = minibatch(1)
    layers(x_BC)
    weights = dict(layers.named_parameters())
    expected_state = {name: value.clone() for name, value in layers.state_dict().items()}
    expected = layers.eval()(x_BC)
    synchronised = synchronise_batch_norm(layers)
    assert isinstance(synchronised[1], SynchronisedBatchNorm)
    assert not synchronised[1].training
    assert all(weights[name] is value for name, value in synchronised.named_parameters())
    assert synchronised.state_dict().keys() == expected_state.keys()
    assert torch.equal(synchronised(x_BC), expected)


def test_a_cumulative_mean_is_refused() -> None:
    with pytest.raises(UsageError, match=r"momentum=None .* computing.sync_batch_norm = False"):
        synchronise_batch_norm(nn.BatchNorm1d(3, momentum=None))
