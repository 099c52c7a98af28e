"""Preparation of the first run: start processes, load torch, compare configs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from asdf.distributed.devices import TORCH_PAIR, installed_torch
from asdf.distributed.launchers import Launch
from asdf.errors import AsdfError, UsageError
from asdf.settings import Sections

if TYPE_CHECKING:
    from asdf.distributed.world import World

_LATER = (
    "asdf.data.feature_cache",
    "asdf.interchange.pretrained",
    "asdf.evaluation",
    "asdf.scoring.score_list",
    "asdf.training.loop",
    "asdf.training.validating",
)


def become_torchrun(settings: list[Sections], launch: Launch) -> None:
    """Become torchrun if several processes are requested and none have been started."""
    # The first config stands for all: differing numbers were refused (`find_problems`).
    processes = settings[0].computing.processes
    if processes == 1 or launch.size > 1 or launch.is_in_torch_world:
        return
    # --standalone takes a free port, so that several runs can share a machine.
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={processes}"]
    # In this process, so that its number, signals and exit status stay those of the command.
    os.execv(sys.executable, [sys.executable, *launcher, *sys.argv])


def check_same_run(world: World, configs: Sequence[str], settings: Sections) -> None:
    """Refuse processes that were started together, but for different runs.

    They would train on each other's gradients, or wait for each other forever. Folders and devices
    may differ between nodes.

    Args:
        configs: All configs on the command line.
        settings: Settings of the config that runs now.

    Raises:
        UsageError: on every rank, if any rank differs from the main rank.
    """
    compared = settings.plain()
    # Nodes may have other disks and devices.
    del compared["paths"], compared["computing"]
    differs = (configs, compared) != world.agree((configs, compared))
    words = " ".join(configs)
    # All ranks take part in each exchange: a rank that continued would leave the others waiting.
    words_of_others = world.gather(words if differs else "") or []
    count = world.sum([float(differs)])[0]
    if count == 0:
        return
    named = [f"rank {rank} runs {name}" for rank, name in enumerate(words_of_others) if name]
    refused = UsageError(
        f"the {world.size} processes that were started together do not run the same config with "
        f"the same settings: rank 0 runs {words}, {', '.join(named)}. For separate runs start each "
        "by itself (with srun: --ntasks=1 --exact), or use python -m asdf launch."
    )
    refused.reported_by_main = not world.is_main
    raise refused


def announce(launch: Launch) -> None:
    """Show that torch is being loaded, which takes seconds, or a minute on a busy machine."""
    if launch.rank == 0 and "torch" not in sys.modules:
        print(f"loading {installed_torch()}", flush=True)


def import_torch() -> None:
    """Load all code that a run may need: if loaded later, it might have been edited."""
    try:
        import torch  # noqa: F401
        import torchaudio  # noqa: F401
    except (ImportError, OSError, RuntimeError) as error:
        raise AsdfError(
            f"torch and torchaudio cannot be loaded together: {str(error).splitlines()[0]}. "
            f"Install a matching pair: pip install {TORCH_PAIR} (or torch 2.9 or 2.10 with the "
            "torchaudio of the same number); a CPU-only torch needs the CPU-only torchaudio from "
            "the same index."
        ) from None
    for module in _LATER:
        import_module(module)
