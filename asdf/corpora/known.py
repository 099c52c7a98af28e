"""What a corpus that ASDF knows by name consists of, and what a reader of one gives.

Invariant: a reader sees a corpus through a `Tree` alone, and names its recordings as the tree does, so that it does not
matter where the corpus lies or whether it was unpacked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from asdf.facts import AUDIO_SUFFIXES, Published
from asdf.trials.trees import Tree, open_tree
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class Reading:
    """What a reader found.

    Attributes:
        trials: their ids are names in the tree.
        audio: the folders that the recordings lie in.
        others: names in the tree of recordings that the label file has, but in another subset.
        notes: what the user should know of the corpus at hand.
    """

    trials: TrialList
    audio: Sequence[str] = ()
    others: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class KnownCorpus:
    """A corpus as it is distributed.

    Attributes:
        homepage: where it comes from, and `licence`, what was found about its licence.
        needs: what has to lie in its folder.
        folders: where it is looked for below paths.database_folder, the first one that has one of `marks` being taken.
        marks: files or folders that tell that the corpus is there.
        read: the reader; it gets one of `subsets`, any value of `subset_of`, or '' for everything.
        subsets: the names of its subsets, if they are fixed.
        usual: the subset that published numbers are of.
        subset_of: what else a subset may be named by: 'language', 'system'; then a name without one is everything.
        published: numbers of trials, by subset ('' for everything), and `source`, where they are from.
    """

    title: str
    homepage: str
    licence: str
    needs: str
    folders: tuple[str, ...]
    marks: tuple[str, ...]
    read: Callable[[Tree, str], Reading]
    subsets: tuple[str, ...] = ()
    usual: str = ""
    subset_of: str = ""
    published: Mapping[str, Published] = field(default_factory=dict)
    source: str = ""


def is_there(tree: Tree, name: str) -> bool:
    """Whether the tree has a file or folder `name`; any folder on the way may also be a tar of that name."""
    part, _, rest = _part(tree, name)
    return not rest or part.exists(rest)


def first_there(tree: Tree, names: Iterable[str]) -> str | None:
    """The first of `names` that the tree has."""
    return next((name for name in names if is_there(tree, name)), None)


def recordings(tree: Tree, folder: str) -> list[str]:
    """Names of the audio files in `folder` and below it, sorted."""
    return [name for name in files_in(tree, folder) if is_recording(name)]


def files_in(tree: Tree, folder: str) -> list[str]:
    """Names of all files in `folder` and below it, sorted."""
    part, start, rest = _part(tree, folder)
    return [start + name for name in part.files(rest)]


def is_recording(name: str) -> bool:
    """Whether a file of this name holds speech."""
    return name[name.rfind(".") :].lower() in AUDIO_SUFFIXES


def _part(tree: Tree, name: str) -> tuple[Tree, str, str]:
    """The tree that `name` is in, a tar's where a folder of it is one; how names of it begin here; `name` in it."""
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        if not tree.exists(folder):
            if tree.exists(f"{folder}.tar"):
                return open_tree(tree.path(folder)), f"{folder}/", "/".join(parts[depth:])
            break
    return tree, "", name


def with_files(trials: TrialList, tree: Tree, folders: Sequence[str]) -> TrialList:
    """`trials` with the names that their recordings have in `folders`, whatever the suffix; UTT.flac without any.

    Of several of one name that in the first folder counts: an archive may be left where it was unpacked.
    """
    there: dict[str, str] = {}
    for folder in reversed(folders):
        there |= {
            name[name.rfind("/") + 1 : name.rfind(".")]: name for name in recordings(tree, folder)
        }
    default = folders[0]
    ids = [there.get(utterance) or f"{default}/{utterance}.flac" for utterance in trials.ids]
    return TrialList(ids, trials.labels, columns=trials.columns)


def join_name(folder: str, name: str) -> str:
    """`name` in `folder` of a tree; either may be '', as the tree's root is."""
    return "/".join(part for part in (folder, name) if part)
