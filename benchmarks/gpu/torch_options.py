"""Options of torch for steps measured with and without them; each is undone after the block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from asdf.training import passes


@contextmanager
def chosen(names: tuple[str, ...]) -> Iterator[None]:
    """Set these options inside the block."""
    with ExitStack() as stack:
        for name in names:
            stack.enter_context(_OPTIONS[name]())
        yield


@contextmanager
def _cudnn_benchmark() -> Iterator[None]:
    """cuDNN's kernels chosen by time."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextmanager
def _no_flash() -> Iterator[None]:
    """Attention without the flash kernels."""
    backends = torch.nn.attention.SDPBackend
    with torch.nn.attention.sdpa_kernel([backends.EFFICIENT_ATTENTION, backends.MATH]):
        yield


@contextmanager
def _channels_last() -> Iterator[None]:
    """The network's own layout, which `measure` sets."""
    yield


@contextmanager
def _large_buckets() -> Iterator[None]:
    """Gradients travel in buckets of 100 MB."""
    with _changed_exchange(lambda model: None, bucket_cap_mb=100):
        yield


@contextmanager
def _bf16_hook() -> Iterator[None]:
    """Gradients travel in bf16."""
    hook = default_hooks.bf16_compress_hook
    with _changed_exchange(lambda model: model.register_comm_hook(None, hook)):
        yield


@contextmanager
def _changed_exchange(change: Callable[[Any], None], **options: Any) -> Iterator[None]:
    """Change the DistributedDataParallel that a step makes."""
    original: Any = DistributedDataParallel

    class Changed(original):
        def __init__(self, *args: Any, **arguments: Any) -> None:
            super().__init__(*args, **arguments, **options)
            change(self)

    # The step looks up the class by its name in this module.
    passes.DistributedDataParallel = Changed  # type: ignore[attr-defined]
    try:
        yield
    finally:
        passes.DistributedDataParallel = original  # type: ignore[attr-defined]


_OPTIONS: dict[str, Callable[[], Any]] = {
    "cudnn_benchmark": _cudnn_benchmark,
    "no_flash": _no_flash,
    "channels_last": _channels_last,
    "large_buckets": _large_buckets,
    "bf16_hook": _bf16_hook,
}
