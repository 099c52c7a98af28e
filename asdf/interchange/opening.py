"""The networks that a user names: by a path, or by a name of the hub.

Invariant: whatever takes a network takes the same names: a file or folder on this machine, or a
repository of the hub, which is downloaded once.
"""

from __future__ import annotations

import os
from pathlib import Path

from torch import nn

from asdf.hub import download_network, name_of, parse_name
from asdf.interchange.network_file import NetworkFile
from asdf.interchange.network_reading import read_network


def find_network(named: str | os.PathLike[str]) -> Path:
    """Return the path of a network: as it is named, or where it was downloaded to from the hub.

    Raises:
        UsageError: it begins with 'hub:' and is no name, or huggingface_hub is not installed.
        AsdfError: it cannot be downloaded.
    """
    name = parse_name(os.fspath(named))
    if name is None:
        return Path(named)
    return download_network(name)


def describe_source(named: str | os.PathLike[str], path: Path) -> str:
    """Return where a network is from: as it was named, or the repository with its commit.

    Args:
        path: what `find_network` returned.
    """
    name = name_of(path)
    return str(named) if name is None else str(name)


def read_detector(
    named: str | os.PathLike[str], folder: Path | None = None, base: str | None = None
) -> tuple[nn.Module, NetworkFile]:
    """Read the network that a user names, as `read_network`.

    Args:
        named: a path, or a name of the hub.
        folder, base: as of `read_network`.

    Raises:
        UsageError: as `find_network`.
        AsdfError: it cannot be downloaded or read.
    """
    return read_network(find_network(named), folder, base)
