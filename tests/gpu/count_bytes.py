"""Counts bytes that a step moves: `python -m tests.gpu.count_bytes CASES`, as `count_training`.

Each operation that torch dispatches on the device reads its inputs once and writes its outputs
once; views and reservations of memory move nothing. Caches, and what a kernel reads twice, are not
known: this is a floor of what eager kernels move. The last line printed is JSON: for each case the
bytes of one step, on the main rank.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan
from asdf.distributed.world import World
from asdf.training.training_progress import Progress
from tests.gpu.count_training import make_case, print_results

# These reserve memory, or give it another form.
_NOTHING = ("empty", "empty_like", "empty_strided", "new_empty", "detach", "record_stream")
# These write and do not read.
_FILLS = ("zeros", "ones", "zeros_like", "ones_like", "full", "full_like", "fill_", "zero_")
_COPIES = ("copy_", "_foreach_copy_")


class MovedBytes(TorchDispatchMode):
    """Adds up what operations on a GPU read and write inside its block.

    Attributes:
        total: Bytes so far.
    """

    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        name = function._schema.name.removeprefix("aten::")
        if name not in _NOTHING:
            self.total += _count(function, name, (args, kwargs), args, result)
        return result


def _count(function: Any, name: str, given: Any, args: Any, result: Any) -> int:
    """Return the bytes of one operation."""
    read = [leaf for leaf in tree_leaves(given) if _is_on_gpu(leaf)]
    storages = {tensor.untyped_storage()._cdata for tensor in read}
    written = []
    for tensor in filter(_is_on_gpu, tree_leaves(result)):
        if tensor.untyped_storage()._cdata not in storages:
            written.append(tensor)
    for value, argument in zip(args, function._schema.arguments, strict=False):
        is_written = argument.alias_info is not None and argument.alias_info.is_write
        # A fused optimiser writes gradients with a loss scale alone.
        if is_written and argument.name != "grads":
            written += filter(_is_on_gpu, tree_leaves(value))
    if not written or name in _FILLS:
        return _bytes(written)
    # What a copy goes to is not read.
    return _bytes(read) + (0 if name in _COPIES else _bytes(written))


def _is_on_gpu(value: object) -> bool:
    return isinstance(value, Tensor) and value.is_cuda


def _bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


# Moments of the optimiser are made in the first.
FIRST_STEPS = 2


def count(case: dict[str, object], world: World) -> int:
    """Return the bytes of a step."""
    step = make_case(case, world)
    network = step.settings.network
    plan = TrainingPlan(
        len(step.utterances), network.minibatch_size, 1, world.size, world.rank, synchronised=True
    )
    windows = plan.windows(1)
    clips = Batch(torch.randn(network.minibatch_size, network.train_clip_size, device=world.device))
    progress = Progress()
    for _ in range(FIRST_STEPS):
        step.take(next(windows), iter([clips]), progress, [])
    with MovedBytes() as moved:
        step.take(next(windows), iter([clips]), progress, [])
    return moved.total


if __name__ == "__main__":
    print_results(count)
