"""The tensors of a checkpoint, copied to the host, so that training may change its own.

Invariants: a copy has the types, the names and the shared storages of what it is of, so that its file is the same;
and it is complete after `wait`. On a GPU the host waits once for all tensors together; for those of a network that is
divided over the processes it waits for each, as they are gathered one by one.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asdf.distributed.sharding import gathered, is_part


class HostCopies:
    """Copies content to the host, one round after another.

    Those of a GPU's tensors are in pinned memory, which is allocated in the first round and used again in the later
    ones: they are valid until the first `queue` or `take` after their `wait`. Copies of the CPU's tensors are new
    each time, so that their memory is taken only for as long as somebody has them.
    """

    def __init__(self) -> None:
        self._pinned: defaultdict[int, list[Tensor]] = defaultdict(list)
        self._begin()

    def queue(self, content: Any) -> Any:
        """A copy of dictionaries, lists, tuples and the tensors in them, whose numbers are there after `wait`.

        Other values are those of `content`. Where tensors are divided over the ranks all of them come here together,
        and the main one gets them whole.
        """
        return _with_tensors(content, self._copied)

    def wait(self) -> None:
        """Wait for all that was queued since the last call."""
        if self._device is not None:
            # A blocking event lets the core read clips meanwhile.
            arrived = torch.cuda.Event(blocking=True)
            arrived.record(torch.cuda.current_stream(self._device))
            arrived.synchronize()
        self._begin()

    def take(self, content: Any) -> Any:
        """A complete copy of `content`."""
        copied = self.queue(content)
        self.wait()
        return copied

    def _begin(self) -> None:
        self._device: torch.device | None = None
        self._used: Counter[int] = Counter()
        # Copies by the address of what they are of, which is held: its address must not become another's meanwhile.
        self._storages: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def _copied(self, tensor: Tensor) -> Tensor:
        if is_part(tensor):
            return gathered(tensor)
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0:  # no numbers
            return tensor.detach().cpu()
        # Storages that tensors share are copied, and saved, once.
        if address not in self._storages:
            self._storages[address] = storage, self._copied_storage(storage)
        host = torch.empty(0, dtype=tensor.dtype)
        _, copied = self._storages[address]
        return host.set_(copied, tensor.storage_offset(), tensor.shape, tensor.stride())

    def _copied_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            return storage.cpu().clone()
        self._device = storage.device
        numbers = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        buffer = self._buffer(storage.nbytes())
        buffer.copy_(numbers, non_blocking=True)
        return buffer.untyped_storage()

    def _buffer(self, size: int) -> Tensor:
        """A pinned buffer of `size` bytes that this round has not used yet."""
        buffers, position = self._pinned[size], self._used[size]
        self._used[size] += 1
        if position == len(buffers):
            buffers.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
        return buffers[position]


def _with_tensors(content: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(content, Tensor):
        return change(content)
    if isinstance(content, dict):
        # A state dict has attributes, which are saved with it.
        changed = copy.copy(content)
        changed.update((key, _with_tensors(value, change)) for key, value in content.items())
        return changed
    if isinstance(content, list | tuple):
        return type(content)(_with_tensors(value, change) for value in content)
    return content
