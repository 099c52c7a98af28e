"""Networks built on the main process only; the others have outlines until they get their shards.

Invariant: results are the same as if all processes had built the whole network from the same seed.
An outlined parameter has its shape, type and device, but a single value for all elements, so it
takes no memory; operations that write to it do nothing. `receive` gives it the values of the main
process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from asdf.distributed.world import World
from asdf.runs.log import LOG

# With this value, a network computes finite numbers, unlike with zeros in a norm.
_NUMBER = 0.01
# Functions that write to their first argument although their names do not end with '_'.
_WRITING = ("__setitem__", "__iadd__", "__isub__", "__imul__", "__itruediv__")
_CHANGES_NO_NUMBER = ("requires_grad_", "retain_grad_")


def is_outlined(tensor: Tensor) -> bool:
    """Return whether a parameter has a single value in memory for all of its elements."""
    if tensor.numel() < 2 or tensor.is_meta or hasattr(tensor, "to_local"):
        return False
    return not any(tensor.stride())


def build_on_main(build: Callable[[], nn.Module], world: World) -> nn.Module:
    """Return the network of `build`, whole on the main process and outlined on the others.

    All processes call this together, and continue with the main process's random state. If a class
    cannot be outlined, a process builds it whole.
    """
    if world.is_main:
        network = build()
    else:
        try:
            with parameters_outlined():
                network = build()
        except Exception as error:
            LOG.info("built whole, as it cannot be outlined (%s)", type(error).__name__)
            network = build()
    torch.set_rng_state(world.agree(torch.get_rng_state()))
    return network


@contextmanager
def parameters_outlined() -> Iterator[None]:
    """Outline each parameter that modules register in the block."""
    hook = register_module_parameter_registration_hook(_outline)
    try:
        with _Unwritten():
            yield
    finally:
        hook.remove()


def receive(parameters: Iterable[nn.Parameter], world: World) -> None:
    """Move parameters to the device of this process, with the values of the main process.

    All processes call this together, for the same parameters in the same order.
    """
    for parameter in parameters:
        if is_outlined(parameter):
            whole = torch.empty(parameter.shape, dtype=parameter.dtype, device=world.device)
        else:
            whole = parameter.data.to(world.device)
        if world.size > 1:
            # A parameter may be a transposed view, with a different memory layout.
            sent = whole.contiguous()
            dist.broadcast(sent, src=0)
            if sent is not whole:
                whole.copy_(sent)
        parameter.data = whole


def _outline(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
    if parameter is not None and parameter.is_floating_point() and not parameter.is_meta:
        number = torch.full((), _NUMBER, dtype=parameter.dtype, device=parameter.device)
        parameter.data = number.expand(parameter.shape)


class _Unwritten(TorchFunctionMode):
    """A mode in which operations that write to an outlined tensor return it unchanged."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = getattr(function, "__name__", "")
        writes = name in _WRITING or (name.endswith("_") and not name.endswith("__"))
        # Initialisers in torch.nn.init pass their argument by name.
        target = args[0] if args else (kwargs or {}).get("tensor")
        writes = writes and name not in _CHANGES_NO_NUMBER
        if writes and isinstance(target, Tensor) and is_outlined(target):
            return target
        return function(*args, **(kwargs or {}))
