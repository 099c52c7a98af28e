"""Public corpora by name: `corpus` or `corpus:subset`.

Invariant: a name means a single list of trials. A corpus with several subsets requires one in the
name, so that no result on all of its trials is compared with published ones on a part.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from asdf.corpora import sets
from asdf.corpora.corpus_names import parse_located
from asdf.corpora.known_corpus import KnownCorpus, Reading, first_there, is_there
from asdf.errors import AsdfError, UsageError
from asdf.places import folder_name
from asdf.ports import provided
from asdf.trials.lists import Tree, open_tree
from asdf.trials.trial_list import TrialList


def _find_corpora() -> dict[str, KnownCorpus]:
    """Return the corpora of all files in the folder `sets` and of the extras, sorted by name."""
    corpora = {}
    own = [f"{sets.__name__}.{file.name}" for file in iter_modules(sets.__path__)]
    for name in (*own, *provided("CORPORA")):
        for value in vars(import_module(name)).values():
            if isinstance(value, KnownCorpus):
                corpora[value.name] = value
    return dict(sorted(corpora.items()))


KNOWN = _find_corpora()
_SHOWN = 5

ALIASES = {
    "asvspoof19": "asvspoof19:train",
    "asvspoof19-dev": "asvspoof19:dev",
    "asvspoof19-eval": "asvspoof19:eval",
    "asvspoof21-la-progress": "asvspoof21-la:progress",
    "asvspoof21-la-eval": "asvspoof21-la:eval",
    "asvspoof21-df-progress": "asvspoof21-df:progress",
    "asvspoof21-df-eval": "asvspoof21-df:eval",
    "itw": "in-the-wild",
    "for": "for:training",
    "for-validation": "for:validation",
    "for-testing": "for:testing",
}
"""Names of corpora in the original framework's recipe."""


@dataclass(frozen=True)
class Chosen:
    """A corpus and its subset in a name; '' for everything."""

    key: str
    subset: str

    @property
    def corpus(self) -> KnownCorpus:
        return KNOWN[self.key]

    @property
    def name(self) -> str:
        return f"{self.key}:{self.subset}" if self.subset else self.key


def is_known(name: str) -> bool:
    """Whether `name`, with or without a subset, begins with the name of a known corpus."""
    return name.split(":", 1)[0] in {*KNOWN, *ALIASES}


def known_names() -> list[str]:
    """Return every name that means a single list, for hints.

    Subsets that depend on the user's copy of a corpus are left out.
    """
    names = list(ALIASES)
    for key, corpus in KNOWN.items():
        names += [f"{key}:{subset}" for subset in corpus.subsets] or [key]
    return names


def choose(name: str) -> Chosen:
    """Return the corpus and subset of a name.

    Raises:
        UsageError: the corpus or the subset does not exist, or a subset is missing; the message
            lists the existing ones.
    """
    if (located := parse_located(name)) is not None:
        return Chosen(located.kind, name.partition(":")[2])
    # Aliases first: in recipes of the original, `asvspoof19` and `for` are the training sets.
    key, _, subset = ALIASES.get(name, name).partition(":")
    if key not in KNOWN:
        # In the spelling of papers, 'AT-ADD': a corpus with several tracks is found by its prefix.
        wanted = name.lower()
        near = [known for known in KNOWN if known.startswith(wanted)]
        near = near or get_close_matches(wanted, known_names(), n=1)
        hint = f"There are {', '.join(KNOWN)}."
        if near:
            hint = f"Did you mean {' or '.join(map(repr, near[:_SHOWN]))}?"
        raise UsageError(f"there is no corpus {name!r}. {hint}")
    corpus = KNOWN[key]
    if corpus.subsets and subset not in corpus.subsets:
        raise UsageError(_describe_wrong_subset(name, key, subset))
    if subset and not corpus.subsets and not corpus.subset_of:
        raise UsageError(f"{key} has no subsets: name it without ':{subset}'.")
    # It is the name of a folder, and part of file names.
    if subset.startswith(".") or "/" in subset:
        raise UsageError(
            f"{name!r}: a {corpus.subset_of} must be the name of one folder, without '/' or a "
            "leading '.'."
        )
    return Chosen(key, subset)


def _describe_wrong_subset(name: str, key: str, subset: str) -> str:
    corpus = KNOWN[key]
    problem = f"{key} has subsets, but {name!r} names none"
    if subset:
        problem = f"{key} has no subset {subset!r}"
    near = get_close_matches(subset, corpus.subsets, n=1)
    hint = f"Did you mean {key}:{near[0]}? " if near else ""
    existing = ", ".join(f"{key}:{known}" for known in corpus.subsets)
    return f"{problem}. {hint}There are {existing}; published numbers are of {key}:{corpus.usual}."


def find_tree(corpus: KnownCorpus, folder: Path, itself: bool = False) -> Tree:
    """Return the tree of a corpus somewhere in `folder`.

    Args:
        itself: Whether the corpus may also be `folder` itself, or contain `folder`.

    Raises:
        AsdfError: it does not exist; the message lists all paths that were tried.
    """
    base = open_tree(folder)
    paths = dict.fromkeys(corpus.folders)
    if itself:
        # First: if the user names a folder of the corpus, that folder is meant, whatever it
        # contains.
        paths = dict.fromkeys(["", *corpus.folders])  # '' may be one of them
    for path in paths:
        tree = base
        if path:
            if not is_there(base, path):
                continue
            tree = open_tree(folder / path)
        # Without marks any folder is accepted: the reader reports what is missing.
        if not corpus.marks or first_there(tree, corpus.marks):
            return tree
    if itself and _is_inside(corpus, base, folder):
        # Absolute, because the parent of '.' would be '.' again.
        return open_tree(folder.absolute().parent)
    tried = ", ".join(str(folder / path) for path in paths)
    raise AsdfError(
        f"{corpus.title} is not in {folder}: it needs {corpus.needs}. Looked in {tried}. Check "
        f"paths.database_folder, or get the corpus from {corpus.homepage}."
    )


def _is_inside(corpus: KnownCorpus, base: Tree, folder: Path) -> bool:
    """Whether `folder`, or a file that stands for it, identifies the corpus, such as for-norm.

    It must not be the folder of one language or system, which would stand for all of them.
    """
    if corpus.subset_of:
        return False
    name = folder_name(folder.absolute().name) + "/"
    marks = [f"{mark}/" for mark in corpus.marks]
    inner = [mark.removeprefix(name).rstrip("/") for mark in marks if mark.startswith(name)]
    return first_there(base, inner) is not None


def read_known(chosen: Chosen, tree: Tree, name: str = "") -> tuple[TrialList, Reading]:
    """Return the chosen list, with the result of the reader.

    Raises:
        AsdfError: a label file or the recordings do not exist, or are malformed.
    """
    reading = chosen.corpus.read(tree, chosen.subset)
    return as_list(reading.trials, tree, name or chosen.name), reading


def as_list(trials: TrialList, tree: Tree, name: str) -> TrialList:
    """Return trials whose ids are names in `tree` as a list of recordings."""
    if not len(trials):
        raise AsdfError(f"{tree.root}: {name} has no trials. Was the corpus unpacked completely?")
    return replace(trials, name=name, folder=tree.root)


def differences(chosen: Chosen, labels: np.ndarray) -> list[str]:
    """Return a sentence if the numbers of trials differ from the published ones, if known.

    Args:
        labels: Labels of the trials, (N,), 1 bona fide, 0 spoof.
    """
    published = chosen.corpus.published.get(chosen.subset)
    if published is None:
        return []
    # For some sets only the total number of trials is published.
    excess = {"": len(labels) - published.trials}
    if published.bona_fide is not None:
        excess = {
            " bona fide": int((labels == 1).sum()) - published.bona_fide,
            " spoof": int((labels == 0).sum()) - (published.spoof or 0),
        }
    parts = [
        f"{abs(number):,}{kind} {'missing' if number < 0 else 'too many'}"
        for kind, number in excess.items()
        if number
    ]
    start = f"{chosen.name} has {len(labels):,} trials, published {published.trials:,}"
    return [f"{start}: {', '.join(parts)}"] if parts else []
