"""The tensors of a checkpoint, copied to the host, so that training may change its own.

Invariants: a copy has the types, the names and the shared storages of the original, so that its
file is the same; and it is complete after `wait`. On a GPU the host waits once for all tensors
together. Those of a network that is divided over the processes are gathered one by one, with a wait
for each.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from asdf.distributed.sharding import gathered, is_part


@dataclass(frozen=True)
class _StorageCopy:
    """A storage and its copy on the host.

    Attributes:
        original: referenced, so that its address does not become another storage's meanwhile.
    """

    original: torch.UntypedStorage
    copied: torch.UntypedStorage


class HostCopies:
    """Copies content to the host, one round after another.

    Copies of a GPU's tensors are in pinned memory, which is allocated in the first round and reused
    in later ones: they are valid until the first `queue` or `take` after their `wait`. Copies of
    the CPU's tensors are new each time, so that they take memory only as long as they are
    referenced.
    """

    def __init__(self) -> None:
        self._pinned: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._begin_round()

    def queue(self, content: Any) -> Any:
        """Return a copy of dictionaries, lists, tuples and the tensors in them, valid after `wait`.

        Other values are those of `content`. Where tensors are divided over the ranks, all ranks
        call this together, and the main one gets the whole tensors.
        """
        return _map_tensors(content, self._copy_tensor)

    def wait(self) -> None:
        """Wait for everything that was queued since the last call."""
        if self._device is not None:
            # A blocking event lets the core read clips meanwhile.
            arrived = torch.cuda.Event(blocking=True)
            arrived.record(torch.cuda.current_stream(self._device))
            arrived.synchronize()
        self._begin_round()

    def take(self, content: Any) -> Any:
        """Return a complete copy of `content`."""
        copied = self.queue(content)
        self.wait()
        return copied

    def _begin_round(self) -> None:
        self._device: torch.device | None = None
        self._buffers_used: Counter[int] = Counter()
        self._storages: dict[int, _StorageCopy] = {}

    def _copy_tensor(self, tensor: Tensor) -> Tensor:
        if is_part(tensor):
            return gathered(tensor)
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0:  # a tensor without numbers
            return tensor.detach().cpu()
        # Storages that tensors share are copied, and saved, once.
        if address not in self._storages:
            self._storages[address] = _StorageCopy(storage, self._copy_storage(storage))
        copied = self._storages[address].copied
        host = torch.empty(0, dtype=tensor.dtype)
        return host.set_(copied, tensor.storage_offset(), tensor.shape, tensor.stride())

    def _copy_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            copied: torch.UntypedStorage = storage.cpu().clone()
            return copied
        self._device = storage.device
        numbers = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        # A pinned buffer of `size` bytes that this round has not used yet.
        size = storage.nbytes()
        buffers = self._pinned[size]
        index = self._buffers_used[size]
        self._buffers_used[size] += 1
        if index == len(buffers):
            buffers.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
        buffer = buffers[index]
        buffer.copy_(numbers, non_blocking=True)
        return buffer.untyped_storage()


def _map_tensors(content: Any, function: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(content, Tensor):
        return function(content)
    if isinstance(content, dict):
        # A shallow copy: a state dict has attributes, which are saved with it.
        mapped = copy.copy(content)
        for key, value in content.items():
            mapped[key] = _map_tensors(value, function)
        return mapped
    if isinstance(content, list | tuple):
        return type(content)(_map_tensors(value, function) for value in content)
    return content
