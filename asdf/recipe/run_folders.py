"""Folders of a run, below paths.output_folder, its initial weights, and its chosen networks.

torch is not loaded, so that a dry run is fast.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from asdf.errors import AsdfError, UsageError
from asdf.hub import parse_name
from asdf.runs.evaluations import EER, evaluated_networks
from asdf.runs.layout import AVERAGE, Layout, NetworkName, describe_networks, list_networks
from asdf.settings.front_end_values import BUNDLE, missing_weights
from asdf.settings.sections import Paths, Sections

if TYPE_CHECKING:
    from torch import nn


_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Folders:
    """Absolute folders of one system.

    Relative paths in a config are relative to the recipe's folder.
    """

    recipe: Path
    output: Path
    database: Path
    system: Path
    sad: Path

    @property
    def layout(self) -> Layout:
        """The paths in the system folder."""
        return Layout(self.system)

    @property
    def networks(self) -> Path:
        return self.layout.networks

    @property
    def features(self) -> Path:
        return self.output / "features"

    def weights(self, weights: str | None) -> str | None:
        """Return `front_end.weights` in the form in which it is read.

        A path is resolved from the recipe's folder; a bundle of torchaudio and a repository on the
        hub keep their names.

        Raises:
            UsageError: it begins with 'hub:' but is not a valid repository name.
        """
        if weights is None or weights.startswith(BUNDLE):
            return weights
        path = self.recipe / weights
        name = parse_name(weights)
        # A path that exists here, or is in an existing folder, is not a name on the hub.
        is_here = path.exists() or path.parent.exists()
        if name is not None and (name.is_explicit or not is_here):
            return weights
        return str(path)

    def describe_download(self, weights: str | None) -> str:
        """Return what a run downloads from the hub for `front_end.weights`; '' for nothing.

        Raises:
            UsageError, AsdfError: the repository does not exist on the hub, or the hub does not
                respond.
        """
        from asdf.interchange import bytes_to_fetch

        named = self.weights(weights)
        size = 0 if named is None else bytes_to_fetch(named)
        return f"the run downloads {size / _MEGABYTE:,.1f} MB of {named}" if size else ""

    def build_network(self, settings: Sections) -> nn.Module:
        """Build the network of the settings with the pretrained weights that they name.

        Raises:
            UsageError: the network's class does not exist, or `network.initial_network` differs
                from the network in the settings.
            AsdfError: the weights are missing, cannot be read or do not fit, or the constructor of
                the class fails.
        """
        from asdf.interchange import build_on_network, build_pretrained, names_path

        initial = self.weights(settings.network.initial_network)
        if initial is not None:
            return build_on_network(settings, self.recipe, initial)
        weights = self.weights(settings.front_end.weights)
        # Also for a network that has no front end to read them.
        if weights is not None and names_path(weights) and not Path(weights).exists():
            raise AsdfError(missing_weights(Path(weights)))
        front_end = replace(settings.front_end, weights=weights)
        return build_pretrained(replace(settings, front_end=front_end), self.recipe)


def folders_of(paths: Paths, recipe_folder: Path) -> Folders:
    """Return the folders given by `paths`.

    Raises:
        UsageError: the output or the database folder is not set, or a relative path of another
            folder leads out of the output folder.
    """
    for name in ("output_folder", "database_folder"):
        if getattr(paths, name) is None:
            raise UsageError(
                f"paths.{name} is not set. Set it in the recipe's configs/init_config.py, or add "
                f"paths.{name}=/your/folder to the command."
            )
    output = (recipe_folder / str(paths.output_folder)).resolve()
    database = (recipe_folder / str(paths.database_folder)).resolve()
    for name in ("system_folder", "sad_folder"):
        folder = getattr(paths, name)
        # Compare names only: a link in the output folder may lead to another disk.
        is_below = Path(os.path.normpath(output / folder)).is_relative_to(output)
        if not Path(folder).is_absolute() and not is_below:
            raise UsageError(
                f"paths.{name} = {folder!r} is outside paths.output_folder ({output}). Write it "
                "without '..', or as an absolute path if that is intended."
            )
    system, sad = output / paths.system_folder, output / paths.sad_folder
    return Folders(recipe_folder, output, database, system, sad)


def select_networks(settings: Sections, layout: Layout) -> list[str]:
    """Return the file names of the chosen networks, each once.

    Raises:
        AsdfError: a network does not exist; the message lists those that do.
    """
    folder = layout.networks
    network = settings.network
    # None means the epoch that was only scored, or the last.
    chosen: Sequence[int | str] = settings.recipe.selected_epochs or ()
    if settings.recipe.selected_epochs is None:
        chosen = [-int(network.resume_epoch)] if network.scores_only else ["last"]
    # Two choices may be the same network: the best is often the last one.
    names: dict[str, None] = {}
    for epoch in chosen:
        if isinstance(epoch, int):
            name = NetworkName.after_epoch(epoch)
        elif epoch == "average":
            name = AVERAGE
        elif epoch == "best":
            evaluated = evaluated_networks(layout, network.validation_metric)
            if not evaluated:
                metric = network.validation_metric
                by = "" if metric == EER else f" by network.validation_metric = {metric!r}"
                raise AsdfError(
                    f"recipe.selected_epochs names 'best', but no network in {folder} has been "
                    f"evaluated{by}: set recipe.validation_sets before training, or name an epoch."
                )
            name = evaluated[0]
        else:
            known = list_networks(folder)
            if not known:
                raise AsdfError(
                    f"there are no networks in {folder}: run stage 1 first, or check "
                    "paths.system_folder."
                )
            name = known[-1]
        names[name.file] = None
    missing = [name for name in names if not (folder / name).exists()]
    if missing:
        raise AsdfError(
            f"{folder} holds no {', '.join(missing)}. {describe_networks(folder)} Choose with "
            "recipe.selected_epochs."
        )
    return list(names)
