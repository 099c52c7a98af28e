"""The exchange of gradients between processes.

Invariant: every step sums the gradients of the ranks in the same order, including the first step
after a start. With three or more ranks the order affects the last bits, and a resumed run has to
take the steps of an uninterrupted one.

DistributedDataParallel sends gradients in buckets, and the order of summation depends on a number's
position in a bucket. After its first backward pass, it rebuilds the buckets in the order in which
the gradients arrived. This pass is therefore made here, on the bare parameters, before any real
step: it runs none of the network, draws no random numbers, and sets the order from the last
parameter to the first. Gradients arrive in that order, so that their exchange overlaps with the
backward pass. `find_unused_parameters=True` would also fix the layout, but searches the whole graph
in each step.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from asdf.distributed.world import World

# Buffers, such as AASIST's 30 of batch norms, are sent by `World.broadcast_buffers` when a network
# is saved or scored, not in each step. torch 2.14 renamed the option, with a warning for the old
# name.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_SENDS = "forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"
_NO_BUFFERS: dict[str, Any] = {_SENDS: False}


def exchange_gradients(network: nn.Module, world: World) -> nn.Module:
    """Return the network with gradients averaged over the ranks, ready for its first step.

    In a world of one, the network is returned unchanged.
    """
    if world.size == 1:
        return network
    ids = [world.device] if world.device.type == "cuda" else None
    model = DistributedDataParallel(
        _BareOrWhole(network),
        device_ids=ids,
        # Gradients are views of the buckets, so there is no second copy in memory.
        gradient_as_bucket_view=True,
        **_NO_BUFFERS,
    )
    model(None).backward()
    for parameter in network.parameters():
        parameter.grad = None
    return model


def exchange_now(model: nn.Module, now: bool) -> AbstractContextManager[Any]:
    """Return a block in which a backward pass sends its gradients (`now`) or only sums."""
    if now or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


class _BareOrWhole(nn.Module):
    """The network; a call with None returns 0, computed from every trained parameter."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, waveforms: Tensor | None, **inputs: Any) -> Any:
        if waveforms is not None:
            return self.network(waveforms, **inputs)
        learning = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return 0.0 * torch.stack([parameter.sum() for parameter in learning]).sum()
