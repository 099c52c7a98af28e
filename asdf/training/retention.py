"""Which networks stay, which is the best, and the average of the best ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.network_files import AVERAGE, by_eer, network_files
from asdf.settings.sections import Sections
from asdf.training.checkpoints import read_checkpoint, write_checkpoint


def remove_networks(folder: Path, settings: Sections, evaluations: list[dict[str, Any]]) -> None:
    """Remove the networks that the settings do not keep."""
    net = settings.network
    if net.keep_last_networks is None:
        return
    files = network_files(folder)
    kept = {path.name for path in list(files)[-net.keep_last_networks :]}
    best = max(net.keep_best_networks, net.average_best_networks)
    kept |= {evaluation["network"] for evaluation in by_eer(evaluations)[:best]}
    kept |= {
        f"epoch.{epoch}.pt"
        for epoch in settings.recipe.selected_epochs or ()
        if isinstance(epoch, int)
    }
    for path, (epochs, step) in files.items():
        every = (
            net.keep_every_epochs is not None and step == 0 and epochs % net.keep_every_epochs == 0
        )
        if path.name not in kept and not every:
            path.unlink()


def average_networks(folder: Path, evaluations: list[dict[str, Any]], count: int) -> Path:
    """Write the mean of the weights of the best `count` networks to `folder/average.pt`.

    Floating-point weights and statistics are averaged in float64; counters are taken from the best one.
    """
    names = [evaluation["network"] for evaluation in by_eer(evaluations)][:count]
    names = [name for name in names if (folder / name).exists()]
    if not names:
        raise AsdfError(
            "network.average_best_networks asks for an average, but no network has been evaluated: set "
            "recipe.validation_sets, or network.average_best_networks = 0."
        )
    content = read_checkpoint(folder / names[0], mapped=True)
    sums = {
        name: tensor.double()
        for name, tensor in content["model_state_dict"].items()
        if tensor.is_floating_point()
    }
    for other in names[1:]:
        weights = read_checkpoint(folder / other, mapped=True)["model_state_dict"]
        for name in sums:
            sums[name] += weights[name].double()
    averaged: dict[str, torch.Tensor] = {
        name: (sums[name] / len(names)).to(tensor.dtype) if name in sums else tensor
        for name, tensor in content["model_state_dict"].items()
    }
    kept: dict[str, Any] = {
        key: content[key]
        for key in ("format", "version", "network_class", "settings")
        if key in content
    }
    write_checkpoint(folder / AVERAGE, {**kept, "model_state_dict": averaged, "averaged": names})
    LOG.info("averaged %s into %s", ", ".join(names), AVERAGE)
    return folder / AVERAGE
