"""Description of a public corpus, and the result of its reader.

Invariant: a reader accesses a corpus only through a `Tree`, and names its recordings as in the
tree, so the location of the corpus does not matter, nor whether it was unpacked.

A row names its reader: `Lists` for label files, `Layout` for paths that say the class, or one of
its own, where the row cannot say how the corpus is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES, Published
from asdf.places import folder_suffixes, is_container
from asdf.trials.label_words import Columns
from asdf.trials.lists import Tree, open_tree
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class Reading:
    """The result of a reader.

    Attributes:
        trials: Trials, whose ids are names in the tree.
        audio: Folders of the recordings.
        others: Names in the tree of recordings in other subsets of the label file.
        notes: Sentences for the user about this copy of the corpus.
    """

    trials: TrialList
    audio: Sequence[str] = ()
    others: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


class Origin(NamedTuple):
    """The source of a corpus's speech, with its reference."""

    speech: tuple[str, ...]
    source: str


class Taken(NamedTuple):
    """Reason why a corpus contains recordings of another one, with its reference."""

    reason: str
    source: str


ANTI_DEEPFAKE = "the table of sources in nii-yamagishilab/AntiDeepfake, protocols/README.md"
VCTK = Origin(("VCTK",), ANTI_DEEPFAKE)


@dataclass(frozen=True, kw_only=True)
class KnownCorpus:
    """A corpus as it is distributed, with all facts about it.

    Attributes:
        name: Name of the corpus in settings and commands.
        homepage, licence: Address of its distribution, and its licence if known.
        needs: Files that must be in its folder.
        folders: Folders below paths.database_folder in which it is expected; the first one with one
            of `marks` is used.
        marks: Files or folders that identify the corpus.
        read: Reader; its argument is one of `subsets`, any value of `subset_of`, or '' for
            everything.
        read_columns: Reader of a table whose columns may have any name, instead of `read`.
        subsets: Names of its subsets, if they are fixed.
        usual: Subset for which results are published.
        subset_of: Column whose values are subsets too: 'language', 'system'; a name without a
            subset then means everything.
        published: Numbers of trials, by subset ('' for everything); those that other rooms need are
            in `asdf.facts`.
        source: Source of these numbers.
        origin: Source of its speech, if published.
        taken: Corpora, or subsets of them, whose recordings it contains.
    """

    name: str
    title: str
    homepage: str
    licence: str = "see its page"
    needs: str
    folders: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    read: Callable[[Tree, str], Reading]
    read_columns: Callable[[Tree, str, Columns], Reading] | None = None
    subsets: tuple[str, ...] = ()
    usual: str = ""
    subset_of: str = ""
    published: Mapping[str, Published] = field(default_factory=dict)
    source: str = ""
    origin: Origin | None = None
    taken: Mapping[str, Taken] = field(default_factory=dict)


def is_there(tree: Tree, name: str) -> bool:
    """Whether the tree has a file or folder `name`; folders on the path may be places."""
    # A place exists, even without recordings in it.
    if tree.exists(name):
        return True
    location = _locate(tree, name)
    # The name is empty if it is that of the place itself, which exists.
    return not location.name or location.tree.exists(location.name)


def first_there(tree: Tree, names: Iterable[str]) -> str | None:
    """Return the first of `names` that the tree has."""
    return next((name for name in names if is_there(tree, name)), None)


def find_labels(tree: Tree, names: Sequence[str], advice: str) -> str:
    """Return the first label file of `names` that the tree has.

    Raises:
        AsdfError: it has none.
    """
    name = first_there(tree, names)
    if name is None:
        raise AsdfError(f"{tree.root}: there is no {names[0]}. {advice}")
    return name


def recordings(tree: Tree, folder: str) -> list[str]:
    """Return the names of the audio files in `folder` and below it, sorted."""
    return [name for name in files_in(tree, folder) if is_recording(name)]


def files_in(tree: Tree, folder: str) -> list[str]:
    """Return the names of all files in `folder` and below it, sorted."""
    location = _locate(tree, folder)
    return [location.prefix + name for name in location.tree.files(location.name)]


def is_recording(name: str) -> bool:
    """Whether a file with this name contains speech."""
    # For a name without a dot this is the last character, which is not a suffix.
    return name[name.rfind(".") :].lower() in AUDIO_SUFFIXES


class _Location(NamedTuple):
    """The target of a name in a tree: in the tree itself, or in an archive used as a folder.

    Attributes:
        prefix: Prefix of the names of `tree` in the outer tree.
        name: Name in `tree`.
    """

    tree: Tree
    prefix: str
    name: str


def _locate(tree: Tree, name: str) -> _Location:
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        # A folder may have such a name, too.
        is_archive = is_container(folder) and tree.path(folder).is_file()
        if tree.exists(folder) and not is_archive:
            continue
        if is_archive or any(tree.exists(folder + suffix) for suffix in folder_suffixes()):
            inner = "/".join(parts[depth:])
            return _Location(open_tree(tree.path(folder)), f"{folder}/", inner)
        # Neither a folder nor a place: nothing below it can exist, as `tree` will report.
        break
    return _Location(tree, "", name)


def with_files(
    trials: TrialList,
    tree: Tree,
    folders: Sequence[str],
    suffix: str = ".flac",
    identify: Callable[[str], str] | None = None,
) -> TrialList:
    """Return `trials` with the names of their recordings in `folders`, with any suffix.

    A missing recording is named UTT with `suffix` in the first folder. If several recordings have
    the same name, the one in the first folder is used: an archive may remain next to its unpacked
    files.

    Args:
        suffix: Suffix that the trials' names omit; '' if they have theirs.
        identify: Function that returns the part of a path that identifies a recording; None: the
            file name.
    """
    names: dict[str, str] = {}
    stems: dict[str, str] = {}
    # The first folder comes last, and overrides equal names in the others.
    for folder in reversed(folders):
        for name in recordings(tree, folder):
            key = name[name.rfind("/") + 1 :] if identify is None else identify(name)
            stems[key[: key.rfind(".")]] = name
            # Several recordings may differ only in their suffix.
            if not suffix:
                names[key] = name
    ids = []
    for utterance in trials.ids:
        key = utterance[utterance.rfind("/") + 1 :] if identify is None else identify(utterance)
        # A dot in a name without a suffix is a part of the name.
        stem = key[: key.rfind(".")] if not suffix and is_recording(key) else key
        known = names.get(key) or stems.get(stem)
        ids.append(known or join_name(folders[0], f"{utterance}{suffix}"))
    return replace(trials, ids=ids)


def join_name(folder: str, name: str) -> str:
    """Return the path of `name` in `folder` of a tree; either may be '', the root."""
    if not folder or not name:
        return folder or name
    return f"{folder}/{name}"
