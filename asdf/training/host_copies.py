"""The tensors of a checkpoint, copied to the host, so that training may change its own.

Invariants: a copy has the types, the names and the shared storages of what it is of, so that its file is the same;
and it is complete when `take` returns. On a GPU the host waits once for all tensors together.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from asdf.distributed.sharding import gathered, is_part


class HostCopies:
    """Copies content to the host, one after another.

    Those of a GPU's tensors are in pinned memory, which is allocated by the first and used again by the later ones:
    a copy is valid until the next one is taken. Copies of the CPU's tensors are new each time.
    """

    def __init__(self) -> None:
        self._pinned: list[Tensor] = []

    def take(self, content: Any) -> Any:
        """A copy of dictionaries, lists, tuples and the tensors in them; other values are those of `content`.

        Where tensors are divided over the ranks all of them come here together, and the main one gets them whole.
        """
        copying = _Copying(self._pinned)
        copied = _with_tensors(content, copying.copied)
        copying.wait()
        return copied


class _Copying:
    """One copy; storages that tensors share are copied once."""

    def __init__(self, pinned: list[Tensor]) -> None:
        self._pinned, self._used = pinned, 0
        self._storages: dict[int, torch.UntypedStorage] = {}
        self._device: torch.device | None = None

    def copied(self, tensor: Tensor) -> Tensor:
        """`tensor` on the host, whole; its numbers are there after `wait`."""
        if is_part(tensor):
            return gathered(tensor)
        tensor = tensor.detach()
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address == 0:  # no numbers
            return tensor.cpu()
        if address not in self._storages:
            self._storages[address] = self._copied_storage(storage)
        host = torch.empty(0, dtype=tensor.dtype)
        place = (tensor.storage_offset(), tensor.shape, tensor.stride())
        return host.set_(self._storages[address], *place)

    def wait(self) -> None:
        """Wait for the copies that were queued on a GPU."""
        if self._device is None:
            return
        # A blocking event lets the core read clips meanwhile.
        arrived = torch.cuda.Event(blocking=True)
        arrived.record(torch.cuda.current_stream(self._device))
        arrived.synchronize()

    def _copied_storage(self, storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.device.type != "cuda":
            return storage.cpu().clone()
        self._device = storage.device
        numbers = torch.empty(0, dtype=torch.uint8, device=storage.device).set_(storage)
        buffer = self._buffer(storage.nbytes())
        buffer.copy_(numbers, non_blocking=True)
        return buffer.untyped_storage()

    def _buffer(self, size: int) -> Tensor:
        """The next pinned buffer, of `size` bytes; the tensors of a run come in the same order each time."""
        position = self._used
        self._used += 1
        if position == len(self._pinned):
            self._pinned.append(torch.empty(size, dtype=torch.uint8, pin_memory=True))
        elif self._pinned[position].nbytes != size:
            self._pinned[position] = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        return self._pinned[position]


def _with_tensors(content: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(content, Tensor):
        return change(content)
    if isinstance(content, dict):
        # A state dict has attributes, which are saved with it.
        made = copy.copy(content)
        made.update((key, _with_tensors(value, change)) for key, value in content.items())
        return made
    if isinstance(content, list | tuple):
        return type(content)(_with_tensors(value, change) for value in content)
    return content
