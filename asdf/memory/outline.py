"""A network of which only the shapes exist, to see what it takes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from torch import nn

from asdf.networks.build import build_network
from asdf.settings.sections import Sections


def outlined_network(
    settings: Sections, architecture: str, folder: Path | None = None
) -> nn.Module:
    """Build the network that `settings` describe on a fake GPU (see `fake_gpu`), for training.

    No layer is dropped at random: which ones run could not be known.

    Args:
        architecture: Architecture of the front end, as in `front_end.architecture`: that of the
            weights, if any.
        folder: the recipe's folder, where a user's own modules lie.

    Raises:
        AsdfError: as `build_network`; also where a constructor looks at numbers.
    """
    front_end = replace(settings.front_end, architecture=architecture, weights=None, layer_drop=0.0)
    return build_network(replace(settings, front_end=front_end), folder).train()
