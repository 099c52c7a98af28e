"""Lists of known corpora: below a folder, in a folder given in the name, or on the hub.

Invariant: recipes and commands read a name in the same way, so that a command checks the data that
a run trains on.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from asdf.corpora import (
    FOLDER,
    Chosen,
    Reading,
    as_list,
    choose,
    find_tree,
    parse_located,
    parse_part,
    read_class_folders,
    read_known,
)
from asdf.ports import load, provided
from asdf.trials.label_words import Columns
from asdf.trials.trees import Tree, open_tree
from asdf.trials.trial_list import TrialList


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
