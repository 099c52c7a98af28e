"""What a process holds of parameters that are divided over all (`computing.shard_network`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from asdf.networks.units import check_divisible, encoder_units

# One unit is computed while the next one is gathered.
_AT_ONCE = 2


@dataclass(frozen=True)
class Parts:
    """The parameters of a network that a process holds, in bytes.

    Attributes:
        own: the process's part of each parameter, in float32.
        whole: bytes of all parameters, as they are computed with.
        gathered: how many of these a step holds at once.
    """

    own: list[Tensor] = field(default_factory=list)
    whole: int = 0
    gathered: int = 0


def divide(network: nn.Module, processes: int, dtype: torch.dtype | None) -> Parts:
    """Divide `network` as `ShardedNetwork` does; its encoder's layers become ones of `dtype`.

    Raises:
        UsageError: it cannot be divided.
    """
    check_divisible(network, type(network).__name__)
    units = encoder_units(network)
    if dtype is not None:
        for unit in units:
            for module in unit.modules():
                _shorten(module, dtype)
    own = [torch.empty(part_of(one, processes)) for one in network.parameters()]
    of_units = [_bytes_of(unit.parameters()) for unit in units]
    whole = _bytes_of(network.parameters())
    # What is in no unit is gathered from the start of a pass to its end.
    gathered = whole - sum(of_units) + _AT_ONCE * max(of_units, default=0)
    return Parts(own, whole, gathered)


def _shorten(module: nn.Module, dtype: torch.dtype) -> None:
    """Give `module` parameters of `dtype`; torch's `to` would swap tensors, which somebody may look at."""
    for name, parameter in list(module.named_parameters(recurse=False)):
        with torch.no_grad():
            shorter = parameter.to(dtype)
        setattr(module, name, nn.Parameter(shorter, parameter.requires_grad))


def part_of(tensor: Tensor, processes: int) -> int:
    """How many of a tensor's numbers a process holds: rows are divided, up to a last smaller part."""
    rows = len(tensor) if tensor.dim() else 1
    return -(-rows // processes) * (tensor.numel() // max(1, rows))


def _bytes_of(parameters: Iterable[nn.Parameter]) -> int:
    return sum(one.numel() * one.element_size() for one in parameters)
