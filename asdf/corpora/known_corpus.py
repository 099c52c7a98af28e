"""What a corpus that ASDF knows by name consists of, and what a reader of one returns.

Invariant: a reader sees a corpus through a `Tree` alone, and names its recordings as the tree does,
so that it does not matter where the corpus lies or whether it was unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES, Published
from asdf.trials.trees import Tree, open_tree
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class Reading:
    """What a reader returns.

    Attributes:
        trials: Trials, whose ids are names in the tree.
        audio: Folders that the recordings lie in.
        others: Names in the tree of recordings that the label file has, but in another subset.
        notes: Sentences that the user should know of the corpus at hand.
    """

    trials: TrialList
    audio: Sequence[str] = ()
    others: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


class Origin(NamedTuple):
    """Whose speech a corpus has, and who says so."""

    speech: tuple[str, ...]
    source: str


class Taken(NamedTuple):
    """Why a corpus holds recordings of another one, and who says so."""

    reason: str
    source: str


ANTI_DEEPFAKE = "the table of sources in nii-yamagishilab/AntiDeepfake, protocols/README.md"
VCTK = Origin(("VCTK",), ANTI_DEEPFAKE)


@dataclass(frozen=True, kw_only=True)
class KnownCorpus:
    """A corpus as it is distributed: all that is known of it.

    Attributes:
        name: Name of the corpus in settings and commands.
        homepage, licence: Address it comes from, and its licence as far as is known.
        needs: Files that have to lie in its folder.
        folders: Folders below paths.database_folder where it is looked for; the first one that has
            one of `marks` is taken.
        marks: Files or folders that the corpus is known by.
        read: Reader; it gets one of `subsets`, any value of `subset_of`, or '' for everything.
        subsets: Names of its subsets, if they are fixed.
        usual: Subset that published numbers are of.
        subset_of: Column that a subset may be named by, too: 'language', 'system'; then a name
            without a subset means everything.
        published: Numbers of trials, by subset ('' for everything); those that other rooms need too
            are in `asdf.facts`.
        source: Source of these numbers.
        origin: Speech that it has, as far as a source states it.
        taken: Corpora, or subsets of them, of which it holds recordings.
    """

    name: str
    title: str
    homepage: str
    licence: str = "see its page"
    needs: str
    folders: tuple[str, ...]
    marks: tuple[str, ...]
    read: Callable[[Tree, str], Reading]
    subsets: tuple[str, ...] = ()
    usual: str = ""
    subset_of: str = ""
    published: Mapping[str, Published] = field(default_factory=dict)
    source: str = ""
    origin: Origin | None = None
    taken: Mapping[str, Taken] = field(default_factory=dict)


@dataclass(frozen=True)
class SubsetFiles:
    """Paths of a subset, the likeliest first.

    Attributes:
        labels: Names of its label file.
        audio: Folders of its recordings.
    """

    labels: tuple[str, ...]
    audio: tuple[str, ...]


def is_there(tree: Tree, name: str) -> bool:
    """Whether the tree has a file or folder `name`; folders on the way may be tars."""
    # A parquet file exists, whether or not there are recordings in it.
    if tree.exists(name):
        return True
    location = _locate(tree, name)
    # No name is left where the tar itself is meant, which exists.
    return not location.name or location.tree.exists(location.name)


def first_there(tree: Tree, names: Iterable[str]) -> str | None:
    """Return the first of `names` that the tree has."""
    for name in names:
        if is_there(tree, name):
            return name
    return None


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
    """Whether a file of this name holds speech."""
    # Of a name without a dot this is the last character, which is not a suffix.
    return name[name.rfind(".") :].lower() in AUDIO_SUFFIXES


class _Location(NamedTuple):
    """Where a name of a tree leads: into the tree itself, or into an archive that is a folder.

    Attributes:
        prefix: Beginning of the names of `tree` in the outer tree.
        name: Name in `tree`.
    """

    tree: Tree
    prefix: str
    name: str


def _locate(tree: Tree, name: str) -> _Location:
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        is_archive = folder.endswith((".parquet", ".tar")) and tree.path(folder).is_file()
        if tree.exists(folder) and not is_archive:
            continue
        if is_archive or tree.exists(f"{folder}.tar"):
            inner = "/".join(parts[depth:])
            return _Location(open_tree(tree.path(folder)), f"{folder}/", inner)
        # Neither a folder nor a tar: nothing further down can exist, and `tree` says so.
        break
    return _Location(tree, "", name)


def with_files(
    trials: TrialList,
    tree: Tree,
    folders: Sequence[str],
    suffix: str = ".flac",
) -> TrialList:
    """Return `trials` with the names that their recordings have in `folders`, whatever the suffix.

    One that has no recording is called UTT with `suffix` in the first folder. Of several recordings
    of one name that in the first folder counts: an archive may be left where it was unpacked.
    """
    names: dict[str, str] = {}
    # The first folder comes last, and replaces what others have of the same name.
    for folder in reversed(folders):
        for name in recordings(tree, folder):
            utterance = name[name.rfind("/") + 1 : name.rfind(".")]
            names[utterance] = name
    ids = []
    for utterance in trials.ids:
        ids.append(names.get(utterance) or f"{folders[0]}/{utterance}{suffix}")
    return replace(trials, ids=ids)


def join_name(folder: str, name: str) -> str:
    """Return the name of `name` in `folder` of a tree; either may be '', as the tree's root is."""
    if not folder or not name:
        return folder or name
    return f"{folder}/{name}"
