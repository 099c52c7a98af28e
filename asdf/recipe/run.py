"""One config being run: what the stages of a recipe work with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from asdf.errors import AsdfError
from asdf.recipe.checks import build_with_weights, failures
from asdf.recipe.corpora import (
    Corpus,
    check_classes,
    find_corpus,
    is_checked,
    scores_only,
    sets_in_use,
    validation_sets,
)
from asdf.recipe.folders import Folders
from asdf.recipe.selection import select_networks
from asdf.runs.log import LOG
from asdf.settings import Sections, Settings
from asdf.trials.lists import check_both_classes, check_files
from asdf.trials.trial_list import TrialList, join

if TYPE_CHECKING:
    import numpy as np
    from torch import nn

    from asdf.audio.augmentation import Chain
    from asdf.distributed.stopping import StopRequest
    from asdf.distributed.world import World


@dataclass
class Run:
    """A config with its settings, its folders, and the processes that it runs on.

    Attributes:
        settings: a plain copy of what `Settings()` holds during the run, for the rooms below.
    """

    config: str
    settings: Sections
    folders: Folders
    corpora: Mapping[str, Corpus]
    recipe_folder: Path
    world: World
    stop: StopRequest
    _lists: dict[str, TrialList] = field(default_factory=dict)
    _lengths: dict[str, tuple[TrialList, np.ndarray]] = field(default_factory=dict)
    _augmentation: Chain | None = None

    def stage(self, number: int, function: Callable[[Run], Any], main_only: bool = False) -> None:
        """Do `function(self)` if the settings choose stage `number`; all ranks enter and leave it together.

        With `main_only` the main rank alone does it while the others wait; what it raises ends all of them.
        """
        if not Settings().recipe.execute_stage(number):
            return
        LOG.info(
            "stage %d: %s", number, (function.__doc__ or function.__name__).strip().splitlines()[0]
        )
        if main_only:
            self.world.run_on_main(lambda: function(self))
        else:
            function(self)
            self.world.barrier()

    @property
    def validation_sets(self) -> tuple[str, ...]:
        return validation_sets(self.settings)

    @property
    def scores_only(self) -> bool:
        return scores_only(self.settings)

    def sets_in_use(self) -> list[str]:
        """Names of the corpora that the chosen stages read."""
        return sets_in_use(self.settings)

    def utterances(self, name: str) -> TrialList:
        """The list of a corpus of the recipe; a corpus that can be made is made first."""
        if name not in self._lists:
            corpus = find_corpus(name, self.corpora)
            if corpus.make is not None:
                make = corpus.make
                self.world.run_on_main(lambda: make(self.folders.database))
            self._lists[name] = corpus.read(name, self.folders.database)
        return self._lists[name]

    def lengths(self, utterances: TrialList) -> np.ndarray:
        """Lengths in samples, measured now unless an earlier run did (see `asdf.data.lengths`).

        The recordings of a training set are decoded to their ends, once, if recipe.check_recordings says so.
        """
        from asdf.data.lengths import measure_lengths

        known = self._lengths.get(utterances.name)
        if known is not None and known[0] is utterances:
            return known[1]
        lengths = measure_lengths(
            utterances,
            self.settings.sad,
            self.folders.sad,
            self.world,
            self.stop,
            check=is_checked(utterances.name, self.settings),
        )
        self._lengths[utterances.name] = utterances, lengths
        return lengths

    def augmentation(self) -> Chain:
        """The augmentation of training examples; its recordings are found once, by the main rank.

        Raises:
            UsageError: a folder of recordings is missing or holds none, or a codec is not there.
        """
        from asdf.audio.augmentation import open_chain

        if self._augmentation is None:
            section, base = self.settings.augmentation, self.folders.database
            self._augmentation = self.world.run_on_main(lambda: open_chain(section, base))
        return self._augmentation

    def training_utterances(self) -> tuple[TrialList, np.ndarray]:
        """All training sets as one list, without utterances that are too short or too long, and their lengths."""
        import numpy as np

        parts = [self.utterances(name) for name in self.settings.recipe.training_sets]
        lengths = np.concatenate([self.lengths(part) for part in parts])
        utterances, net = join(parts), self.settings.network
        most = net.max_train_utterance_length_in_samples or np.iinfo(np.int64).max
        kept = (
            (lengths >= net.min_train_utterance_length_in_samples)
            & (lengths <= most)
            & (lengths > 0)
        )
        if not kept.all():
            LOG.info(
                "%d of %d training utterances are left out for their length",
                (~kept).sum(),
                len(kept),
            )
            utterances, lengths = utterances.select(np.flatnonzero(kept)), lengths[kept]
        check_both_classes(utterances, "training")
        LOG.info(
            "training on %d utterances: %d bona fide, %d spoof",
            len(utterances),
            (utterances.labels == 1).sum(),
            (utterances.labels == 0).sum(),
        )
        return utterances, lengths

    def build_network(self) -> nn.Module:
        """The untrained network of the settings on this process's device; the same weights on every process.

        One that is to be divided over the processes stays on the CPU, from where training divides it.
        """
        import torch

        from asdf.distributed.sharding import divides

        torch.manual_seed(self.settings.recipe.seed)
        network = build_with_weights(self.settings, self.folders, self.recipe_folder)
        if divides(self.settings.computing, self.world):
            return network
        return network.to(self.world.device)

    def load_network(self, name: str) -> nn.Module:
        """The network in the file `name` of the system's networks, ready to score.

        It is built as its own file says, so pretrained weights that it once started from are not needed.
        """
        from asdf.interchange import NETWORK_SECTIONS, fill_network
        from asdf.networks import build_network
        from asdf.training.checkpoints import read_checkpoint

        path = self.folders.networks / name
        file = read_checkpoint(path, mapped=True)
        settings = file.to_sections(self.settings, NETWORK_SECTIONS)
        settings.front_end.weights = None
        network = build_network(settings, self.recipe_folder)
        fill_network(network, file)
        return network.to(self.world.device).eval()

    def check(self) -> None:
        """Find what is missing before any work starts.

        Raises:
            UsageError: the network's class or a callback's is not there; features of the network's front end cannot be
                saved; the augmentation's recordings or the speech activity detector are not there.
            AsdfError: the front end's weights are not there or do not fit; lists or recordings that are not there, all
                of them in one message; a list without one class.
        """
        from asdf.audio.speech_activity import check_detector

        if self.settings.recipe.execute_stage(1) and not self.scores_only:
            self._check_own_code()
            self.augmentation()
            if self.settings.front_end.weights:
                self.world.run_on_main(self._check_weights)
        if self.sets_in_use():
            self.world.run_on_main(lambda: check_detector(self.settings.sad))
        lists = {}

        def read(name: str) -> None:
            lists[name] = self.utterances(name)

        missing = failures(partial(read, name) for name in self.sets_in_use())
        if missing:
            raise AsdfError("\n".join(dict.fromkeys(map(str, missing))))
        self.world.run_on_main(lambda: check_files(list(lists.values())))
        check_classes(list(lists.values()), self.settings)

    def _check_own_code(self) -> None:
        """Find the classes that training will make, so that a wrong name does not wait until all is measured."""
        from asdf.distributed.sharding import divides
        from asdf.networks.build import find_network_class
        from asdf.networks.split import check_split
        from asdf.networks.units import check_network_divisible
        from asdf.training.callbacks import find_callbacks

        network_class = find_network_class(self.settings.network.network_class, self.recipe_folder)
        if self.settings.front_end.cache_features:
            check_split(network_class)
        find_callbacks(self.settings, self.recipe_folder)
        if divides(self.settings.computing, self.world):
            self.world.run_on_main(
                lambda: check_network_divisible(self.settings, self.recipe_folder)
            )

    def _check_weights(self) -> None:
        """Build the network once: reading its weights twice costs less than measuring a corpus for nothing."""
        build_with_weights(self.settings, self.folders, self.recipe_folder)

    def selected_networks(self) -> list[str]:
        """File names of the networks that stages 2 and 3 are about.

        Raises:
            AsdfError: one of them is not there.
        """
        return select_networks(self.settings, self.folders.layout)
