"""The run of a config, with which the stages of a recipe work."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from asdf.audio.augmentation import Chain, open_chain
from asdf.audio.vocoding import Vocoders, open_vocoders
from asdf.data.recording_digests import digest_list, digest_recordings
from asdf.data.sampler_orders import add_vocoded_copies
from asdf.distributed.shared_files import Form, Packed, SharedFiles
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.recipe.chosen_sets import WITHOUT_SPOOFS, is_checked, learns_detection, sets_in_use
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.ending import cause_of
from asdf.recipe.leaving_out import (
    SetParts,
    evaluated_name,
    left_out_of,
    needs_training_lists,
    set_parts_of,
)
from asdf.recipe.run_folders import Folders, select_networks
from asdf.runs.layout import corpus_of_file
from asdf.runs.log import LOG
from asdf.settings import Sections, Settings
from asdf.trials.lists import check_both_classes
from asdf.trials.packed_lists import pack_list, unpack_list
from asdf.trials.scored_files import read_how_scored
from asdf.trials.trial_list import TrialList, describe_labels, join

if TYPE_CHECKING:
    from torch import nn

    from asdf.distributed.world import World
    from asdf.training.callback_group import CallbackGroup


class _Measured(NamedTuple):
    """A list and the lengths of its utterances, in samples."""

    utterances: TrialList
    lengths: np.ndarray


_MEASURED: Form[_Measured] = Form(
    lambda measured: Packed(*pack_list(measured.utterances, lengths=measured.lengths)),
    lambda packed: _Measured(unpack_list(packed.arrays, packed.rest), packed.arrays["lengths"]),
)
_LIST: Form[TrialList] = Form(
    lambda trials: Packed(*pack_list(trials)),
    lambda packed: unpack_list(packed.arrays, packed.rest),
)


@dataclass
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

    config: str
    settings: Sections
    folders: Folders
    corpora: Mapping[str, Corpus]
    recipe_folder: Path
    world: World
    stop: StopRequest
    scored: list[Path] = field(default_factory=list)
    _shared: SharedFiles | None = None
    _together: bool = False
    _lists: dict[str, TrialList] = field(default_factory=dict)
    _measured: dict[str, _Measured] = field(default_factory=dict)
    _validation: dict[str, _Measured] = field(default_factory=dict)
    _evaluation: dict[str, _Measured] = field(default_factory=dict)
    _recordings: dict[str, dict[str, str]] = field(default_factory=dict)
    # The main rank's alone: what all ranks do together must not depend on it.
    _recordings_now: dict[str, dict[str, str]] = field(default_factory=dict)
    _augmentation: Chain | None = None
    _callbacks: CallbackGroup | None = None
    _pinned_weights: str | None = None

    def stage(self, number: int, function: Callable[[Run], Any], main_only: bool = False) -> None:
        """Call `function(self)` if the settings include stage `number`; all ranks call this.

        With `main_only` the main rank calls it while the others wait; an exception there ends all
        ranks.
        """
        if not Settings().recipe.execute_stage(number):
            return
        summary = (function.__doc__ or function.__name__).strip().splitlines()[0]
        LOG.info("stage %d: %s", number, summary)
        # The others wait for the result, and end with an error of the main rank.
        if main_only:
            # All ranks take part in creating them.
            self.callbacks()
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

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Share long lists and their lengths between the processes of a machine in the block.

        The files are removed at the end, also after a requested stop, which reaches all ranks at
        the same time. After a failure another rank may still read them, so the next start removes
        them.
        """
        shared = self._shared = SharedFiles(self.world, self.folders.system)
        try:
            yield
        except BaseException as error:
            if isinstance(cause_of(error), Stopped):
                with suppress(Exception):  # another rank may fail on its way out
                    shared.close()
            raise
        shared.close()

    def callbacks(self) -> CallbackGroup:
        """Return the run's callbacks; the user's own exist on the main rank alone.

        They are created on first use. A callback that cannot be created ends all ranks.
        """
        from asdf.training.callback_group import build_callbacks

        if self._callbacks is None:
            self._callbacks = build_callbacks(
                self.settings, self.folders.system, self.recipe_folder, self.world
            )
        return self._callbacks

    def end_callbacks(self, error: BaseException | None) -> None:
        """Notify the callbacks how the run ended, on the main rank, if there are any."""
        if self._callbacks is not None and self.world.is_main:
            self._callbacks.end(error)

    @property
    def validation_sets(self) -> tuple[str, ...]:
        return self.settings.recipe.validated_sets

    @property
    def scores_only(self) -> bool:
        return self.settings.network.scores_only

    def sets_in_use(self) -> list[str]:
        """Return the names of the corpora that the chosen stages read."""
        return sets_in_use(self.settings)

    def utterances(self, name: str) -> TrialList:
        """Return the list of a corpus of the recipe, or of several, 'mlaad+m-ailabs'.

        A missing demo corpus is made first.
        """
        parts = set_parts(name, self.corpora)
        if name not in self._lists and len(parts) > 1:
            lists = [self.utterances(part) for part in parts]
            self._lists[name] = self._take_list(partial(join, lists))
        if name not in self._lists:
            corpus = find_corpus(name, self.corpora)
            if corpus.make is not None:
                self.world.run_on_main(partial(corpus.make, self.folders.database))
            self._lists[name] = self._take_list(partial(corpus.read, name, self.folders.database))
        return self._lists[name]

    def _take_list(self, make: Callable[[], TrialList]) -> TrialList:
        """Return a list; while all ranks check their requirements, use that of the main rank."""
        if self._shared is None or not self._together:
            return make()
        return self._shared.share(make, _LIST)

    @contextmanager
    def sharing_lists(self) -> Iterator[None]:
        """Read lists on the main rank alone in the block, in which all ranks request the same.

        Outside of it, a recipe's own code may request a list on a single rank.
        """
        self._together = True
        yield
        self._together = False

    def lengths(self, utterances: TrialList) -> np.ndarray:
        """Return lengths in samples, measured now or by an earlier run (`asdf.data.lengths`).

        The recordings of a training set are fully decoded, once, if recipe.check_recordings
        requires it.
        """
        from asdf.data.lengths import measure_lengths

        measured = self._measured.get(utterances.name)
        # A recipe's own code may have made another list with that name.
        if measured is not None and measured.utterances is utterances:
            return measured.lengths
        lengths = measure_lengths(
            utterances,
            self.settings.sad,
            self.folders.sad,
            self.world,
            self.stop,
            check=is_checked(utterances.name, self.settings),
            audio=self.settings.audio,
            shared=self._shared,
        )
        self._measured[utterances.name] = _Measured(utterances, lengths)
        return lengths

    @property
    def takes_references(self) -> bool:
        """Whether the network takes a reference beside each recording."""
        from asdf.networks.build import find_network_class
        from asdf.networks.interface import takes_references

        name = self.settings.network.network_class
        return takes_references(find_network_class(name, self.recipe_folder))

    def augmentation(self) -> Chain:
        """Return the augmentation of training examples; the main rank lists its recordings, once.

        Raises:
            UsageError: a folder of recordings is missing or has none, or a codec is missing.
        """
        if self._augmentation is None:
            self._augmentation = self.world.run_on_main(
                partial(open_chain, self.settings, self.folders.database, self.recipe_folder)
            )
        return self._augmentation

    def vocoders(self) -> Vocoders:
        """Return the vocoders of the settings, the project's and the user's own.

        Raises:
            UsageError, AsdfError: as `open_vocoders`.
        """
        return open_vocoders(self.settings, self.recipe_folder)

    def training_utterances(self) -> tuple[TrialList, np.ndarray]:
        """Return all training sets as one list, and the lengths of its utterances in samples.

        Utterances that are too short or too long, or left out by recipe.leave_out, are removed.
        Vocoded copies of the rest are added.
        """
        parts = [self.utterances(name) for name in self.settings.recipe.training_sets]
        lengths = [self.lengths(part) for part in parts]
        make = partial(self._make_training_list, parts, lengths)
        if self._shared is None:
            measured = make()
        else:
            measured = self._shared.share(make, _MEASURED)
        return measured.utterances, measured.lengths

    def _make_training_list(
        self, parts: list[TrialList], lengths_of_parts: list[np.ndarray]
    ) -> _Measured:

        lengths = np.concatenate(lengths_of_parts)
        utterances = join(parts)
        left_out = left_out_of(self.settings.recipe)
        if left_out is not None:
            left_out.check_training(parts)
            for line in left_out.whole_parts(parts):
                LOG.info("recipe.leave_out: %s", line)
            rows = left_out.training_rows(utterances)
            LOG.info(
                "recipe.leave_out: %d of %d training utterances, those of %s, are left out",
                len(utterances) - len(rows),
                len(utterances),
                left_out.describe(),
            )
            utterances = utterances.select(rows)
            lengths = lengths[rows]
        network = self.settings.network
        # Speech activity detection may remove a whole recording, from which no clip can be cut.
        fits = (lengths >= network.min_train_utterance_length_in_samples) & (lengths > 0)
        if network.max_train_utterance_length_in_samples is not None:
            fits &= lengths <= network.max_train_utterance_length_in_samples
        if not fits.all():
            LOG.info(
                "%d of %d training utterances are left out because of their length",
                (~fits).sum(),
                len(fits),
            )
            utterances = utterances.select(np.flatnonzero(fits))
            lengths = lengths[fits]
        utterances, rows = add_vocoded_copies(
            utterances, self.settings.vocoding, self.settings.recipe.seed
        )
        lengths = lengths[rows]
        if learns_detection(self.settings) and utterances.count_unlabelled < len(utterances):
            check_both_classes(utterances, "training", WITHOUT_SPOOFS)
        LOG.info("training on %d utterances: %s", len(utterances), describe_labels(utterances))
        return _Measured(utterances, lengths)

    def validation_utterances(self, name: str) -> tuple[TrialList, np.ndarray]:
        """Return the part of a validation set for validation, and the lengths in samples.

        It is the whole set, unless recipe.leave_out restricts it; the list then has another name.
        """
        if name not in self._validation:
            recipe = self.settings.recipe
            utterances = self.utterances(name)
            lengths = self.lengths(utterances)
            parts = self._set_parts()
            if parts is not None:
                utterances, rows = parts.of_validation(utterances)
                lengths = lengths[rows]
                LOG.info("validating on %s: %s", utterances.name, describe_labels(utterances))
                # With left-out speakers, or without training data, bona fide trials are separate.
                is_separate = parts.evaluates or recipe.leave_out_speakers
                if name in recipe.training_sets and not is_separate:
                    LOG.info(
                        "warning: %s is also a training set: its bona fide trials that are not "
                        "left out are trained on",
                        name,
                    )
            self._validation[name] = _Measured(utterances, lengths)
        return self._validation[name]

    def evaluation_utterances(self, name: str) -> tuple[TrialList, np.ndarray]:
        """Return the part of an evaluation set to score, and the lengths in samples.

        It is the whole set, unless recipe.evaluate_left_out restricts it; the list then has another
        name.
        """
        if name not in self._evaluation:
            utterances = self.utterances(name)
            lengths = self.lengths(utterances)
            parts = self._set_parts()
            if parts is not None and parts.evaluates:
                utterances, rows = parts.of_evaluation(utterances)
                lengths = lengths[rows]
                LOG.info("evaluating on %s: %s", utterances.name, describe_labels(utterances))
            self._evaluation[name] = _Measured(utterances, lengths)
        return self._evaluation[name]

    def describe_recordings(self, utterances: TrialList) -> dict[str, str]:
        """Return digests of a list and of its recordings, whose files are checked once.

        All ranks call this together.
        """
        if utterances.name not in self._recordings:
            described = self.world.run_on_main(partial(_describe_recordings, utterances))
            self._recordings[utterances.name] = described
        return self._recordings[utterances.name]

    def changed_since(self, path: Path) -> str:
        """Return a remark if the set that was scored into a file differs now; else ''.

        Only the main rank calls this. Nothing is known of sets that cannot be read here.
        """
        stated = read_how_scored(path)
        name = corpus_of_file(path)
        with suppress(AsdfError, OSError):
            if stated is None or stated.recordings is None:
                return ""
            now = self._recordings.get(name) or self._recordings_now.get(name)
            if now is None:
                # Not `utterances`, with which all ranks make a missing demo corpus.
                lists = []
                for part in set_parts(name, self.corpora):
                    corpus = find_corpus(part, self.corpora)
                    lists.append(corpus.read(part, self.folders.database))
                whole = join(lists) if lists[1:] else lists[0]
                now = self._recordings_now[name] = _describe_recordings(whole)
            for what, digest in now.items():
                if digest != stated.recordings[what]:
                    return (
                        f"the {what} of {name} changed after it was scored into {path}: score the "
                        "set again (stage 2)"
                    )
        return ""

    def evaluated_name(self, name: str) -> str:
        """Return the name in files of the scored part of an evaluation set."""
        return evaluated_name(self.settings.recipe, name)

    def _set_parts(self) -> SetParts | None:
        """Return the rules by which lists are restricted; None if nothing is left out."""
        training: list[TrialList] = []
        if needs_training_lists(self.settings.recipe):
            training += map(self.utterances, self.settings.recipe.training_sets)
        return set_parts_of(self.settings.recipe, training)

    def build_network(self) -> nn.Module:
        """Build the untrained network on this process's device, with equal weights on all."""
        import torch

        settings = self.pinned_settings()
        # All processes draw the same weights, which avoids sending them.
        torch.manual_seed(self.settings.recipe.seed)
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

        path = self.folders.networks / name
        file = read_checkpoint(path, mapped=True)
        names = (*NETWORK_SECTIONS, *self.settings.declared)
        settings = file.to_sections(self.settings, names)
        # A complete file has the trained weights; the initial ones may be gone.
        settings.front_end.weights = None
        if file.base is not None:
            weights = self.folders.weights(self.settings.front_end.weights)
            settings.front_end.weights = find_base(file.base, path, weights)
        if settings.audio != self.settings.audio:
            raise AsdfError(
                f"{path} is a network that takes recordings {settings.audio.describe()}, but the "
                f"settings read them {self.settings.audio.describe()}. Set audio.sample_rate and "
                "audio.channels as in its training."
            )
        network = build_pretrained(settings, self.recipe_folder)
        fill_for_scoring(network, file, self.recipe_folder)
        merge_updates(network)
        note_file(network, path)
        return network.to(self.world.device).eval()

    def pinned_settings(self) -> Sections:
        """Return the settings with a fixed hub commit for the weights, the same on all processes.

        All ranks make the first call together.
        """
        from asdf.interchange import names_path, pin_weights

        weights = self.folders.weights(self.settings.front_end.weights)
        if weights is None or names_path(weights):
            return self.settings
        if self._pinned_weights is None:
            # A branch may change while the processes start.
            self._pinned_weights = self.world.run_on_main(partial(pin_weights, weights))
        front_end = replace(self.settings.front_end, weights=self._pinned_weights)
        return replace(self.settings, front_end=front_end)

    def selected_networks(self) -> list[str]:
        """Return the file names of the networks for stages 2 and 3.

        Raises:
            AsdfError: one of them does not exist.
        """
        return select_networks(self.settings, self.folders.layout)


def _describe_recordings(utterances: TrialList) -> dict[str, str]:
    return {"list": digest_list(utterances), "recordings": digest_recordings(utterances)}
