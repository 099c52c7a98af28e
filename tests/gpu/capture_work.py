"""Captures work of several kinds as a CUDA graph: `python -m tests.gpu.capture_work`.

The last line printed is JSON: for each kind why it was refused, or how many kernels ran and how
many operations were captured, and for a replay how many launches there were, of how many
operations.
"""

import ctypes
import json
import os
from collections.abc import Callable

import torch

from tests.gpu.null_gpu.watch import Watch


def add(x: torch.Tensor) -> None:
    torch.add(x, x)


def wait_for_stream(x: torch.Tensor) -> None:
    x.sum().item()


def wait_for_device(x: torch.Tensor) -> None:
    torch.cuda.synchronize()


def wait_for_event(x: torch.Tensor) -> None:
    event = torch.cuda.Event()
    event.record()
    event.synchronize()


def copy_from_ordinary_memory(x: torch.Tensor) -> None:
    # torch refuses that by itself, from some version on.
    size, to_device = ctypes.c_size_t(16), 1
    addresses = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (x, torch.ones(4))]
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    status = ctypes.CDLL(None).cudaMemcpyAsync(*addresses, size, to_device, stream)
    raise RuntimeError(f"status {status}")


def leave_a_stream(x: torch.Tensor) -> torch.cuda.Stream:
    other = torch.cuda.Stream()
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        x.add_(1)
    return other


def join_a_stream(x: torch.Tensor) -> None:
    torch.cuda.current_stream().wait_stream(leave_a_stream(x))


def wait_for_a_stream_outside(x: torch.Tensor) -> None:
    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        x.add_(1)
    torch.cuda.current_stream().wait_stream(other)


KINDS: list[Callable[[torch.Tensor], object]] = [
    *(add, wait_for_stream, wait_for_device, wait_for_event, copy_from_ordinary_memory),
    *(leave_a_stream, join_a_stream, wait_for_a_stream_outside),
]


def captured(work: Callable[[torch.Tensor], object]) -> dict[str, int] | str:
    x = torch.ones(4, device="cuda")
    graph = torch.cuda.CUDAGraph()
    names = ("kernels", "captured", "replays", "replayed")
    try:
        with torch.cuda.graph(graph), Watch() as seen:
            work(x)
    except RuntimeError as error:
        first = error.__context__ or error
        return str(first).partition("\n")[0]
    counts = {name: seen.counts.get(name, 0) for name in names[:2]}
    with Watch() as seen:
        graph.replay()
    return {**counts, **{name: seen.counts.get(name, 0) for name in names[2:]}}


if __name__ == "__main__":
    print(json.dumps({work.__name__: captured(work) for work in KINDS}), flush=True)
    os._exit(0)
