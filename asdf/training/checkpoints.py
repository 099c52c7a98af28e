"""Networks on disk: `networks/epoch.N.pt`, and `networks/resume.pt` inside an epoch.

Invariants: a file is whole or absent; it holds tensors and plain values only and is read without running anything in
it; what is at a path is never replaced by an earlier or another run's network. A file carries all that going on
needs, and the settings that build the network that it fits.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from asdf.errors import AsdfError
from asdf.networks.build import self_contained
from asdf.runs.files import atomic_write
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.training.network_files import RESUME, network_files, networks_present
from asdf.training.progress import Progress

_SHOWN = 4


def save_checkpoint(
    path: Path,
    network: nn.Module,
    optimiser: torch.optim.Optimizer,
    scaler: torch.amp.GradScaler,
    progress: Progress,
    settings: Sections,
) -> None:
    """Write everything that scoring with the network and going on with its training need.

    `model_state_dict`, `optimizer_state_dict`, `training_loss` and `consecutive_lr_updates` are where the original
    framework keeps them.

    Raises:
        AsdfError: the folder cannot be written or the disk is full; what was at `path` is unchanged.
    """
    content = {
        "format": "asdf",
        "version": 1,
        "network_class": settings.network.network_class,
        "settings": asdict(replace(settings, front_end=self_contained(settings.front_end, network))),
        "model_state_dict": network.state_dict(),
        "optimizer_state_dict": optimiser.state_dict(),
        "scaler_state_dict": scaler.state_dict(),
        "training_loss": progress.training_loss,
        "consecutive_lr_updates": progress.consecutive_lr_updates,
        "progress": progress.state(),
    }
    write_checkpoint(path, content)


def write_checkpoint(path: Path, content: dict[str, Any]) -> None:
    """Write `content` to `path` atomically; torch reports a full disk as a RuntimeError of its zip writer."""
    try:
        with atomic_write(path, "wb") as file:
            torch.save(content, file)
    except RuntimeError as error:
        raise AsdfError(
            f"cannot write {path}: {str(error).splitlines()[0]} Is the disk full? What was there before is unchanged. "
            "Free some space, then start the same command again: it goes on from the newest checkpoint."
        ) from error


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The content of a network file, on the CPU; nothing in the file is executed.

    Raises:
        AsdfError: there is no such file, or it is no network.
    """
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise AsdfError(
            f"there is no network {path}. {networks_present(path.parent)} Choose one with recipe.selected_epochs or "
            "network.resume_epoch, or train first."
        ) from None
    except Exception as error:  # torch.load raises many kinds, and says in its first line what it met
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise AsdfError(
            f"cannot read the network {path}: {reason} The file is damaged or no network of ASDF; "
            "nothing in it was run."
        ) from None
    if not isinstance(content, dict) or not isinstance(content.get("model_state_dict"), dict):
        raise AsdfError(f"{path} is no network of ASDF: it holds no 'model_state_dict'.")
    return content


def fill_network(path: Path, content: dict[str, Any], network: nn.Module) -> None:
    """Put the weights of a file's `content` into `network`; `path` is for the message.

    Raises:
        AsdfError: the file is of another network; `network` is then unchanged.
    """
    weights = content["model_state_dict"]
    have = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    found = {name: tuple(getattr(value, "shape", ())) for name, value in weights.items()}
    # The original framework kept these two numbers among the weights.
    extra = {name for name in ("training_loss", "consecutive_lr_updates") if name in found and name not in have}
    differences = [
        f"{name}: {found.get(name, 'not in the file')}, the network has {have.get(name, 'no such layer')}"
        for name in sorted(have.keys() | (found.keys() - extra))
        if have.get(name) != found.get(name)
    ]
    if differences:
        more = f"\n  ... and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise AsdfError(
            f"{path} is of another network than the settings build "
            f"({content.get('network_class', 'unknown class')}):\n  "
            + "\n  ".join(differences[:_SHOWN])
            + more
            + "\nSet network.network_class and front_end.architecture to those it was trained with, "
            "or give this run another paths.system_folder."
        )
    network.load_state_dict({name: tensor for name, tensor in weights.items() if name not in extra})


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint of `folder`; one that cannot be read is passed over, aloud.

    Raises:
        AsdfError: there are networks, but none can be read: a start from nothing would overwrite them.
    """
    candidates = list(reversed(network_files(folder)))
    if (folder / RESUME).exists():
        candidates.insert(0, folder / RESUME)
    best: tuple[int, Path] | None = None
    for path in candidates:
        try:
            steps = _steps(read_checkpoint(path))
        except AsdfError as error:
            LOG.warning("passed over: %s", error)
            continue
        if best is None or steps > best[0]:
            best = (steps, path)
        if path.name != RESUME:
            break
    if candidates and best is None:
        raise AsdfError(
            f"none of the {len(candidates)} networks in {folder} can be read. They are left as they are: move them "
            "away to start afresh, or give this run another paths.system_folder."
        )
    return best[1] if best else None


def _steps(content: dict[str, Any]) -> int:
    return int(content.get("progress", {}).get("step", -1))
