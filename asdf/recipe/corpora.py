"""A corpus as a recipe knows it: a name, and here what the name stands for.

A recipe declares its own corpora; the corpora of the field (`asdf.corpora`) are known to all recipes by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from pathlib import Path

from asdf.corpora import (
    KNOWN,
    choose,
    differences,
    find_tree,
    is_known,
    is_there,
    known_names,
    read_from,
    read_known,
    read_protocol,
)
from asdf.errors import AsdfError, UsageError
from asdf.runs.log import LOG
from asdf.settings.sections import Sections
from asdf.text import did_you_mean
from asdf.trials.collecting import same_recording
from asdf.trials.lists import (
    check_both_classes,
    read_asvspoof2019_protocol,
    read_list,
)
from asdf.trials.trees import open_tree
from asdf.trials.trial_list import TrialList, join

_SHOWN = 5


@dataclass(frozen=True)
class Corpus:
    """Where the utterances of a corpus are: a list, or a corpus of the field that lies in a folder of your own.

    Attributes:
        list: the list file, relative to `folder`: ASDF's own format, or, when `audio` is given, a protocol of
            ASVspoof 2019 whose recordings are `audio/UTT.flac`.
        folder: relative to paths.database_folder; the paths in the list are relative to it.
        audio: see `list`; relative to `folder`.
        make: makes the corpus in paths.database_folder when it is not there (the demo corpus).
        protocol: a label file, relative to `folder`, that tells speaker, attack ... of the utterances of `list`; where
            it is not there the list has no such columns.
        reader: instead of `list`: a name of `asdf.corpora`, with its subset.
    """

    list: str = ""
    folder: str = ""
    audio: str | None = None
    make: Callable[[Path], None] | None = None
    protocol: str = ""
    reader: str = ""

    def __post_init__(self) -> None:
        if bool(self.list) == bool(self.reader):
            raise UsageError(
                f"{self}: a Corpus has either a list or a reader. Mend it at the top of run.py."
            )

    def place(self, database_folder: Path) -> Path:
        """Where it is looked for."""
        return database_folder / self.folder / self.list

    def read(self, name: str, database_folder: Path) -> TrialList:
        """The utterances of this corpus; what the user should know of them goes to the log.

        Raises:
            AsdfError: the list or the corpus is missing, empty or malformed.
        """
        utterances, notes = self.read_noted(name, database_folder)
        for note in notes:
            # Not as a warning: those are shown by every process, and each of them reads the list.
            LOG.info("warning: %s", note)
        return utterances

    def read_noted(self, name: str, database_folder: Path) -> tuple[TrialList, Sequence[str]]:
        """The utterances, and what the user should know of them; errors as for `read`."""
        folder = database_folder / self.folder
        if self.reader:
            chosen = choose(self.reader)
            utterances, reading = read_known(
                chosen, find_tree(chosen.corpus, folder, bool(self.folder)), name
            )
            return utterances, [
                *differences(chosen, utterances.labels),
                *_first(reading.notes, self.reader),
            ]
        if self.audio is not None:
            return read_asvspoof2019_protocol(folder / self.list, folder, self.audio, name), []
        utterances = read_list(folder / self.list, folder, name)
        trials = self._trials(folder)
        return (
            utterances
            if trials is None
            else _with_columns(utterances, trials, folder / self.protocol)
        ), []

    def _trials(self, folder: Path) -> TrialList | None:
        """What `protocol` says; None where it is not there."""
        if not self.protocol:
            return None
        if (folder / self.protocol).is_file():
            return read_protocol(folder / self.protocol)
        tree = open_tree(folder)
        return read_from(tree, self.protocol) if is_there(tree, self.protocol) else None


def find_corpus(name: str, corpora: Mapping[str, Corpus]) -> Corpus:
    """The corpus of that name: one of the recipe's own `corpora`, or one of the field.

    Raises:
        UsageError: there is none; the message names the nearest one, or the subsets to choose from.
    """
    if name in corpora:
        if corpora[name].reader:
            choose(corpora[name].reader)
        return corpora[name]
    if is_known(name):
        choose(name)
        return Corpus(reader=name)
    hint = did_you_mean(name, [*corpora, *known_names()])
    if not hint:
        hint = f" It knows {', '.join([*corpora, *KNOWN])}."
    raise UsageError(
        f"the recipe knows no corpus {name!r}.{hint} Your own are declared at the top of its run.py; "
        "'python -m asdf corpora' tells of the others."
    )


def validation_sets(settings: Sections) -> tuple[str, ...]:
    """Names of the corpora that are scored during training."""
    chosen = settings.recipe.validation_sets
    return settings.recipe.evaluation_sets if chosen is None else chosen


def scores_only(settings: Sections) -> bool:
    """Whether network.resume_epoch = -N asks for the scores of epoch N without training."""
    epoch = settings.network.resume_epoch
    return isinstance(epoch, int) and epoch < 0


def sets_in_use(settings: Sections) -> list[str]:
    """Names of the corpora that the chosen stages read."""
    recipe = settings.recipe
    measures, trains, scores = (recipe.execute_stage(stage) for stage in range(3))
    names: list[str] = []
    if measures or (trains and not scores_only(settings)):
        names += recipe.training_sets
    if measures or trains:
        names += validation_sets(settings)
    if measures or scores:
        names += recipe.evaluation_sets
    return list(dict.fromkeys(names))


def is_checked(name: str, settings: Sections) -> bool:
    """Whether each recording of the corpus `name` is to be decoded to its end before anything is trained on it."""
    recipe = settings.recipe
    trains = recipe.execute_stage(0) or recipe.execute_stage(1)
    return (
        recipe.check_recordings
        and trains
        and not scores_only(settings)
        and name in recipe.training_sets
    )


def check_classes(lists: Sequence[TrialList], settings: Sections) -> None:
    """Raise an AsdfError when one of `lists` lacks a class that the stages need, or would be trained on twice."""
    recipe = settings.recipe
    scored = {*validation_sets(settings), *recipe.evaluation_sets}
    for utterances in lists:
        if utterances.name in scored:
            check_both_classes(utterances, "an EER")
    training = [utterances for utterances in lists if utterances.name in recipe.training_sets]
    if training and recipe.execute_stage(1) and not scores_only(settings):
        check_both_classes(join(training), "training")
        _check_counted_once(training)


def _first(notes: Sequence[str], name: str) -> list[str]:
    """A few of `notes`: there may be one for each of hundreds of systems or books."""
    more = f"and {len(notes) - _SHOWN} more of the kind: 'python -m asdf corpora {name} FOLDER' tells all"
    return [*notes[:_SHOWN], more] if len(notes) > _SHOWN else list(notes)


def _check_counted_once(training: Sequence[TrialList]) -> None:
    """Raise an AsdfError when two of the lists share recordings, as 'asvspoof19' and 'asvspoof19:train' do."""
    for one, other in combinations(training, 2):
        shared = _shared_recordings(one, other)
        if shared:
            raise AsdfError(
                f"{shared} utterances are both in {one.name} and in {other.name}, and would be trained on twice: "
                "name one of the two in recipe.training_sets."
            )


def _shared_recordings(one: TrialList, other: TrialList) -> int:
    """How many recordings two lists have in common, in whatever way they are spelled."""
    climbs = any(".." in utterance for utterance in chain(one.ids, other.ids))
    if one.folder == other.folder and not climbs:
        known = set(map(same_recording, one.ids))
        return len(known.intersection(map(same_recording, other.ids)))
    nested = one.folder.is_relative_to(other.folder) or other.folder.is_relative_to(one.folder)
    if not nested and not climbs:
        # Millions of paths need not be spelled out to see that they lie in different folders.
        return 0
    return len(set(_files(one)).intersection(_files(other)))


def _files(utterances: TrialList) -> Iterator[str]:
    """The recordings of a list, each spelled in one way."""
    return (same_recording(f"{utterances.folder}/{utterance}") for utterance in utterances.ids)


def _with_columns(utterances: TrialList, trials: TrialList, protocol: Path) -> TrialList:
    """`utterances` with the columns of `trials`, those of the label file `protocol`; '' where it says nothing.

    Raises:
        AsdfError: an utterance is bona fide in one and spoof in the other.
    """
    places = [trials.index_of(utterance) for utterance in utterances.ids]
    for utterance, label, place in zip(utterances.ids, utterances.labels, places, strict=True):
        if place is not None and trials.labels[place] != label:
            says = {1: "bona fide", 0: "spoof"}
            raise AsdfError(
                f"{utterance} is {says[int(label)]} in the list {utterances.name}, and "
                f"{says[int(trials.labels[place])]} in {protocol}. One of them is wrong."
            )
    found = {
        name: ["" if place is None else values[place] for place in places]
        for name, values in trials.columns.items()
    }
    return replace(utterances, columns={**utterances.columns, **found})
