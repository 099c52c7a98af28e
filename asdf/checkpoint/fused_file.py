"""The file of a fused system: its networks, the fusion of their scores, and a calibration.

Invariant: it is plain JSON, nothing of which is executed, and each network is exactly the file that
the fusion was made for, by its SHA-256. Paths are relative to the file, so a folder with all of
them can be moved.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from asdf.checkpoint.weights_file import read_json
from asdf.errors import AsdfError
from asdf.hub import parse_name
from asdf.metrics.calibration import Calibration, read_calibration
from asdf.metrics.fusion import Fusion, read_fusion
from asdf.runs.files import digest_of, sha256_of, write_text
from asdf.shipped import NETWORK, SMALL
from asdf.text import AnyPath

FORMAT = "asdf-fusion"
VERSION = 1
SUFFIX = ".json"
_KEYS = ("format", "version", "networks", "fusion", "calibration", "development")


@dataclass(frozen=True)
class FusedNetwork:
    """A network of a fused system.

    Attributes:
        path: Path in the file: relative to it or absolute, a name on the hub, or 'small'.
        sha256: SHA-256 of its file, or of the files of its folder.
    """

    path: str
    sha256: str


@dataclass(frozen=True)
class FusedSystem:
    """The content of a fused system's file.

    Attributes:
        networks: Networks, in the order of the fusion's weights.
        calibration: Calibration of fused scores; None without one.
        development: Facts about the set that it was fitted to, as plain values.
        others: Further entries, for example of a newer version, which are preserved.
    """

    networks: tuple[FusedNetwork, ...]
    fusion: Fusion
    calibration: Calibration | None = None
    development: Mapping[str, Any] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)


def is_fused_file(path: AnyPath) -> bool:
    """Whether a network path is that of a fused system."""
    return Path(path).suffix.lower() == SUFFIX and not Path(path).is_dir()


def write_fused_file(path: Path, system: FusedSystem) -> None:
    """Write a fused system.

    Raises:
        AsdfError: the file cannot be written.
    """
    content = {
        "format": FORMAT,
        "version": VERSION,
        "networks": [vars(network) for network in system.networks],
        "fusion": system.fusion.content(),
        "calibration": system.calibration and system.calibration.content(),
        "development": dict(system.development),
        **system.others,
    }
    write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def read_fused_file(path: Path) -> FusedSystem:
    """Read a fused system without opening its networks.

    Raises:
        AsdfError: the file does not exist, or is not a fused system.
    """
    content = read_json(path)
    if content.get("format") != FORMAT:
        raise AsdfError(
            f"{path} is neither a network nor a fused system of ASDF, which `python -m asdf fuse "
            "... --networks ... --output FILE.json` writes."
        )
    if content.get("version") != VERSION:
        raise AsdfError(f"{path}: this fused system was written by a newer ASDF. Update ASDF.")
    listed = content.get("networks")
    entries = listed if isinstance(listed, list) else []
    networks = []
    for entry in entries:
        values = entry if isinstance(entry, dict) else {}
        texts = (values.get("path"), values.get("sha256"))
        if all(isinstance(text, str) and text for text in texts):
            networks.append(FusedNetwork(*map(str, texts)))
    fusion = read_fusion(content.get("fusion"), path)
    if len(networks) != len(entries) or len(networks) != len(fusion.weights):
        raise AsdfError(
            f"the networks in {path} cannot be used: it was changed or damaged. Create the file "
            "again with `python -m asdf fuse`."
        )
    development = content.get("development")
    return FusedSystem(
        tuple(networks),
        fusion,
        read_calibration(content.get("calibration"), path),
        development if isinstance(development, dict) else {},
        {key: value for key, value in content.items() if key not in _KEYS},
    )


def describe_networks(named: Sequence[str], paths: Sequence[Path], out: Path) -> list[FusedNetwork]:
    """Return the entries of networks for the file `out`.

    Args:
        named: Names of the networks, as the user gave them.
        paths: Paths of the networks (`asdf.interchange.find_network`).

    Raises:
        AsdfError: a network does not exist.
    """
    networks = []
    folder = out.resolve().parent
    for name, path in zip(named, paths, strict=True):
        if path == NETWORK:
            # Its path differs between machines.
            written = SMALL
        else:
            written = name if parse_name(name) else os.path.relpath(path.resolve(), folder)
        networks.append(FusedNetwork(Path(written).as_posix(), _digest(path)))
    return networks


def locate_network(network: FusedNetwork, file: Path) -> str:
    """Return a network of the fused system in `file`, in the form for `find_network`."""
    if parse_name(network.path):
        return network.path
    path = file.resolve().parent / network.path
    if network.path == SMALL and not path.exists():
        return str(NETWORK)
    return str(path)


def check_network(network: FusedNetwork, path: Path, file: Path) -> None:
    """Refuse a network other than the one that a fused system was made for.

    Args:
        path: Path of the network.
        file: File of the fused system.

    Raises:
        AsdfError: the network is missing or was changed.
    """
    if _digest(path) != network.sha256:
        raise AsdfError(
            f"{path} is not the network that {file} was made for: its SHA-256 differs. Restore "
            "that network, or create the fused system again with `python -m asdf fuse`."
        )


def _digest(path: Path) -> str:
    if not path.exists():
        raise AsdfError(
            f"there is no network {path}. The paths in a fused system are relative to its file."
        )
    try:
        # For a file, the output of `sha256sum`.
        return digest_of(path) if path.is_dir() else sha256_of(path)
    except OSError as error:
        raise AsdfError(f"cannot read {path}: {error.strerror or error}.") from None
