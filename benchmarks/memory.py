"""Memory of a training step, with and without checkpointing, and what XLS-R 1B would need.

On the CPU it is the peak of the resident memory over a forward and a backward pass, less what was
resident before with the network and its gradients: activations and workspaces, in a process of its
own, which `python -m benchmarks.memory` is. On a GPU it is the allocator's peak, whole.

The rows on XLS-R 1B are sums on paper from measured numbers: the bytes that autograd keeps for the
backward pass are counted (each storage once) in networks of 1B's width with 1 and 2 layers, 2 and 4
utterances. They grow linearly in both, which gives 48 layers and 8 utterances; weights, gradients
and Adam's moments in float32, 16 bytes a parameter, are added. The limit is a GPU of 80 GB.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from asdf.networks import build_network
from asdf.networks.front_ends.architectures import Architecture
from benchmarks import resident
from benchmarks.harness import run_module
from benchmarks.nets import PlainSteps, make_batch, make_network, make_settings
from benchmarks.rows import Row, compared, limited, unmeasured

PEER = "without gradient checkpointing"
HALF = 2.0
GPU_GB = 80.0
LARGE, LARGE_BATCH = "wav2vec2_xlsr_1b", 8
SAMPLES = 64600
MIB = 2**20


def rows(quick: bool) -> Iterator[Row]:
    """Yield MiB of activations, and GB of a whole step."""
    full = (("wav2vec2_base", 4, SAMPLES, 2), ("wav2vec2_xlsr_300m", 2, SAMPLES, 2))
    for architecture, minibatch, samples, rounds in (("small", 2, 16000, 2),) if quick else full:
        seconds = samples / 16000
        what = f"activations, {architecture} + AASIST, {minibatch} x {seconds:.1f} s, fp32, cpu"
        if not sys.platform.startswith("linux"):
            yield unmeasured(what, "MiB", PEER, "it needs /proc of Linux", HALF)
            continue
        words = (architecture, str(minibatch), str(samples))
        used: dict[str, list[float]] = {"kept": [], "recomputed": []}
        for _ in range(rounds):
            for how, numbers in used.items():
                numbers.append(json.loads(run_module("benchmarks.memory", how, *words)))
        yield compared(what, "MiB", used["recomputed"], PEER, used["kept"], target=HALF)
    what = "whole step, wav2vec2_xlsr_300m + AASIST, 14 x 4.0 s, bf16, cuda"
    if torch.cuda.is_available():
        retained, recomputed = (
            gpu_peak_mib("wav2vec2_xlsr_300m", 14, recompute) for recompute in (False, True)
        )
        yield compared(what, "MiB", [recomputed], PEER, [retained])
    else:
        yield unmeasured(what, "MiB", PEER, "no CUDA device")
    for precision, recompute in ((p, r) for p in ("fp32", "bf16") for r in (False, True)):
        samples = 16000 if quick else SAMPLES
        how = "layers recomputed" if recompute else "layers kept"
        seconds = samples / 16000
        what = f"on paper: {LARGE} + AASIST, {LARGE_BATCH} x {seconds:.1f} s, {precision}, {how}"
        note = "from bytes counted on the CPU, without workspaces of its kernels"
        yield limited(
            what, "GB", [large_network_gb(samples, precision, recompute)], GPU_GB, note=note
        )


def large_network_gb(samples: int, precision: str, recompute: bool) -> float:
    """Return GB of a step of `LARGE`, computed from networks of its width with 1 and 2 layers."""
    layers = Architecture.from_text(LARGE).layers

    def retained(recompute: bool, layers: int) -> float:
        """Return bytes for n layers and LARGE_BATCH utterances; linear in either."""
        by_layers = []
        for few in (1, 2):
            two, four = (saved_bytes(few, batch, samples, precision, recompute) for batch in (2, 4))
            by_layers.append(two + (four - two) / 2 * (LARGE_BATCH - 2))
        return by_layers[0] + (by_layers[1] - by_layers[0]) * (layers - 1)

    activations = retained(recompute, layers)
    if recompute:
        # One layer's activations are recomputed during its backward pass.
        activations += retained(False, 2) - retained(False, 1)
    with torch.device("meta"):
        parameters = sum(
            parameter.numel() for parameter in build_network(make_settings(LARGE, 1)).parameters()
        )
    return (16 * parameters + activations) / 1e9


@cache
def saved_bytes(layers: int, batch: int, samples: int, precision: str, recompute: bool) -> int:
    """Return bytes that autograd saves for the backward pass of a `LARGE` of n layers."""
    architecture = replace(Architecture.from_text(LARGE), layers=layers).to_text()
    settings = make_settings(architecture, batch, samples)
    settings.front_end.gradient_checkpointing = recompute
    network = make_network(settings).train()
    weights = {parameter.untyped_storage().data_ptr() for parameter in network.parameters()}
    held: dict[int, Tensor] = {}

    def hold(tensor: Tensor) -> Tensor:
        address = tensor.untyped_storage().data_ptr()
        if address not in weights:
            held[address] = tensor  # so that no later tensor gets its address
        return tensor

    waveforms, _ = make_batch(batch, samples)
    dtype = torch.bfloat16 if precision == "bf16" else None
    with (
        saved_tensors_hooks(hold, lambda tensor: tensor),
        torch.autocast("cpu", dtype, enabled=dtype is not None),
    ):
        network(waveforms)
    return sum(tensor.untyped_storage().nbytes() for tensor in held.values())


def cpu_peak_mib(architecture: str, minibatch: int, samples: int, recompute: bool) -> float:
    """Return the MiB that forward and backward pass add to the resident network at their peak."""
    settings = make_settings(architecture, minibatch, samples)
    settings.front_end.gradient_checkpointing = recompute
    network = make_network(settings).train()
    network(make_batch(2, 2000)[0])[1].sum().backward()  # the gradients are there from now on
    waveforms, labels = make_batch(minibatch, samples)
    before = resident.settled() or 0
    F.cross_entropy(network(waveforms)[1], labels).backward()
    return ((resident.peak() or 0) - before) / MIB


def gpu_peak_mib(architecture: str, minibatch: int, recompute: bool) -> float:
    """Return the allocator's peak of a bf16 step in MiB, weights and optimiser included."""
    settings = make_settings(architecture, minibatch)
    settings.front_end.gradient_checkpointing = recompute
    step = PlainSteps(
        settings,
        make_network(settings, "cuda"),
        *make_batch(minibatch, SAMPLES, "cuda"),
        torch.bfloat16,
    )
    step()
    torch.cuda.reset_peak_memory_stats()
    step()
    peak = torch.cuda.max_memory_allocated() / MIB
    del step
    torch.cuda.empty_cache()
    return peak


if __name__ == "__main__":
    print(
        json.dumps(
            cpu_peak_mib(
                sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[1] == "recomputed"
            )
        )
    )
