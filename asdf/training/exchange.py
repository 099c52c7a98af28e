"""The exchange of gradients between processes.

Invariant: every step adds up the gradients of the ranks in the same order, the first one after a
start like any other. With three or more ranks the order matters to the last bit, and a resumed run
has to take the steps of an uninterrupted one.

DistributedDataParallel sends gradients in buckets, and the order in which the numbers of the ranks
are added follows from their position in a bucket. After its first backward pass it lays out its
buckets again, in the order in which the gradients came. So that no real step sees the first layout,
that pass is made here, over the bare parameters: it runs nothing of the network, draws no random
number, and defines the order, from the last parameter to the first. Gradients come in that order,
which lets the exchange overlap with the backward pass. `find_unused_parameters=True` would fix the
layout as well, but searches the whole graph in each step.
"""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from asdf.distributed.sharding import ShardedNetwork, divides, group_size, is_sharded
from asdf.distributed.world import World
from asdf.networks.units import check_divisible, encoder_units
from asdf.runs.log import LOG
from asdf.training.training_sections import TrainingSections

# Buffers, 30 in AASIST's batch norms, are sent by `World.broadcast_buffers` when a network is saved
# or scored, and not in each step. torch 2.14 gave the option another name, and warns of the old
# one.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_SENDS = "forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"
_NO_BUFFERS: dict[str, Any] = {_SENDS: False}


def exchange_gradients(
    network: nn.Module, world: World, compression: str | None = None
) -> nn.Module:
    """Return the network with its gradients averaged over the ranks, ready for its first step.

    A network in a world of one is returned as it is, and one that is divided over the processes,
    since that exchanges gradients by itself.

    Args:
        compression: Number format of `computing.gradient_compression`; each rank divides its
            gradient by their number in that format before it is added up.
    """
    if world.size == 1 or is_sharded(network):
        return network
    ids = [world.device] if world.device.type == "cuda" else None
    model = DistributedDataParallel(
        _BareOrWhole(network),
        device_ids=ids,
        # Gradients lie in the buckets themselves: no second copy of them is in memory.
        gradient_as_bucket_view=True,
        **_NO_BUFFERS,
    )
    if compression is not None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

        by_format = {"bf16": hooks.bf16_compress_hook, "fp16": hooks.fp16_compress_hook}
        # torch takes a hook before the first backward pass only.
        model.register_comm_hook(None, by_format[compression])
    model(None).backward()
    for parameter in network.parameters():
        parameter.grad = None
    return model


def shard(
    network: nn.Module,
    settings: TrainingSections,
    world: World,
    dtype: torch.dtype | None,
) -> ShardedNetwork | None:
    """Divide `network` in place if the settings say so, and the run has more than one process.

    Args:
        dtype: Type in which its encoder layers are gathered; None: float32.

    Raises:
        UsageError: it cannot be divided.
    """
    if not settings.computing.shard_network:
        return None
    if not divides(settings.computing, world):
        LOG.info("computing.shard_network: the run has one process, so the network stays whole")
        return None
    check_divisible(network, settings.network.network_class)
    units = encoder_units(network)
    summed = torch.bfloat16 if settings.computing.gradient_compression else None
    group = group_size(settings.computing, world)
    sharded = ShardedNetwork(network, units, world, dtype, summed, group)
    LOG.info(
        "the network is divided over %d processes, which gather its %d encoder layers "
        "one at a time%s",
        group,
        len(units),
        f", in {world.size // group} groups" if group < world.size else "",
    )
    return sharded


def exchange_now(model: nn.Module, now: bool) -> AbstractContextManager[Any]:
    """Open a block in which a backward pass sends its gradients (`now`), or only adds them up.

    A divided network sends them in every pass: to add them up, each process would have to hold all.
    """
    if now or not isinstance(model, DistributedDataParallel):
        return nullcontext()
    return model.no_sync()


class _BareOrWhole(nn.Module):
    """The network. Called with None it returns 0, computed from every parameter that learns."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, waveforms: Tensor | None, **inputs: Any) -> Any:
        if waveforms is not None:
            return self.network(waveforms, **inputs)
        learning = [parameter for parameter in self.parameters() if parameter.requires_grad]
        return 0.0 * torch.stack([parameter.sum() for parameter in learning]).sum()
