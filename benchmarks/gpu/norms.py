"""Our batch norm over several GPUs against SyncBatchNorm: `torchrun ... -m benchmarks.gpu.norms`.

The last printed line is JSON: the largest differences of the output, of the gradients and of the
running statistics, over 32 channels with different minibatches on the processes; and the time of
both in ms.
"""

from __future__ import annotations

import copy
import json
import os
import statistics

import torch
from torch import Tensor, nn

from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import open_world
from asdf.settings.sections import Computing
from benchmarks.harness import in_turns

CHANNELS, ROUNDS = 32, 20


def passes(norm: nn.Module, x_BCT: Tensor, weights_BCT: Tensor) -> dict[str, Tensor]:
    """Return the output of a training pass, the gradients of a weighted sum, and the statistics."""
    x_BCT = x_BCT.clone().requires_grad_()
    output_BCT = norm(x_BCT)
    (output_BCT * weights_BCT).sum().backward()
    assert x_BCT.grad is not None
    result = {"output": output_BCT.detach(), "gradient of the input": x_BCT.grad}
    result.update({f"gradient of the {name}": p.grad for name, p in norm.named_parameters()})
    buffers = {name: b.float() for name, b in norm.named_buffers() if name != "num_batches_tracked"}
    return {**result, **buffers}


def main() -> None:
    with open_world(Computing()) as world:
        generator = torch.Generator().manual_seed(world.rank)
        x_BCT, weights_BCT = (
            torch.randn(6, CHANNELS, 50, generator=generator).to(world.device) for _ in range(2)
        )
        plain = nn.BatchNorm1d(CHANNELS).to(world.device)
        theirs = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(plain))
        ours = synchronise_batch_norm(plain)
        expected, result = (passes(norm, x_BCT, weights_BCT) for norm in (theirs, ours))
        times = in_turns(
            {
                "ours": lambda: passes(ours, x_BCT, weights_BCT),
                "theirs": lambda: passes(theirs, x_BCT, weights_BCT),
            },
            ROUNDS,
        )
        if world.is_main:
            differences = {
                name: float((result[name] - value).abs().max()) for name, value in expected.items()
            }
            ms, torch_ms = (1000 * statistics.median(times[side]) for side in ("ours", "theirs"))
            print(
                json.dumps({"differences": differences, "ms": ms, "torch_ms": torch_ms}), flush=True
            )
        world.barrier()
    os._exit(0)


if __name__ == "__main__":
    main()
