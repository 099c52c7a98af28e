"""Traces networks in training as a compiler does, without compiling: `python -m tests.gpu.compile_networks CASES`.

CASES are those of `count_training`. The last line printed is JSON: how many graphs each network became.
"""

import json
import os
import sys

import torch
from torch._dynamo.utils import counters

from asdf.networks import build_network
from tests.gpu.count_training import settings_of


def graphs(case: dict[str, object]) -> int:
    """How many graphs the forward pass of a case's network is, with its backward pass traced as well."""
    settings = settings_of(case)
    network = build_network(settings).train().cuda()
    clips = torch.randn(2, settings.network.train_clip_size, device="cuda")
    torch._dynamo.reset()
    counters.clear()
    forward = torch.compile(network.forward, backend="aot_eager", dynamic=False)
    for _ in range(2):
        with torch.autocast("cuda", torch.bfloat16):
            _, logits = forward(clips)
        logits.float().sum().backward()
    return counters["stats"]["unique_graphs"]


if __name__ == "__main__":
    print(json.dumps([graphs(case) for case in json.loads(sys.argv[1])]), flush=True)
    os._exit(0)
