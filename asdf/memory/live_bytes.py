"""How many bytes the tensors of a program hold, and the highest number that they ever held.

Invariant: each storage counts once, however many tensors look at it, from the operation that makes
it to its end, and takes what torch's allocator for GPUs gives it: whole blocks of 512 bytes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, UntypedStorage
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

BLOCK = 512

# On a GPU these copy inputs whose values do not follow each other, for as long as they run.
_COPYING = (
    torch.ops.aten.native_layer_norm.default,
    torch.ops.aten.native_layer_norm_backward.default,
    torch.ops.aten.native_group_norm.default,
    torch.ops.aten.native_group_norm_backward.default,
)


class LiveBytes(TorchDispatchMode):
    """Counts what operations return as long as it is entered, forward and backward.

    Memory that an operation takes for itself, and gives back before it returns, is not seen, but
    for the copies of `_COPYING`.

    Attributes:
        now: bytes that are held.
        peak: the highest that `now` has been; set it to `now` to begin anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.peak = 0
        # Keys of storages; a weak reference works only as long as somebody holds it.
        self._held: dict[int, weakref.ref[UntypedStorage]] = {}

    def __torch_dispatch__(
        self, operation: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        output = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(output):
            if isinstance(leaf, Tensor):
                self._note(leaf.untyped_storage())
        if operation in _COPYING:
            self.peak = max(self.peak, self.now + sum(map(_copied_bytes, args)))
        return output

    def _note(self, storage: UntypedStorage) -> None:
        key = storage._cdata
        size = block_bytes(storage)
        if key in self._held:
            return

        def end(_: object) -> None:
            del self._held[key]
            self.now -= size

        self._held[key] = weakref.ref(storage, end)
        self.now += size
        self.peak = max(self.peak, self.now)


def block_bytes(storage: UntypedStorage) -> int:
    """Return the bytes that the allocator gives a storage."""
    return -(-storage.nbytes() // BLOCK) * BLOCK


def _copied_bytes(value: object) -> int:
    """Return the bytes of a copy in which the values follow each other; 0 where they do."""
    if not isinstance(value, Tensor) or value.is_contiguous():
        return 0
    return value.numel() * value.element_size()
