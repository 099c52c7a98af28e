"""What all processes have in common of what each of them has."""

from types import SimpleNamespace

import torch

from asdf.distributed import world as worlds
from asdf.distributed.gpus import gpu_memory
from asdf.distributed.world import World


def test_the_smallest_gpu_counts_for_every_process(monkeypatch):
    assert gpu_memory(torch.device("cpu")) == World().smallest_gpu() == 0
    monkeypatch.setattr(worlds, "gpu_memory", lambda device: 85)
    main = SimpleNamespace(device=None, gather=lambda local: [local, 42], agree=lambda value: value)
    assert World.smallest_gpu(main) == 42
    other = SimpleNamespace(device=None, gather=lambda local: None, agree=lambda value: 42)
    assert World.smallest_gpu(other) == 42
