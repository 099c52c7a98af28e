"""Takes steps with CUDA graphs: `python -m tests.gpu.replay_steps`.

The last line printed is JSON: for each step how many graphs it replayed, of how many operations,
and how many parameters had a gradient; for networks that cannot be captured, what they are refused
with. At the end, on how many streams all of it was captured.
"""

import json
import os
from importlib.util import find_spec
from typing import ClassVar

import torch
from torch import nn

from asdf.data.batches import Batch
from asdf.data.training_plan import TrainingPlan, Window
from asdf.distributed.world import World, open_world
from asdf.errors import UsageError
from asdf.settings.sections import Sections
from asdf.training import graphs
from asdf.training.step import Step
from asdf.training.training_progress import Progress
from tests.gpu.count_training import make_step, settings_of
from tests.gpu.null_gpu.watch import Watch

MINIBATCH, WHOLE = 2, 6
OURS = "asdf.networks"


class Drawing(nn.Module):
    """Draws on the host."""

    def __init__(self, settings: Sections) -> None:
        super().__init__()
        self.layer = nn.Linear(settings.network.train_clip_size, 2)

    def look(self, logits: torch.Tensor) -> float:
        return float(torch.rand(()))

    def forward(self, waveforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = self.layer(waveforms)
        return logits, logits * self.look(logits)


class Counting(Drawing):
    """Counts its passes on the host."""

    passes = 0

    def look(self, logits: torch.Tensor) -> float:
        self.passes += 1
        return float(self.passes)


class Own(Drawing):
    """Depends on its inputs and weights alone."""

    def look(self, logits: torch.Tensor) -> float:
        return 1.0


class Waiting(Drawing):
    """Waits for the device."""

    def look(self, logits: torch.Tensor) -> float:
        return float(logits.detach().mean())


def take(step: Step, windows: list[Window]) -> list[list[int]]:
    """For each window, which is a step: replays, operations in them, parameters that learn."""
    counted, progress = [], Progress()
    samples = step.settings.network.train_clip_size
    learning: list[int] = []
    step.update.optimiser.register_step_pre_hook(
        lambda *_: learning.append(gradients(step.network))
    )
    for window in windows:
        sizes = [len(share.utterances) for share in window.shares]
        clips = [Batch(torch.randn(size, samples, device=step.world.device)) for size in sizes]
        with Watch() as seen:
            step.take(window, iter(clips), progress, [])
        names = ("replays", "replayed")
        counted.append([seen.counts.get(name, 0) for name in names] + learning[-1:])
    return counted


def gradients(network: nn.Module) -> int:
    return sum(parameter.grad is not None for parameter in network.parameters())


def of_a_network(case: dict[str, object], world: World) -> list[list[int]] | str:
    settings = settings_of({"computing.cuda_graphs": True, "network.train_clip_size": 8000, **case})
    interval = settings.network.optimizer_step_interval
    size = WHOLE * MINIBATCH * interval + 1
    step = make_step(settings, world, size)
    windows = list(TrainingPlan(size, MINIBATCH, interval).windows(1))
    counted = []
    try:
        for epoch in range(2):
            step.begin_epoch(epoch)
            counted += take(step, [*windows, windows[0]])
    except UsageError as error:
        return str(error)
    return counted


CASES: list[dict[str, object]] = [
    {"front_end.unfreeze_after_epochs": 1},
    {"network.optimizer_step_interval": 3},
    {"network.network_class": f"{__name__}.Drawing"},
    {"network.network_class": f"{__name__}.Waiting"},
    {"computing.cuda_graphs": "auto"},
    {"computing.cuda_graphs": "auto", "network.network_class": f"{__name__}.Drawing"},
    {"computing.cuda_graphs": "auto", "network.network_class": f"{__name__}.Counting"},
    {"computing.cuda_graphs": "auto", "network.network_class": f"{__name__}.Waiting"},
]
OWN: dict[str, object] = {
    "computing.cuda_graphs": "auto",
    "network.network_class": f"{__name__}.Own",
}


def of_transformers() -> dict[str, object]:
    from tests.encoders import config_text

    return {
        "computing.cuda_graphs": "auto",
        "network.network_class": f"{OURS}.ComposedDetector",
        "front_end.front_end_class": "transformers",
        "front_end.architecture": config_text("wavlm"),
        "back_end.back_end_class": "mhfa",
    }


class NotedGraph(torch.cuda.graph):
    """A capture that notes its stream."""

    streams: ClassVar[set[int]] = set()

    def __init__(self, *args, stream: torch.cuda.Stream, **options) -> None:
        self.streams.add(stream.cuda_stream)
        super().__init__(*args, stream=stream, **options)


if __name__ == "__main__":
    torch.cuda.graph = NotedGraph
    with open_world(Sections().computing) as world:
        results = [of_a_network(case, world) for case in CASES]
        for agrees in (True, False):
            # The null GPU's values are none, and a comparison of them says nothing.
            graphs.is_near = lambda found, expected, agrees=agrees: agrees
            results.append(of_a_network(OWN, world))
        graphs.is_near = lambda found, expected: True
        has_transformers = find_spec("transformers") is not None
        results.append(of_a_network(of_transformers(), world) if has_transformers else None)
        print(json.dumps([*results, len(NotedGraph.streams)]), flush=True)
    os._exit(0)
