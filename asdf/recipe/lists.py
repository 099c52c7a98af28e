"""The lists of corpora, read once, and the parts of them that a run measures, trains on and scores.

Invariant: all processes of a run have the same lists and lengths, of which long ones are shared on
each machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from asdf.data.lengths import digest_list, digest_recordings, measure_lengths
from asdf.data.sampler_orders import add_vocoded_copies
from asdf.distributed.shared_files import SharedFiles
from asdf.distributed.stopping import Stopped, StopRequest
from asdf.errors import AsdfError
from asdf.recipe.declared_corpora import Corpus, find_corpus, set_parts
from asdf.recipe.ending import cause_of
from asdf.recipe.left_out import Part, UsedSets, needs_training_lists
from asdf.recipe.run_folders import Folders
from asdf.recipe.used_sets import WITHOUT_SPOOFS, is_checked, learns_detection
from asdf.runs.layout import corpus_of_file
from asdf.runs.log import LOG
from asdf.settings import Sections
from asdf.trials.lists import check_both_classes
from asdf.trials.scored_files import read_how_scored
from asdf.trials.trial_list import TrialList, describe_labels, join, pack_list, unpack_list

if TYPE_CHECKING:
    from asdf.distributed.world import World


class Measured(NamedTuple):
    """A list and the lengths of its utterances, in samples."""

    utterances: TrialList
    lengths: np.ndarray


class RunLists:
    """The lists of a run, each read once, with lengths, the parts that are used, and digests.

    Args:
        corpora: Corpora that the recipe declares.
    """

    def __init__(
        self,
        corpora: Mapping[str, Corpus],
        settings: Sections,
        folders: Folders,
        world: World,
        stop: StopRequest,
    ) -> None:
        self.corpora = corpora
        self._settings = settings
        self._folders = folders
        self._world = world
        self._stop = stop
        self._shared: SharedFiles | None = None
        self._together = False
        self._lists: dict[str, TrialList] = {}
        self._measured: dict[str, Measured] = {}
        self._validation: dict[str, Measured] = {}
        self._evaluation: dict[str, Measured] = {}
        self._digests: dict[str, dict[str, str]] = {}
        # The main rank's alone: what all ranks do together must not depend on it.
        self._digests_now: dict[str, dict[str, str]] = {}

    def read(self, name: str) -> TrialList:
        """Return the list of a corpus, or of several, 'a+b'; a missing demo corpus is made.

        Raises:
            AsdfError: there is no such corpus, or it cannot be read.
        """
        if name not in self._lists:
            parts = set_parts(name, self.corpora)
            if len(parts) > 1:
                make = partial(join, [self.read(part) for part in parts])
            else:
                corpus, database = find_corpus(name, self.corpora), self._folders.database
                if corpus.make is not None:
                    self._world.run_on_main(partial(corpus.make, database))
                make = partial(corpus.read, name, database)
            if self._shared is not None and self._together:
                self._lists[name] = self._shared.share(make, pack_list, unpack_list)
            else:
                self._lists[name] = make()
        return self._lists[name]

    @contextmanager
    def sharing(self) -> Iterator[None]:
        """Share long lists and their lengths between the processes of a machine in the block.

        The files are removed at the end, also after a requested stop, which reaches all ranks at
        the same time. After a failure another rank may still read them, so the next start removes
        them.
        """
        shared = self._shared = SharedFiles(self._world, self._folders.system)
        try:
            yield
        except BaseException as error:
            if isinstance(cause_of(error), Stopped):
                with suppress(Exception):  # another rank may fail on its way out
                    shared.close()
            raise
        shared.close()

    @contextmanager
    def read_together(self) -> Iterator[None]:
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
        measured = self._measured.get(utterances.name)
        # A recipe's own code may have made another list with that name.
        if measured is not None and measured.utterances is utterances:
            return measured.lengths
        lengths = measure_lengths(
            utterances,
            self._settings.sad,
            self._folders.sad,
            self._world,
            self._stop,
            check=is_checked(utterances.name, self._settings),
            audio=self._settings.audio,
            shared=self._shared,
        )
        self._measured[utterances.name] = Measured(utterances, lengths)
        return lengths

    def training(self) -> Measured:
        """Return all training sets as one list, with lengths.

        Utterances that are too short or too long, or left out by recipe.leave_out, are removed.
        Vocoded copies of the rest are added.
        """
        settings, network = self._settings, self._settings.network
        parts = [self.read(name) for name in settings.recipe.training_sets]
        whole = np.concatenate([self.lengths(part) for part in parts])

        def make() -> Measured:
            utterances, lengths = join(parts), whole
            left_out = self._used.left_out
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
                utterances, lengths = utterances.select(rows), lengths[rows]
            # Speech activity detection may remove a whole recording, from which no clip can be cut.
            fits = (lengths >= network.min_train_utterance_length_in_samples) & (lengths > 0)
            if network.max_train_utterance_length_in_samples is not None:
                fits &= lengths <= network.max_train_utterance_length_in_samples
            if not fits.all():
                words = "%d of %d training utterances are left out because of their length"
                LOG.info(words, (~fits).sum(), len(fits))
                utterances, lengths = utterances.select(np.flatnonzero(fits)), lengths[fits]
            seed = settings.recipe.seed
            utterances, rows = add_vocoded_copies(utterances, settings.vocoding, seed)
            if learns_detection(settings) and utterances.count_unlabelled < max(1, len(utterances)):
                check_both_classes(utterances, "training", WITHOUT_SPOOFS)
            LOG.info("training on %d utterances: %s", len(utterances), describe_labels(utterances))
            return Measured(utterances, lengths[rows])

        if self._shared is None:
            return make()
        return self._shared.share(
            make,
            lambda measured: pack_list(measured.utterances, lengths=measured.lengths),
            lambda arrays, rest: Measured(unpack_list(arrays, rest), arrays["lengths"]),
        )

    def validation(self, name: str) -> Measured:
        """Return the part of a validation set for validation, with lengths.

        It is the whole set, unless recipe.leave_out restricts it; the list then has another name.
        """
        recipe = self._settings.recipe
        if name not in self._validation:
            self._validation[name] = self._part("validating", name, self._used.of_validation)
            # With left-out speakers, or without training data, bona fide trials are separate.
            is_separate = recipe.evaluate_left_out or recipe.leave_out_speakers
            if recipe.leave_out and name in recipe.training_sets and not is_separate:
                LOG.info(
                    "warning: %s is also a training set: its bona fide trials that are not left "
                    "out are trained on",
                    name,
                )
        return self._validation[name]

    def validated(self) -> list[Measured]:
        """Return what `validation` returns of each validation set."""
        return list(map(self.validation, self._settings.recipe.validated_sets))

    def evaluation(self, name: str) -> Measured:
        """Return the part of an evaluation set to score, with lengths.

        It is the whole set, unless recipe.evaluate_left_out restricts it; the list then has another
        name.
        """
        if name not in self._evaluation:
            self._evaluation[name] = self._part("evaluating", name, self._used.of_evaluation)
        return self._evaluation[name]

    def _part(self, work: str, name: str, choose: Callable[[TrialList], Part]) -> Measured:
        whole = self.read(name)
        lengths = self.lengths(whole)
        part, rows = choose(whole)
        if part is whole:
            return Measured(whole, lengths)
        LOG.info("%s on %s: %s", work, part.name, describe_labels(part))
        return Measured(part, lengths[rows])

    @cached_property
    def _used(self) -> UsedSets:
        recipe = self._settings.recipe
        names = recipe.training_sets if needs_training_lists(recipe) else ()
        return UsedSets(recipe, map(self.read, names))

    def digests_of_training(self) -> dict[str, dict[str, str]]:
        """Return the digests of the lists that a training uses; all ranks call this together."""
        used = list(map(self.read, self._settings.recipe.training_sets))
        used += [measured.utterances for measured in self.validated()]
        return {utterances.name: self.digests(utterances) for utterances in used}

    def digests(self, utterances: TrialList) -> dict[str, str]:
        """Return digests of a list and of its recordings, whose files are checked once.

        All ranks call this together.
        """
        if utterances.name not in self._digests:
            digests = self._world.run_on_main(partial(_digests, utterances))
            self._digests[utterances.name] = digests
        return self._digests[utterances.name]

    def changed_since(self, path: Path) -> str:
        """Return a remark if the set that was scored into a file differs now; else ''.

        Only the main rank calls this. Nothing is known of sets that cannot be read here.
        """
        stated = read_how_scored(path)
        if stated is None or stated.recordings is None:
            return ""
        name = corpus_of_file(path)
        with suppress(AsdfError, OSError):
            now = self._digests.get(name) or self._digests_now.get(name)
            if now is None:
                # Not `read`, with which all ranks make a missing demo corpus.
                lists = []
                for part in set_parts(name, self.corpora):
                    corpus = find_corpus(part, self.corpora)
                    lists.append(corpus.read(part, self._folders.database))
                now = self._digests_now[name] = _digests(join(lists) if lists[1:] else lists[0])
            for what, digest in now.items():
                if digest != stated.recordings[what]:
                    return (
                        f"the {what} of {name} changed after it was scored into {path}: score the "
                        "set again (stage 2)"
                    )
        return ""


def _digests(utterances: TrialList) -> dict[str, str]:
    return {"list": digest_list(utterances), "recordings": digest_recordings(utterances)}
