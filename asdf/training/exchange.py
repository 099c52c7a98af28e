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

from asdf.distributed.sharding import ShardedNetwork, divides, group_size, is_sharded
from asdf.distributed.world import World
from asdf.networks.units import check_divisible, encoder_units
from asdf.runs.log import LOG
from asdf.training.training_sections import TrainingSections

# Buffers, such as AASIST's 30 of batch norms, are sent by `World.broadcast_buffers` when a network
# is saved or scored, not in each step. torch 2.14 renamed the option, with a warning for the old
# name.
_OPTIONS = inspect.signature(DistributedDataParallel).parameters
_SENDS = "forward_sync_buffers" if "forward_sync_buffers" in _OPTIONS else "broadcast_buffers"
_NO_BUFFERS: dict[str, Any] = {_SENDS: False}


def exchange_gradients(
    network: nn.Module, world: World, compression: str | None = None
) -> nn.Module:
    """Return the network with gradients averaged over the ranks, ready for its first step.

    In a world of one, the network is returned unchanged, as is a sharded one, which exchanges
    gradients itself.

    Args:
        compression: Number format from `computing.gradient_compression`, in which each rank divides
            its gradient by the number of ranks before the sum.
    """
    if world.size == 1 or is_sharded(network):
        return network
    ids = [world.device] if world.device.type == "cuda" else None
    model = DistributedDataParallel(
        _BareOrWhole(network),
        device_ids=ids,
        # Gradients are views of the buckets, so there is no second copy in memory.
        gradient_as_bucket_view=True,
        **_NO_BUFFERS,
    )
    if compression is not None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks

        by_format = {"bf16": hooks.bf16_compress_hook, "fp16": hooks.fp16_compress_hook}
        # torch accepts a hook only before the first backward pass.
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
    """Shard `network` in place if the settings say so and the run has several processes.

    Args:
        dtype: Type in which its encoder layers are gathered; None for float32.

    Raises:
        UsageError: it cannot be sharded.
    """
    if not settings.computing.shard_network:
        return None
    if not divides(settings.computing, world):
        LOG.info("computing.shard_network: one process, so the network is not sharded")
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
    """Return a block in which a backward pass sends its gradients (`now`) or only sums.

    A sharded network sends them in every pass, since local sums would need a whole gradient.
    """
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
