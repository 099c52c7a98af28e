"""A network, a loss and a head of the user's own, tried on noise in a dry run as before training.

Invariant: what a trial refuses, stage 1 refuses with the same words, and nothing is written.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from asdf.settings.catalogue import class_path_of
from asdf.settings.class_path import is_ours
from asdf.settings.sections import Sections

_LOSS = "network.loss"
_HEAD = "source.head"
# Larger networks are outlined only: a dry run is to take seconds, on a login node as well.
MAX_PARAMETERS = 50_000_000


def names_own_code(settings: Sections) -> bool:
    """Whether the network, one of its ends, the loss or a head is a class of the user's own."""
    values = {
        "network.network_class": settings.network.network_class,
        "front_end.front_end_class": settings.front_end.front_end_class,
        "back_end.back_end_class": settings.back_end.back_end_class,
        _LOSS: settings.network.loss,
    }
    if settings.source.column is not None:
        values[_HEAD] = settings.source.head
    named = [class_path_of(name, value) for name, value in values.items() if value is not None]
    named += settings.network.tasks
    return not all(is_ours(class_path) for class_path in named)


def try_network(settings: Sections, architecture: str, folder: Path) -> None:
    """Build the network with random weights; run it, the loss and the heads of tasks on noise,
    and check the results.

    Args:
        architecture: Architecture of the front end.
        folder: the recipe's.

    Raises:
        AsdfError: as `build_network`, `check_outputs`, `build_loss` and `Task.try_on_noise`.
    """
    import torch

    from asdf.networks.build import build_network
    from asdf.networks.output_check import check_outputs
    from asdf.training.losses.loss_building import build_loss, find_loss_class, list_of_two
    from asdf.training.task import find_tasks

    front_end = replace(settings.front_end, architecture=architecture, weights=None)
    tried = replace(settings, front_end=front_end)
    with torch.random.fork_rng(devices=[]):
        network = build_network(tried, folder)
        check_outputs(network, settings.network, torch.device("cpu"))
        build_loss(network, list_of_two(find_loss_class(tried, folder)), tried, folder)
        find_tasks(tried, folder).requested().try_on_noise(network)
