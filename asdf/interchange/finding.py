"""Networks found by a path, or by a name on the hub; without torch.

Invariant: all functions that take a network accept the same names: a file or folder on this
machine, a repository on the hub, which is downloaded once, or the shipped detector; in ASDF's
layout, or in another one that `recognise` supports.
"""

from __future__ import annotations

import os
from pathlib import Path

from asdf.errors import AsdfError
from asdf.hub import HubName, download_network, find_published, name_of, parse_name
from asdf.runs.evaluations import best_network
from asdf.runs.layout import RESUME, Layout, NetworkName, in_order
from asdf.shipped import SMALL, is_shipped, shipped_detector
from asdf.text import AnyPath
from asdf.trials.run_folder import open_run_folder


def find_network(named: AnyPath) -> Path:
    """Return the path of a network: the given path, or the download from the hub.

    For the folder of a run it is the best network, as in `report` and `evaluate`. `small` is the
    shipped detector; a name in the list of `detectors` is
    downloaded from the hub, or is that detector's file in the current folder. An existing path
    takes precedence over all of these.

    Raises:
        UsageError: it begins with 'hub:' but is not a valid name, or huggingface_hub is not
            installed.
        AsdfError: it cannot be downloaded, or it is a published detector whose file is missing
            here.
    """
    name = parse_name(os.fspath(named))
    if name is not None:
        return download_network(name)
    path = Path(named)
    if is_shipped(path):
        return shipped_detector().path
    published = find_published(path)
    if isinstance(published, HubName):
        return download_network(published)
    if published is not None:
        return published
    return _best_of_run(path) if path.is_dir() and Layout(path).settings.is_file() else path


def _best_of_run(folder: Path) -> Path:
    """Return the path of a run's best network.

    Raises:
        AsdfError: there is none yet.
    """
    run = open_run_folder(folder)
    names = [NetworkName.parse(path.name) for path in run.layout.networks.glob("*.pt")]
    networks = [str(name) for name in in_order(names) if name != RESUME]
    best = best_network(run.training(), networks)
    if best is None:
        raise AsdfError(f"the run in {folder} has no network yet. Run its stage 1 first.")
    # In the form in which the user wrote the folder, because the result is shown.
    return Layout(folder).network_file(NetworkName(best))


def describe_source(named: AnyPath, path: Path) -> str:
    """Return the origin of a network: its path or address, or the repository with its commit.

    Args:
        path: Path returned by `find_network`.
    """
    name = name_of(path)
    if name is not None:
        return str(name)
    if is_shipped(path):
        return SMALL
    return str(named) if Path(named) == path else str(path)
