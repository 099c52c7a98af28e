"""Resume from a network file and print the memory that it takes.

    python -m tests.distributed.resume_memory FOLDER       resumes from FOLDER/networks/epoch.1.pt

The last line printed is JSON: per rank, the bytes by which its anonymous memory had grown when the
file's content was in use, and whether it still has the file mapped afterwards.
"""

import gc
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import nn

from asdf.checkpoint.network_file import write_network_file
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import open_world
from asdf.recipe.lists import RunLists
from asdf.recipe.run_folders import Folders
from asdf.recipe.training_stage import resume_training
from asdf.runs.layout import Layout
from asdf.settings.sections import Sections
from asdf.training.checkpoints import HostCopies, collect_checkpoint
from asdf.training.gradients import WeightUpdate, choose_precision
from asdf.training.optimisers import build_optimiser
from asdf.training.training_progress import Progress

FROZEN = 5000
TRAINED = 1000


def make() -> tuple[nn.Module, torch.optim.Optimizer, Sections]:
    """A network of 104 MB, of which 4 MB are trained."""
    settings = Sections()
    settings.network.optimizer = "adam"
    torch.manual_seed(1)
    network = nn.Sequential(nn.Linear(FROZEN, FROZEN), nn.Linear(TRAINED, TRAINED))
    network[0].requires_grad_(False)
    return network, build_optimiser(network, settings), settings


def write(folder: Path) -> None:
    network, optimiser, settings = make()
    network[1](torch.ones(1, TRAINED)).sum().backward()
    optimiser.step()
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    progress = Progress(epochs=1, step=1)
    checkpoint = collect_checkpoint(network, optimiser, scaler, progress, settings, HostCopies())
    assert checkpoint is not None
    networks = Layout(folder).networks
    networks.mkdir()
    write_network_file(networks / "epoch.1.pt", checkpoint)


class Resumed:
    """A trainer, as far as a resume needs one."""

    def __init__(self) -> None:
        network, _, self.settings = make()
        precision = choose_precision("fp32", torch.device("cpu"))
        update = WeightUpdate(network, self.settings, precision)
        self.step = SimpleNamespace(network=network, update=update)
        self.plan = SimpleNamespace(order=lambda epoch: range(100))
        self.progress = Progress()
        self.began = anonymous_bytes()

    def resume(self, checkpoint, evaluations) -> None:
        self.step.update.load_state(checkpoint)
        self.grown = anonymous_bytes() - self.began


def anonymous_bytes() -> int:
    (line,) = (
        line for line in Path("/proc/self/status").read_text().splitlines() if "RssAnon" in line
    )
    return 1024 * int(line.split()[1])


def main() -> None:
    folder = Path(sys.argv[1])
    with open_world(Sections().computing) as world:
        trainer = Resumed()
        settings = Sections()
        settings.recipe.training_sets = settings.recipe.validation_sets = ()
        layout = Layout(folder)
        layout.settings.touch()
        folders = Folders(folder, folder, folder, folder, folder)
        trainer.layout, trainer.world = layout, world
        resume_training(trainer, "auto", RunLists({}, settings, folders, world, StopRequest()))
        gc.collect()
        mapped = "epoch.1.pt" in Path("/proc/self/maps").read_text()
        results = world.gather([trainer.grown, mapped])
        if world.is_main:
            print(json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
