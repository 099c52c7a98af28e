"""A detector in any known layout, as a network of ASDF with all that its file will hold.

Invariant: each number of the network is the file's, finite, or named as one that scores do not
depend on. Nothing is written here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import nn

from asdf.checkpoint.attached_parts import LOSS, add_loss
from asdf.checkpoint.described_network import DescribedNetwork
from asdf.checkpoint.fitting import first_names, load_layers
from asdf.checkpoint.network_file import NetworkFile
from asdf.errors import AsdfError
from asdf.interchange.recognition import Recognised, recognise


@dataclass(frozen=True)
class Imported:
    """A detector that was read.

    Attributes:
        network: in eval mode, on the CPU.
        file: Content of a network file of it.
        recognised: as what it was read, and what was left out.
    """

    network: nn.Module
    file: NetworkFile
    recognised: Recognised


def import_detector(
    path: Path,
    chosen: Mapping[str, Any] | None = None,
    folder: Path | None = None,
    bona_fide: Sequence[str] = (),
) -> Imported:
    """Read a detector in any layout that `recognise` knows, from a file or a folder.

    Args:
        chosen: settings by their full names, which override the file's.
        folder: where the module of a user's own network class lies.
        bona_fide: as of `recognise`.

    Raises:
        UsageError: there is no such `folder`, or no such class.
        AsdfError: the file cannot be read, is no detector, does not say enough of its network,
            lacks layers, or holds numbers that are not finite.
    """
    read = recognise(path, chosen or {}, bona_fide)
    source = str(path)
    _check_finite(read, source)
    described = DescribedNetwork(
        read.settings, read.state, source, folder, own_names=read.own_names
    )
    network = replace(described, state=LOSS.without(read.state)).build()
    add_loss(network, read.loss, described)
    load_layers(network, read.state, source)
    file = NetworkFile.from_network(
        network, read.settings, calibration=read.calibration, evaluation=read.evaluation
    )
    return Imported(network.eval(), file, read)


def _check_finite(read: Recognised, source: str) -> None:
    wrong = []
    for name, tensor in read.state.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            wrong.append(read.own_names.get(name, name))
    if wrong:
        raise AsdfError(
            f"{source} holds numbers that are not finite, and would give no scores. They are in "
            f"{len(wrong)} layers: {first_names(wrong)}. It is damaged, or its training diverged: "
            "take another checkpoint."
        )
