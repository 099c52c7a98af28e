"""What a process holds of parameters that are divided over all (`computing.shard_network`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from asdf.networks.units import check_divisible, encoder_units

# One unit is computed while the next one is gathered.
_GATHERED_AT_ONCE = 2


@dataclass(frozen=True)
class Parts:
    """The parameters of a network that a process holds, in bytes.

    Attributes:
        own: the process's part of each parameter, in float32.
        whole: bytes of all parameters, as they are computed with.
        gathered: Number of these that a step holds at once.
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
                _cast_parameters(module, dtype)
    parts = [torch.empty(part_of(parameter, processes)) for parameter in network.parameters()]
    unit_bytes = [_bytes_of(unit.parameters()) for unit in units]
    whole = _bytes_of(network.parameters())
    # What is in no unit is gathered from the start of a pass to its end.
    outside = whole - sum(unit_bytes)
    gathered = outside + _GATHERED_AT_ONCE * max(unit_bytes, default=0)
    return Parts(parts, whole, gathered)


def _cast_parameters(module: nn.Module, dtype: torch.dtype) -> None:
    """Give `module` parameters of `dtype`.

    torch's `to` would change the tensors themselves, which the caller may still use.
    """
    for name, parameter in list(module.named_parameters(recurse=False)):
        with torch.no_grad():
            cast = parameter.to(dtype)
        setattr(module, name, nn.Parameter(cast, parameter.requires_grad))


def part_of(tensor: Tensor, processes: int) -> int:
    """Return how many of a tensor's numbers a process holds at most: rows are divided."""
    rows = len(tensor) if tensor.dim() else 1
    numbers_per_row = tensor.numel() // max(1, rows)
    rows_per_process = -(-rows // processes)
    return rows_per_process * numbers_per_row


def _bytes_of(parameters: Iterable[nn.Parameter]) -> int:
    return sum(parameter.numel() * parameter.element_size() for parameter in parameters)
