"""The corpora that are known by name: `corpus` or `corpus:subset`.

Invariant: a name means one list of trials. A corpus of several subsets has no list without one of them being named, so
that no number over all of its trials is held against published ones over a part.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from asdf.corpora.asvspoof5 import ASVSPOOF5
from asdf.corpora.asvspoof2019 import ASVSPOOF19
from asdf.corpora.asvspoof2021 import ASVSPOOF21_DF, ASVSPOOF21_LA
from asdf.corpora.fake_or_real import FOR_2SEC, FOR_NORM, FOR_ORIGINAL, FOR_REREC
from asdf.corpora.in_the_wild import IN_THE_WILD
from asdf.corpora.known import KnownCorpus, Reading, first_there, is_there
from asdf.corpora.m_ailabs import M_AILABS
from asdf.corpora.mlaad import MLAAD
from asdf.corpora.spoofceleb import SPOOFCELEB
from asdf.corpora.wavefake import WAVEFAKE
from asdf.errors import AsdfError, UsageError
from asdf.trials.trees import Tree, open_tree
from asdf.trials.trial_list import TrialList

KNOWN: dict[str, KnownCorpus] = {
    "asvspoof19": ASVSPOOF19,
    "asvspoof21-la": ASVSPOOF21_LA,
    "asvspoof21-df": ASVSPOOF21_DF,
    "asvspoof5": ASVSPOOF5,
    "in-the-wild": IN_THE_WILD,
    "for": FOR_NORM,
    "for-2sec": FOR_2SEC,
    "for-rerec": FOR_REREC,
    "for-original": FOR_ORIGINAL,
    "wavefake": WAVEFAKE,
    "mlaad": MLAAD,
    "m-ailabs": M_AILABS,
    "spoofceleb": SPOOFCELEB,
}

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
"""The names that the original framework's recipe has for its corpora."""


@dataclass(frozen=True)
class Chosen:
    """A corpus and the subset of it that a name asks for; '' for everything."""

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
    """Every name that stands for one list, for hints; subsets that depend on the corpus at hand are left out."""
    names = []
    for key, corpus in KNOWN.items():
        names += [f"{key}:{subset}" for subset in corpus.subsets] or [key]
    return [*ALIASES, *names]


def choose(name: str) -> Chosen:
    """What a name asks for.

    Raises:
        UsageError: no such corpus, no such subset, or a subset is missing; the message names those there are.
    """
    key, _, subset = ALIASES.get(name, name).partition(":")
    if key not in KNOWN:
        near = get_close_matches(name, known_names(), n=1)
        hint = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(KNOWN)}."
        raise UsageError(f"there is no corpus {name!r}. {hint}")
    corpus = KNOWN[key]
    if corpus.subsets and subset not in corpus.subsets:
        near = get_close_matches(subset, corpus.subsets, n=1)
        wrong = (
            f"{key} has no subset {subset!r}"
            if subset
            else f"{key} has subsets, and {name!r} names none"
        )
        raise UsageError(
            f"{wrong}. {f'Did you mean {key}:{near[0]}? ' if near else ''}There are "
            f"{', '.join(f'{key}:{one}' for one in corpus.subsets)}; published numbers are of {key}:{corpus.usual}."
        )
    if subset and not corpus.subsets and not corpus.subset_of:
        raise UsageError(f"{key} has no subsets: name it without ':{subset}'.")
    if subset.startswith(".") or "/" in subset:  # a folder, and a part of file names
        raise UsageError(
            f"{name!r}: a {corpus.subset_of} is the name of one folder, without '/' or a '.' before it."
        )
    return Chosen(key, subset)


def find_tree(corpus: KnownCorpus, folder: Path, itself: bool = False) -> Tree:
    """The tree of a corpus that lies somewhere in `folder`, or, with `itself`, that `folder` is or is a folder of.

    Raises:
        AsdfError: it is not there; names all places that were tried.
    """
    base = open_tree(folder)
    places = ("", *corpus.folders) if itself else corpus.folders
    for place in dict.fromkeys(places):
        if place and not is_there(base, place):
            continue
        tree = open_tree(folder / place) if place else base
        if first_there(tree, corpus.marks):
            return tree
    # A folder that the corpus is told by, such as for-norm or ASVspoof2021_LA_eval, or the tar of it; but not that of
    # one of its languages or systems, which would stand for all of them.
    own = folder.absolute().name.removesuffix(".tar") + "/"
    inside = [
        f"{mark}/".removeprefix(own).rstrip("/")
        for mark in corpus.marks
        if f"{mark}/".startswith(own)
    ]
    if itself and not corpus.subset_of and first_there(base, inside) is not None:
        return open_tree(folder.absolute().parent)
    tried = ", ".join(str(folder / place) for place in dict.fromkeys(places))
    raise AsdfError(
        f"{corpus.title} is not in {folder}: it needs {corpus.needs}. Looked in {tried}. Check "
        f"paths.database_folder, or get the corpus from {corpus.homepage}."
    )


def read_known(chosen: Chosen, tree: Tree, name: str = "") -> tuple[TrialList, Reading]:
    """The list that was chosen, with what the reader says of it.

    Raises:
        AsdfError: a label file or the recordings are not there, or are malformed.
    """
    reading = chosen.corpus.read(tree, chosen.subset)
    return as_list(reading.trials, tree, name or chosen.name), reading


def as_list(trials: TrialList, tree: Tree, name: str) -> TrialList:
    """Trials whose ids are names in `tree` as a list."""
    ids = list(trials.ids)
    if not ids:
        raise AsdfError(f"{tree.root}: {name} has no trials. Was the corpus unpacked whole?")
    columns = {name: list(values) for name, values in trials.columns.items()}
    return TrialList(ids, trials.labels, name=name, folder=tree.root, columns=columns)


def differences(chosen: Chosen, labels: np.ndarray) -> list[str]:
    """A sentence where the trials are not as many as were published; none where nothing is known.

    Args:
        labels: (N,) 1 bona fide, 0 spoof.
    """
    published = chosen.corpus.published.get(chosen.subset)
    if published is None:
        return []
    bona_fide, spoof = int((labels == 1).sum()), int((labels == 0).sum())
    apart = {"": len(labels) - published.trials}
    if published.bona_fide is not None:
        apart = {"bona fide": bona_fide - published.bona_fide}
        apart["spoof"] = spoof - (published.spoof or 0)
    told = [
        f"{abs(by):,}{f' {kind}' if kind else ''} {'missing' if by < 0 else 'too many'}"
        for kind, by in apart.items()
        if by
    ]
    if not told:
        return []
    return [
        f"{chosen.name} has {len(labels):,} trials, published {published.trials:,}: {', '.join(told)}"
    ]


__all__ = [
    "ALIASES",
    "KNOWN",
    "Chosen",
    "as_list",
    "choose",
    "differences",
    "find_tree",
    "is_known",
    "known_names",
    "read_known",
]
