"""Trace networks in training as a compiler does: `python -m tests.gpu.compile_networks CASES`.

Graphs and breaks come from tracing; what is compiled from a graph needs a GPU that computes.

CASES are those of `count_training`. The last line printed is JSON: for each case how many graphs
the network became on the main rank, and why graphs were broken.
"""

import torch
from torch import nn
from torch._dynamo.utils import counters

from asdf.distributed.batch_norm import synchronise_batch_norm
from asdf.distributed.world import World
from asdf.networks import build_network
from asdf.training.passes import Compiled
from tests.gpu.count_training import print_results, settings_of


def trace(case: dict[str, object], world: World) -> dict[str, object]:
    """Graphs and breaks of a case's network, over two steps."""
    settings = settings_of(case)
    network = build_network(settings).train()
    if world.size > 1:
        network = synchronise_batch_norm(network)
    compiled: nn.Module = Compiled(network.to(world.device), 2)
    compiled._forward = torch.compile(network.forward, backend="eager", dynamic=False)
    if world.size > 1:
        compiled = nn.parallel.DistributedDataParallel(compiled, device_ids=[world.device])
    clips = torch.randn(2, settings.network.train_clip_size, device=world.device)
    torch._dynamo.reset()
    counters.clear()
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            _, logits = compiled(clips)
        logits.float().sum().backward()
    return {"graphs": counters["stats"]["unique_graphs"], "breaks": list(counters["graph_break"])}


if __name__ == "__main__":
    print_results(trace)
