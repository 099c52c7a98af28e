"""The run of a config, with which the stages of a recipe work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from asdf.audio.augmentation import Chain, open_chain
from asdf.distributed.stopping import StopRequest
from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import Corpus
from asdf.recipe.lists import RunLists
from asdf.recipe.run_folders import Folders, select_networks
from asdf.recipe.used_sets import sets_in_use
from asdf.runs.log import LOG
from asdf.settings import Sections, Settings
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from torch import nn

    from asdf.distributed.world import World
    from asdf.training.callback_group import CallbackGroup


class Run:
    """A config with its settings, its folders and its processes.

    Attributes:
        settings: Plain copy of `Settings()` as it is during the run, for the rooms below.
        scored: Score files next to which there may be partial results.

    Examples:
        >>> import sys
        >>> from asdf.recipe import Corpus, open_recipe
        >>> def count(run):
        ...     counts[run.config] = len(run.utterances("mine"))
        >>> counts = {}
        >>> corpora = {"mine": Corpus("train.txt", folder="mine")}
        >>> sys.argv = ["run.py", "small"]
        >>> with open_recipe("run.py", corpora) as recipe:  # doctest: +ELLIPSIS
        ...     for run in recipe.runs():
        ...         run.stage(1, count)
        config small, system folder ...
        >>> counts
        {'small': 2}
    """

    def __init__(
        self,
        config: str,
        settings: Sections,
        folders: Folders,
        corpora: Mapping[str, Corpus],
        world: World,
        stop: StopRequest,
    ) -> None:
        self.config = config
        self.settings = settings
        self.folders = folders
        self.world = world
        self.stop = stop
        self.lists = RunLists(corpora, settings, folders, world, stop)
        self.scored: list[Path] = []
        self._callbacks: CallbackGroup | None = None
        self._pinned_weights: str | None = None

    def stage(self, number: int, function: Callable[[Run], Any], main_only: bool = False) -> None:
        """Call `function(self)` if the settings include stage `number`; all ranks call this.

        With `main_only` the main rank calls it while the others wait; an exception there ends all
        ranks.
        """
        if not Settings().recipe.execute_stage(number):
            return
        summary = (function.__doc__ or function.__name__).strip().splitlines()[0]
        LOG.info("stage %d: %s", number, summary)
        if main_only:
            self.callbacks()  # all ranks take part in creating them
            self.world.run_on_main(partial(function, self))
        else:
            function(self)
            self.world.barrier()
        self.end_scoring()

    def end_scoring(self) -> None:
        """Remove the partial results of scored lists; all ranks are done with them."""
        if not self.scored:
            return
        from asdf.scoring.score_list import remove_parts

        self.world.barrier()
        if self.world.is_main:
            for path in self.scored:
                remove_parts(path)
        self.scored.clear()

    def callbacks(self) -> CallbackGroup:
        """Return the run's callbacks; the user's own exist on the main rank alone.

        They are created on first use. A callback that cannot be created ends all ranks.
        """
        from asdf.training.callback_group import build_callbacks

        if self._callbacks is None:
            folders = self.folders
            self._callbacks = build_callbacks(
                self.settings, folders.system, folders.recipe, self.world
            )
        return self._callbacks

    def end_callbacks(self, error: BaseException | None) -> None:
        """Notify the callbacks how the run ended, on the main rank, if there are any."""
        if self._callbacks is not None and self.world.is_main:
            self._callbacks.end(error)

    @cached_property
    def augmentation(self) -> Chain:
        """The augmentation of training examples, whose recordings the main rank lists, once.

        Raises:
            UsageError: a folder of recordings is missing or has none, or a codec is missing.
        """
        folders = self.folders
        chain = partial(open_chain, self.settings, folders.database, folders.recipe)
        return self.world.run_on_main(chain)

    @property
    def scores_only(self) -> bool:
        """Whether networks are only scored, by network.resume_epoch = -N."""
        return self.settings.network.scores_only

    def sets_in_use(self) -> list[str]:
        """Return the names of the corpora that the chosen stages read."""
        return sets_in_use(self.settings)

    def utterances(self, name: str) -> TrialList:
        """Return the list of a corpus of the recipe, or of several, 'mlaad+m-ailabs'.

        A missing demo corpus is made first.
        """
        return self.lists.read(name)

    def lengths(self, utterances: TrialList) -> np.ndarray:
        """Return lengths in samples, measured now or by an earlier run."""
        return self.lists.lengths(utterances)

    def training_utterances(self) -> tuple[TrialList, np.ndarray]:
        """Return all training sets as one list, and the lengths of its utterances in samples."""
        return self.lists.training()

    def pinned_settings(self) -> Sections:
        """Return the settings with a fixed hub commit for the weights, the same on all processes.

        All ranks make the first call together.
        """
        from asdf.interchange import names_path, pin_weights

        settings = self.settings
        weights = self.folders.weights(settings.front_end.weights)
        if weights is None or names_path(weights):
            return settings
        if self._pinned_weights is None:
            # A branch may change while the processes start.
            self._pinned_weights = self.world.run_on_main(partial(pin_weights, weights))
        return replace(
            settings, front_end=replace(settings.front_end, weights=self._pinned_weights)
        )

    def build_network(self) -> nn.Module:
        """Build the untrained network on this process's device, with equal weights on all."""
        import torch

        settings = self.pinned_settings()
        # All processes draw the same weights, which avoids sending them.
        torch.manual_seed(settings.recipe.seed)
        return self.folders.build_network(settings).to(self.world.device)

    def load_network(self, name: str) -> nn.Module:
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

        own = self.settings
        path = self.folders.networks / name
        file = read_checkpoint(path, mapped=True)
        settings = file.to_sections(own, (*NETWORK_SECTIONS, *own.declared))
        # A complete file has the trained weights; the initial ones may be gone.
        settings.front_end.weights = None
        if file.base is not None:
            weights = self.folders.weights(own.front_end.weights)
            settings.front_end.weights = find_base(file.base, path, weights)
        if settings.audio != own.audio:
            raise AsdfError(
                f"{path} is a network that takes recordings {settings.audio.describe()}, but the "
                f"settings read them {own.audio.describe()}. Set audio.sample_rate and "
                "audio.channels as in its training."
            )
        network = build_pretrained(settings, self.folders.recipe)
        fill_for_scoring(network, file, self.folders.recipe)
        merge_updates(network)
        note_file(network, path)
        return network.to(self.world.device).eval()

    def selected_networks(self) -> list[str]:
        """Return the file names of the networks for stages 2 and 3.

        Raises:
            AsdfError: one of them does not exist.
        """
        return select_networks(self.settings, self.folders.layout)
