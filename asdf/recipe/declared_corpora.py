"""Declarations of corpora in recipes: the location and format of each named corpus.

A recipe declares its own corpora; all recipes know the public corpora (`asdf.corpora`) by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations
from pathlib import Path
from typing import Literal

import numpy as np

from asdf.corpora import (
    KNOWN,
    StatedPart,
    choose,
    differences,
    is_known,
    is_there,
    known_names,
    parse_part,
    read_from,
    read_protocol,
)
from asdf.data.sampler_orders import join_with_copies
from asdf.errors import AsdfError, UsageError
from asdf.ports import load, provided
from asdf.recipe.leaving_out import training_lists
from asdf.recipe.left_out_sets import evaluation_lists, needs_training_lists, validation_lists
from asdf.recipe.located_corpora import read_chosen
from asdf.runs.log import LOG
from asdf.settings.sections import SOURCE_METRICS, Network, Recipe, Sections
from asdf.text import did_you_mean
from asdf.trials.label_words import Columns
from asdf.trials.lists import (
    check_both_classes,
    read_asvspoof2019_protocol,
    read_list,
)
from asdf.trials.trees import open_tree
from asdf.trials.trial_list import (
    UNLABELLED,
    TrialList,
    join,
    same_recording,
)

_SHOWN = 5
# Kinds of located data whose columns or folders may have any name.
_WITH_COLUMNS = ("folder", "hub")
# Advice for a training list of only bona fide speech.
WITHOUT_SPOOFS = " Spoofs can be made from bona fide speech: see vocoding.vocoders."
# Advice for a scored set of one class.
_OF_ONE_CLASS = (
    " A set of one class can be scored by itself: python -m asdf score NETWORK LIST > SCORES, then "
    "evaluate SCORES --threshold-from DEV_SCORES; or join it with another: 'mlaad+m-ailabs'."
)
_CLASS_NAMES = {1: "bona fide", 0: "spoof"}


@dataclass(frozen=True)
class CorpusReading:
    """The utterances of a corpus, and notes on them for the user."""

    utterances: TrialList
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Corpus:
    """The location of a corpus: a list, or a public corpus in your own folder.

    Attributes:
        list: List file, relative to `folder`: ASDF's own format, a table in parquet, or, with
            `audio`, a protocol of ASVspoof 2019 whose recordings are `audio/UTT.flac`.
        folder: Folder relative to paths.database_folder; paths in the list are relative to it.
        audio: Folder of the recordings, relative to `folder`; see `list`.
        make: Function that makes the corpus in paths.database_folder if it does not exist (the demo
            corpus).
        protocol: Label file, relative to `folder`, with speaker, attack ... of the utterances of
            `list`; without it the list has no such columns.
        reader: Name of a corpus in `asdf.corpora`, with its subset, instead of `list`.
        columns, bona_fide: Names of the columns of a table (csv, TABs, parquet, a data set on the
            hub), as in {'label': 'is_fake'}, and the label of bona fide speech; for `folder:PATH`,
            the folder of genuine speech.
        unlabelled: Whether the recordings have no labels: lines of the list are paths, and labels,
            there or from a reader, are ignored. Only training steps for unlabelled recordings use
            them (docs/training_steps.md).
        part: Part of the corpus to read; None: all of it. A name such as 'mine~0.1' selects one.

    Examples:
        >>> from pathlib import Path
        >>> from asdf.recipe import Corpus
        >>> corpus = Corpus("train.txt", folder="mine")
        >>> corpus.path(Path("data")).as_posix()
        'data/mine/train.txt'
        >>> corpus.read("mine", Path("data")).labels
        array([1, 0], dtype=int8)
        >>> Corpus(reader="asvspoof5:train").reader  # one that ASDF knows, as it is distributed
        'asvspoof5:train'
    """

    list: str = ""
    folder: str = ""
    audio: str | None = None
    make: Callable[[Path], None] | None = None
    protocol: str = ""
    reader: str = ""
    columns: Mapping[str, str] = field(default_factory=dict)
    bona_fide: str | int = ""
    part: StatedPart | None = None
    unlabelled: bool = False

    def __post_init__(self) -> None:
        if bool(self.list) == bool(self.reader):
            raise UsageError(
                f"{self}: a Corpus has either a list or a reader. Fix it at the top of run.py."
            )
        kind = self.reader.split(":")[0]
        is_table = kind in KNOWN and KNOWN[kind].read_columns is not None
        has_columns = self.list or kind in _WITH_COLUMNS or is_table
        if (self.columns or self.bona_fide != "") and not has_columns:
            raise UsageError(
                f"{self}: columns and bona_fide are for lists, parquet, folders and data sets of "
                "the hub. Remove them at the top of run.py."
            )

    def path(self, database_folder: Path) -> Path:
        """Return the path at which the corpus is expected."""
        return database_folder / self.folder / self.list

    def read(self, name: str, database_folder: Path) -> TrialList:
        """Read the utterances of this corpus, and log notes on them for the user.

        Raises:
            AsdfError: the list or the corpus is missing, empty or malformed.
        """
        reading = self.read_with_notes(name, database_folder)
        for note in reading.notes:
            # Not logged as a warning, because all processes show warnings, and each reads the list.
            LOG.info("warning: %s", note)
        return reading.utterances

    def read_with_notes(self, name: str, database_folder: Path) -> CorpusReading:
        """Read the utterances, with notes on them for the user; errors as for `read`."""
        reading = self._read_whole(name, database_folder)
        if self.unlabelled:
            whole = reading.utterances
            labels = np.full(len(whole), UNLABELLED, np.int8)
            reading = CorpusReading(replace(whole, labels=labels), reading.notes)
        if self.part is None:
            return reading
        part = self.part.of(reading.utterances)
        note = f"{name}: {len(part):,} of {len(reading.utterances):,} utterances, as its name says"
        return CorpusReading(part, [*reading.notes, note])

    def _read_whole(self, name: str, database_folder: Path) -> CorpusReading:
        folder = database_folder / self.folder
        if self.reader:
            return self._read_known(name, folder)
        if self.audio is not None:
            protocol = folder / self.list
            return CorpusReading(read_asvspoof2019_protocol(protocol, folder, self.audio, name))
        if (path := provided("LISTS").get(Path(self.list).suffix)) is not None:
            utterances = load(path)(folder / self.list, self._named_columns())
            return CorpusReading(replace(utterances, name=name, folder=folder))
        # The list determines the utterances; the protocol only adds columns.
        columns = self._named_columns() if self.columns or self.bona_fide != "" else None
        utterances = read_list(folder / self.list, folder, name, columns, self.unlabelled)
        trials = self._read_trials(folder)
        if trials is not None:
            utterances = _with_columns(utterances, trials, folder / self.protocol)
        return CorpusReading(utterances)

    def _read_known(self, name: str, folder: Path) -> CorpusReading:
        chosen = choose(self.reader)
        utterances, reading, _ = read_chosen(
            chosen, folder, itself=bool(self.folder), columns=self._named_columns(), name=name
        )
        notes = [*differences(chosen, utterances.labels), *reading.notes[:_SHOWN]]
        rest = len(reading.notes) - _SHOWN
        # There may be one note per system or book, hundreds in total.
        if rest > 0:
            notes.append(
                f"and {rest} more of the kind: 'python -m asdf corpora {self.reader} FOLDER' lists "
                "all"
            )
        return CorpusReading(utterances, notes)

    def _named_columns(self) -> Columns:
        return Columns(self.columns, str(self.bona_fide))

    def _read_trials(self, folder: Path) -> TrialList | None:
        """Read `protocol`; return None if there is none."""
        if not self.protocol:
            return None
        path = folder / self.protocol
        if path.is_file():
            return read_protocol(path)
        tree = open_tree(folder)
        if not is_there(tree, self.protocol):
            return None
        return read_from(tree, self.protocol)


def find_corpus(name: str, corpora: Mapping[str, Corpus]) -> Corpus:
    """Return the corpus with that name: one of the recipe's own `corpora`, or a public one.

    Raises:
        UsageError: there is none; the message names the closest one, or the available subsets.
    """
    # A recipe's own corpus takes precedence over a public one with the same name.
    if name in corpora:
        if corpora[name].reader:
            choose(corpora[name].reader)
        return corpora[name]
    whole, part = parse_part(name)
    if part is not None:
        return replace(find_corpus(whole, corpora), part=part)
    if is_known(name):
        # Only to refuse a subset that the corpus does not have.
        choose(name)
        return Corpus(reader=name)
    hint = did_you_mean(name, [*corpora, *known_names()])
    if not hint:
        hint = f" Known corpora: {', '.join([*corpora, *KNOWN])}."
    raise UsageError(
        f"the recipe knows no corpus {name!r}.{hint} Declare your own at the top of its run.py; "
        "'python -m asdf corpora' lists the others."
    )


def set_parts(name: str, corpora: Mapping[str, Corpus]) -> list[str]:
    """Return the corpora of an evaluation set: both of 'mlaad+m-ailabs', else the name itself.

    A corpus of only spoofs has an EER only together with one of bona fide speech.
    """
    parts = name.split("+")
    # A '+' may also be part of the name of a recipe's corpus, or of a path.
    if name in corpora or not all(_is_name(part, corpora) for part in parts):
        return [name]
    return parts


def _is_name(name: str, corpora: Mapping[str, Corpus]) -> bool:
    whole, _ = parse_part(name)
    return name in corpora or whole in corpora or is_known(whole)


def validation_sets(recipe: Recipe) -> tuple[str, ...]:
    """Return the names of the corpora that are scored during training."""
    if recipe.validation_sets is None:
        return recipe.evaluation_sets
    return recipe.validation_sets


def reaches_callbacks(recipe: Recipe) -> bool:
    """Whether a chosen stage calls callbacks."""
    return any(map(recipe.execute_stage, (1, 2, 3)))


def scores_only(network: Network) -> bool:
    """Whether network.resume_epoch = -N requests the scores of epoch N without training."""
    return isinstance(network.resume_epoch, int) and network.resume_epoch < 0


def sets_in_use(settings: Sections) -> list[str]:
    """Return the names of the corpora that the chosen stages read."""
    recipe = settings.recipe
    measures = recipe.execute_stage(0)
    trains = recipe.execute_stage(1)
    scores = recipe.execute_stage(2)
    names: list[str] = []
    if measures or (trains and not scores_only(settings.network)):
        names += recipe.training_sets
    if measures or trains:
        names += validation_sets(settings.recipe)
    if measures or scores:
        names += recipe.evaluation_sets
    # Their lists, not their recordings, determine what is left out.
    if names and needs_training_lists(settings.recipe):
        names += recipe.training_sets
    # A corpus may be in several sets, and is read once.
    return list(dict.fromkeys(names))


def is_checked(name: str, settings: Sections) -> bool | Literal["once"]:
    """Whether each recording of the corpus `name` is fully decoded before training starts.

    The result is 'once' if files need not be checked again at later starts.
    """
    recipe = settings.recipe
    trains = recipe.execute_stage(0) or recipe.execute_stage(1)
    if not recipe.check_recordings or not trains or scores_only(settings.network):
        return False
    return recipe.check_recordings if name in recipe.training_sets else False


def learns_detection(settings: Sections) -> bool:
    """Whether training separates bona fide trials from spoofs, and so needs both classes."""
    return settings.source.column is None or settings.loss.detection_weight > 0


def check_classes(lists: Sequence[TrialList], settings: Sections) -> None:
    """Check that each of `lists` has the required classes, and is trained on only once.

    Raises:
        AsdfError: a list lacks a class, or shares recordings with another training set.
    """
    recipe = settings.recipe
    by_name = {utterances.name: utterances for utterances in lists}
    training = [by_name[name] for name in recipe.training_sets if name in by_name]
    has_training = len(training) == len(recipe.training_sets)
    whole = tuple(training)
    if training and recipe.execute_stage(1) and not scores_only(settings.network):
        # In a dry run some sets may be missing, so their values are unknown.
        if has_training:
            training = training_lists(settings.recipe, training)
        _check_trained(training, settings)
    for utterances in lists:
        if utterances.count_unlabelled and utterances.name not in recipe.training_sets:
            raise UsageError(
                f"{utterances.name} has {utterances.count_unlabelled} recordings without labels, "
                "so it has no error rate. Remove it from recipe.validation_sets and "
                "recipe.evaluation_sets; a training step may use it in recipe.training_sets."
            )
    validated = [by_name[name] for name in validation_sets(settings.recipe) if name in by_name]
    scored = [by_name[name] for name in recipe.evaluation_sets if name in by_name]
    if needs_training_lists(settings.recipe) and not has_training:
        return
    if recipe.execute_stage(1):
        validated = validation_lists(settings.recipe, validated, whole)
    if recipe.execute_stage(2):
        scored = evaluation_lists(settings.recipe, scored, whole)
    # Source tracing also works on lists of only spoofs.
    traces = settings.source.column is not None
    needs_eer = [] if traces else [*scored]
    if not (traces and settings.network.validation_metric in SOURCE_METRICS):
        needs_eer += validated
    for utterances in needs_eer:
        check_both_classes(utterances, "an EER", _OF_ONE_CLASS, _OF_ONE_CLASS)


def _check_trained(training: Sequence[TrialList], settings: Sections) -> None:
    """Check the classes of training lists, and refuse lists that share recordings.

    Examples are 'asvspoof19' and 'asvspoof19:train'.
    """
    makes_copies = settings.vocoding.vocoders
    joined = join_with_copies(training, settings) if makes_copies else join(training)
    unlabelled = joined.count_unlabelled
    if unlabelled and settings.network.training_step == "plain":
        names = ", ".join(part.name for part in training if part.count_unlabelled)
        raise UsageError(
            f"recipe.training_sets: {unlabelled} recordings of {names} have no labels, which the "
            "default training step cannot use. Set network.training_step to a class that can "
            "(docs/training_steps.md), or remove them."
        )
    if unlabelled and (settings.localisation.enabled or settings.source.column is not None):
        raise UsageError(
            f"{unlabelled} recordings of recipe.training_sets have no labels, and "
            "localisation.enabled and source.column need labels. Remove these recordings, or "
            "switch the settings off."
        )
    if learns_detection(settings) and unlabelled < len(joined):
        check_both_classes(joined, "training", WITHOUT_SPOOFS)
    for first, second in combinations(training, 2):
        shared = count_shared(first, second)
        if shared:
            raise AsdfError(
                f"{shared} utterances are both in {first.name} and in {second.name}, and would be "
                "trained on twice: name only one of the two in recipe.training_sets."
            )


def count_shared(first: TrialList, second: TrialList) -> int:
    """Count the recordings that two lists share, however their paths are written."""
    # Paths with '..' may lead from one folder into another.
    climbs = any(".." in path for path in chain(first.ids, second.ids))
    if first.folder == second.folder and not climbs:
        known = set(map(same_recording, first.ids))
        return len(known.intersection(map(same_recording, second.ids)))
    first_inside = first.folder.is_relative_to(second.folder)
    second_inside = second.folder.is_relative_to(first.folder)
    if not (first_inside or second_inside or climbs):
        # Lists in different folders share nothing, so that millions of paths need not be compared.
        return 0
    return len(set(_paths(first)).intersection(_paths(second)))


def _paths(utterances: TrialList) -> Iterator[str]:
    """Yield the normalised paths of a list's recordings."""
    for utterance in utterances.ids:
        yield same_recording(f"{utterances.folder}/{utterance}")


def _with_columns(utterances: TrialList, trials: TrialList, protocol: Path) -> TrialList:
    """Return `utterances` with the columns of `trials`; '' for utterances missing there.

    Args:
        protocol: File of `trials`, for messages.

    Raises:
        AsdfError: an utterance is bona fide in one and spoof in the other.
    """
    indices = [trials.index_of(utterance) for utterance in utterances.ids]
    for utterance, label, index in zip(utterances.ids, utterances.labels, indices, strict=True):
        if index is not None and label != UNLABELLED and trials.labels[index] != label:
            raise AsdfError(
                f"{utterance} is {_CLASS_NAMES[int(label)]} in the list {utterances.name}, and "
                f"{_CLASS_NAMES[int(trials.labels[index])]} in {protocol}. One of them is wrong."
            )
    columns = dict(utterances.columns)
    for name, values in trials.columns.items():
        columns[name] = ["" if index is None else values[index] for index in indices]
    return replace(utterances, columns=columns)
