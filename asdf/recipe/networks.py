"""The networks of a run: built for training, and loaded to score."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from asdf.errors import AsdfError
from asdf.recipe.run_folders import Folders
from asdf.settings import Sections

if TYPE_CHECKING:
    from torch import nn

    from asdf.distributed.world import World


class Networks:
    """The networks that the settings of a run describe, and those in its folder."""

    def __init__(self, settings: Sections, folders: Folders, world: World) -> None:
        self._settings = settings
        self._folders = folders
        self._world = world
        self._pinned_weights: str | None = None

    @property
    def takes_references(self) -> bool:
        """Whether the network takes a reference beside each recording."""
        from asdf.networks.build import find_network_class
        from asdf.networks.interface import takes_references

        name = self._settings.network.network_class
        return takes_references(find_network_class(name, self._folders.recipe))

    def pinned_settings(self) -> Sections:
        """Return the settings with a fixed hub commit for the weights, the same on all processes.

        All ranks make the first call together.
        """
        from asdf.interchange import names_path, pin_weights

        settings = self._settings
        weights = self._folders.weights(settings.front_end.weights)
        if weights is None or names_path(weights):
            return settings
        if self._pinned_weights is None:
            # A branch may change while the processes start.
            self._pinned_weights = self._world.run_on_main(partial(pin_weights, weights))
        return replace(
            settings, front_end=replace(settings.front_end, weights=self._pinned_weights)
        )

    def build(self) -> nn.Module:
        """Build the untrained network on this process's device, with equal weights on all."""
        import torch

        settings = self.pinned_settings()
        # All processes draw the same weights, which avoids sending them.
        torch.manual_seed(settings.recipe.seed)
        return self._folders.build_network(settings).to(self._world.device)

    def load(self, name: str) -> nn.Module:
        """Load the network in the file `name` of the system's networks, ready to score.

        The file determines how it is built; pretrained weights are needed only by files that omit
        them. LoRA updates are merged into the weights.
        """
        from asdf.checkpoint.base_weights import find_base
        from asdf.checkpoint.network_file import NETWORK_SECTIONS
        from asdf.checkpoint.network_reading import fill_for_scoring
        from asdf.interchange import build_pretrained, note_file
        from asdf.networks.tuning import merge_updates
        from asdf.training.checkpoints import read_checkpoint

        own = self._settings
        path = self._folders.networks / name
        file = read_checkpoint(path, mapped=True)
        settings = file.to_sections(own, (*NETWORK_SECTIONS, *own.declared))
        # A complete file has the trained weights; the initial ones may be gone.
        settings.front_end.weights = None
        if file.base is not None:
            weights = self._folders.weights(own.front_end.weights)
            settings.front_end.weights = find_base(file.base, path, weights)
        if settings.audio != own.audio:
            raise AsdfError(
                f"{path} is a network that takes recordings {settings.audio.describe()}, but the "
                f"settings read them {own.audio.describe()}. Set audio.sample_rate and "
                "audio.channels as in its training."
            )
        network = build_pretrained(settings, self._folders.recipe)
        fill_for_scoring(network, file, self._folders.recipe)
        merge_updates(network)
        note_file(network, path)
        return network.to(self._world.device).eval()
