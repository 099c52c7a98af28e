"""Corpora by their names: declared by a recipe, known (`asdf.corpora`), in a folder, or on the hub.

Invariant: recipes and commands read a name in the same way, so that a command checks the data that
a run trains on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from asdf.corpora import (
    FOLDER,
    KNOWN,
    Chosen,
    Reading,
    StatedPart,
    as_list,
    choose,
    differences,
    find_tree,
    is_known,
    is_there,
    known_names,
    parse_located,
    parse_part,
    read_class_folders,
    read_from,
    read_known,
    read_protocol,
)
from asdf.errors import AsdfError, UsageError
from asdf.ports import load, provided
from asdf.runs.log import LOG
from asdf.text import did_you_mean
from asdf.trials.label_words import Columns
from asdf.trials.lists import Tree, open_tree, read_asvspoof2019_protocol, read_list
from asdf.trials.trial_list import UNLABELLED, TrialList

_SHOWN = 5
# Kinds of located data whose columns or folders may have any name.
_WITH_COLUMNS = ("folder", "hub")
_CLASS_NAMES = {1: "bona fide", 0: "spoof"}


class ReadCorpus(NamedTuple):
    """A corpus that was read."""

    trials: TrialList
    reading: Reading
    tree: Tree


def read_chosen(
    chosen: Chosen,
    folder: Path,
    *,
    itself: bool = False,
    columns: Columns | None = None,
    name: str = "",
) -> ReadCorpus:
    """Read a corpus, after downloading it if it is on the hub.

    Args:
        folder: Folder that contains the corpus; the path in `folder:PATH` is relative to it.
        itself: Whether the corpus may also be `folder` itself, or contain `folder`.
        columns: Names of columns and values, for parquet, shards and your own folders.
        name: Name of the list; '': the name of the corpus.

    Raises:
        UsageError: a package is missing, or a column does not exist.
        AsdfError: the corpus does not exist, cannot be downloaded, or is malformed.
    """
    columns = columns or Columns()
    located = parse_located(chosen.name)
    if located is not None and located.columns != Columns():
        # Columns in the name take precedence over those that run.py declares.
        names = {**columns.names, **located.columns.names}
        columns = Columns(names, located.columns.bona_fide or columns.bona_fide)
    if located is None:
        tree = find_tree(chosen.corpus, folder, itself)
        if chosen.corpus.read_columns is None:
            trials, reading = read_known(chosen, tree, name)
            return ReadCorpus(trials, reading, tree)
        reading = chosen.corpus.read_columns(tree, chosen.subset, columns)
    elif located.kind == FOLDER:
        tree = open_tree(folder / Path(located.where).expanduser())
        reading = read_class_folders(tree, located.split, columns.bona_fide_values)
    else:
        read = load(provided("LOCATED")[located.kind][0])
        reading, tree = read(located.where, located.split, folder, columns)
    return ReadCorpus(as_list(reading.trials, tree, name or chosen.name), reading, tree)


def read_named(name: str, folder: Path) -> TrialList:
    """Read a corpus, or a part of it, by its name alone.

    Args:
        folder: Folder that contains the corpus, or to which a path in its name is relative.

    Raises:
        UsageError, AsdfError: as `read_chosen`.
    """
    whole, part = parse_part(name)
    trials = read_chosen(choose(whole), folder, itself=True, name=name).trials
    if part is None:
        return trials
    return part.of(trials)


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
            them (docs/your_own.md).
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
        if self.list or not (self.columns or self.bona_fide != ""):
            return
        kind = self.reader.split(":")[0]
        is_table = kind in KNOWN and KNOWN[kind].read_columns is not None
        if not (kind in _WITH_COLUMNS or is_table):
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
        utterances, notes = self.read_with_notes(name, database_folder)
        for note in notes:
            # Not logged as a warning, because all processes show warnings, and each reads the list.
            LOG.info("warning: %s", note)
        return utterances

    def read_with_notes(self, name: str, database_folder: Path) -> tuple[TrialList, Sequence[str]]:
        """Read the utterances, with notes on them for the user; errors as for `read`."""
        folder = database_folder / self.folder
        columns = Columns(self.columns, str(self.bona_fide))
        notes: list[str] = []
        if self.reader:
            chosen = choose(self.reader)
            utterances, reading, _ = read_chosen(
                chosen, folder, itself=bool(self.folder), columns=columns, name=name
            )
            notes += [*differences(chosen, utterances.labels), *reading.notes[:_SHOWN]]
            rest = len(reading.notes) - _SHOWN
            # There may be one note per system or book, hundreds in total.
            if rest > 0:
                notes.append(
                    f"and {rest} more of the kind: 'python -m asdf corpora {self.reader} FOLDER' "
                    "lists all"
                )
        elif self.audio is not None:
            utterances = read_asvspoof2019_protocol(folder / self.list, folder, self.audio, name)
        elif (path := provided("LISTS").get(Path(self.list).suffix)) is not None:
            utterances = load(path)(folder / self.list, columns)
            utterances = replace(utterances, name=name, folder=folder)
        else:
            # The list determines the utterances; the protocol only adds columns.
            named = columns if self.columns or self.bona_fide != "" else None
            utterances = read_list(folder / self.list, folder, name, named, self.unlabelled)
            protocol = folder / self.protocol
            if self.protocol and protocol.is_file():
                utterances = _with_columns(utterances, read_protocol(protocol), protocol)
            elif self.protocol and is_there(tree := open_tree(folder), self.protocol):
                utterances = _with_columns(utterances, read_from(tree, self.protocol), protocol)
        if self.unlabelled:
            labels = np.full(len(utterances), UNLABELLED, np.int8)
            utterances = replace(utterances, labels=labels)
        if self.part is not None:
            whole = utterances
            utterances = self.part.of(whole)
            notes.append(
                f"{name}: {len(utterances):,} of {len(whole):,} utterances, as its name says"
            )
        return utterances, notes


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
    if name in corpora:
        return [name]
    for part in parts:
        whole, _ = parse_part(part)
        if not (part in corpora or whole in corpora or is_known(whole)):
            return [name]
    return parts


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
