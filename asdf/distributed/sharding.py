"""A network sharded over the processes; each gathers a unit to compute it.

Invariants: names, shapes, gradients, steps and saved content are those of the whole network. All
processes gather a unit together, so each computes the same units equally often. This holds in
training, but not in scoring, which uses a whole copy.

Source: Zhao et al., "PyTorch FSDP", VLDB 2023, implemented by torch's `fully_shard`.
"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from asdf.distributed.outlines import receive
from asdf.distributed.world import World
from asdf.errors import UsageError
from asdf.settings.sections import Computing


def divides(computing: Computing, world: World) -> bool:
    """Return whether the network is sharded in training; a single process has it whole."""
    return computing.shard_network and world.size > 1


def check_group(computing: Computing, processes: int) -> None:
    """Refuse a group size that does not divide the number of processes.

    Raises:
        UsageError: it does not divide the number; the message names both.
    """
    chosen = computing.shard_group
    if isinstance(chosen, int) and processes % chosen:
        raise UsageError(
            f"computing.shard_group = {chosen}: {processes} processes cannot be divided into "
            f"groups of {chosen}. Choose a number that divides {processes}, or start another "
            "number of them."
        )


def group_size(computing: Computing, world: World) -> int:
    """Return the number of processes that share a sharded network; all ranks call this together.

    Raises:
        UsageError: the processes cannot be split into groups of that size.
    """
    check_group(computing, world.size)
    chosen = computing.shard_group
    if chosen is None:
        return world.size
    if chosen != "node":
        return chosen
    # A group has consecutive ranks, which launchers assign node by node.
    is_in_order = world.rank % world.local_size == world.local_rank
    is_alike = world.agree(world.local_size) == world.local_size
    if world.sum([float(not (is_in_order and is_alike))])[0]:
        raise UsageError(
            "computing.shard_group = 'node': not all nodes have the same number of processes, with "
            "consecutive ranks. Start the same number on each node, or set shard_group to a number."
        )
    return world.local_size


def _open_mesh(world: World, group: int) -> Any:
    """Return the mesh of all processes: rows that each hold the whole network, if `group` is less
    than all of them.
    """
    from torch.distributed.device_mesh import DeviceMesh

    assert dist.group.WORLD is not None
    kind = world.device.type
    if group in (0, world.size):
        return DeviceMesh.from_group(dist.group.WORLD, kind)
    ranks = torch.arange(world.size).view(-1, group)
    timeout = None if math.isinf(world.timeout_s) else timedelta(seconds=world.timeout_s)
    own: dict[str, Any] = {}
    # All processes open all groups, in the same order.
    for dimension, rows in (("replicate", ranks.T), ("shard", ranks)):
        for row in rows.tolist():
            opened = dist.new_group(row, timeout=timeout)
            if world.rank in row:
                own[dimension] = opened
    return DeviceMesh.from_group(list(own.values()), kind, mesh=ranks, mesh_dim_names=tuple(own))


class ShardedNetwork:
    """A network that is sharded in place, and whole within a block.

    Attributes:
        network: Network whose parameters are `DTensor`s, of which this process holds shards.
    """

    def __init__(
        self,
        network: nn.Module,
        units: Sequence[nn.Module],
        world: World,
        dtype: torch.dtype | None = None,
        summed: torch.dtype | None = None,
        group: int = 0,
    ) -> None:
        """Move `network` to the world's device, unit by unit, with at most one whole unit there.

        Each process gets its shards from the main process's network and needs no values of its own.

        Args:
            units: Parts of the network that are gathered one at a time; the rest is another unit.
            dtype: Type in which `units` are gathered and computed.
            summed: Type in which gradients are sent and summed; None for float32.
            group: Number of processes that share a sharded network; 0 for all. Layers are gathered
                within a group, and gradients are summed within groups, then over them.
        """
        # The import takes seconds, which only a sharded run should wait for.
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        self.network = network
        # deepcopy treats the entries of this table as copies already made.
        empty = {}
        for parameter in network.parameters():
            empty[id(parameter)] = nn.Parameter(parameter.new_empty(0), requires_grad=False)
        self._copy: nn.Module = copy.deepcopy(network, empty)
        mesh = _open_mesh(world, group)
        # By default gradients have the type of the parameters, but sums in 16 bits lose digits.
        reduced = summed or (torch.float32 if dtype else None)
        policy = MixedPrecisionPolicy(dtype, reduced, cast_forward_inputs=False)
        # WavLM's layers return the biases that they get, but nothing changes them in place.
        warnings.filterwarnings("ignore", "FSDP2-wrapped module .* returned a view")
        for unit in units:
            receive(unit.parameters(), world)
            fully_shard(unit, mesh=mesh, mp_policy=policy)
        # Inputs are waveforms, which autocast leaves in float32 until they are convolved, and batch
        # norm's parameters stay in float32.
        receive([one for one in network.parameters() if not is_part(one)], world)
        policy = MixedPrecisionPolicy(None, summed, cast_forward_inputs=False)
        fully_shard(network, mesh=mesh, mp_policy=policy)

    @contextmanager
    def whole(self) -> Iterator[nn.Module]:
        """Provide an ordinary network with the same numbers; all processes enter the block
        together.

        Each process may compute with it independently.
        """
        try:
            parameters = zip(self.network.parameters(), self._copy.parameters(), strict=True)
            for divided, empty in parameters:
                empty.data = divided.full_tensor().detach()  # type: ignore[attr-defined]
            buffers = zip(self.network.buffers(), self._copy.buffers(), strict=True)
            for buffer, shared in buffers:
                shared.data = buffer
            yield self._copy
        finally:
            for parameter in self._copy.parameters():
                parameter.data = parameter.new_empty(0)


def is_sharded(network: nn.Module) -> bool:
    """Return whether the parameters of `network` are sharded over the processes."""
    return any(is_part(parameter) for parameter in network.parameters())


def local_part(tensor: Tensor) -> Tensor:
    """Return the part of `tensor` on this process, which is all of it unless it is sharded."""
    if not is_part(tensor):
        return tensor
    part: Tensor = tensor.to_local()  # type: ignore[attr-defined]
    return part


def gathered(tensor: Tensor) -> Tensor:
    """Copy a whole sharded tensor to the host on the main process; others get an empty one.

    All processes call this together.
    """
    whole: Tensor = tensor.detach().full_tensor()  # type: ignore[attr-defined]
    if dist.get_rank() > 0:
        return torch.empty(0, dtype=whole.dtype)
    return whole.to("cpu", copy=True)


def whole_tensor(tensor: Tensor) -> Tensor:
    """Return the whole tensor; all processes call this if it is sharded."""
    if not is_part(tensor):
        return tensor
    whole: Tensor = tensor.detach().full_tensor()  # type: ignore[attr-defined]
    return whole


def divided_like(like: Tensor, whole: Tensor) -> Tensor:
    """Shard `whole` like `like`, on the device of `like`, without communication.

    Returns:
        Shard of this process; `whole` itself if `like` is not sharded or has another shape, or if
        `whole` is already sharded.
    """
    if not is_part(like) or getattr(whole, "shape", None) != like.shape or is_part(whole):
        return whole
    mesh = like.device_mesh  # type: ignore[attr-defined]
    # The last dimension of a mesh of groups is that within a group.
    parts = whole.chunk(mesh.size(mesh.ndim - 1), dim=0)
    rank = mesh.get_local_rank(mesh.ndim - 1)
    part = parts[rank] if rank < len(parts) else whole[:0]
    # Without a copy, the shard would keep the memory of the whole, or its file.
    return from_local_part(like, part.to(like.device, copy=True))


def from_local_part(like: Tensor, part: Tensor) -> Tensor:
    """Return the tensor with the shard `part` on this process, sharded like `like`, locally.

    It is `part` itself if `like` is not sharded.
    """
    if not is_part(like):
        return part
    from torch.distributed.tensor import DTensor

    divided: Any = like
    return DTensor.from_local(
        part,
        divided.device_mesh,
        divided.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )


def copies_of(tensor: Tensor) -> int:
    """Return the number of processes that hold the same shard of `tensor`."""
    mesh = tensor.device_mesh  # type: ignore[attr-defined]
    copies: int = mesh.size() // mesh.size(mesh.ndim - 1)
    return copies


def is_part(tensor: Tensor) -> bool:
    """Return whether `tensor` is sharded over the processes."""
    # Not by its class, whose import takes as long as half of torch.
    return hasattr(tensor, "to_local")
