"""Fake-or-Real (Reimao and Tzerpos, SpeD 2019) in its four variants; folders are the labels."""

from __future__ import annotations

from functools import partial

import numpy as np

from asdf.corpora.known_corpus import (
    KnownCorpus,
    Origin,
    Reading,
    first_there,
    join_name,
    recordings,
)
from asdf.errors import AsdfError
from asdf.facts import Published
from asdf.trials.lists import Tree
from asdf.trials.trial_list import TrialList

SUBSETS = ("training", "validation", "testing")
# Names of a variant's folders in its archives.
_FOLDERS = {
    "norm": ("for-norm",),
    "2sec": ("for-2sec", "for-2seconds"),
    "rerec": ("for-rerec", "for-rerecorded"),
    "original": ("for-original",),
}


def _homes(variant: str) -> list[str]:
    """Return the possible locations of the subsets' folders.

    Archives unpack into one folder, or into two nested ones.
    """
    names = _FOLDERS[variant]
    homes = list(names)
    for outer in names:
        for inner in names:
            homes.append(f"{outer}/{inner}")
    return homes


def _read(variant: str, tree: Tree, subset: str) -> Reading:
    homes = [*reversed(_homes(variant)), ""]
    folder = first_there(tree, (join_name(home, subset) for home in homes))
    if folder is None:
        raise AsdfError(
            f"{tree.root}: there is no folder {_FOLDERS[variant][0]}/{subset}. It should hold "
            f"{subset}/real and {subset}/fake as for-{variant} is distributed."
        )
    bona_fide = recordings(tree, f"{folder}/real")
    spoof = recordings(tree, f"{folder}/fake")
    names = bona_fide + spoof
    labels = np.repeat([1, 0], [len(bona_fide), len(spoof)]).astype(np.int8)
    columns = {"subset": [subset] * len(names), "variant": [f"for-{variant}"] * len(names)}
    trials = TrialList(names, labels, columns=columns)
    return Reading(trials, audio=(f"{folder}/real", f"{folder}/fake"))


def _corpus(
    name: str, variant: str, published: dict[str, Published] | None = None, source: str = ""
) -> KnownCorpus:
    return KnownCorpus(
        name=name,
        title=f"Fake-or-Real, for-{variant}",
        homepage="https://bil.eecs.yorku.ca/datasets",
        needs=f"{_FOLDERS[variant][-1]}/{{training,validation,testing}}/{{real,fake}}",
        folders=("FoR", "for", "FakeOrReal", "fake-or-real", "the-fake-or-real-dataset", ""),
        marks=tuple(f"{home}/{subset}" for home in _homes(variant) for subset in SUBSETS),
        read=partial(_read, variant),
        subsets=SUBSETS,
        usual="testing",
        published=published or {},
        source=source,
        origin=Origin(("LJSpeech",), "the corpus's paper"),
    )


FOR_NORM = _corpus(
    "for",
    "norm",
    {
        "training": Published(53_868, 26_941),
        "validation": Published(10_798, 5_400),
        "testing": Published(4_634, 2_264),
    },
    "counts of the folders in public code bases",
)
FOR_2SEC = _corpus("for-2sec", "2sec")
FOR_REREC = _corpus("for-rerec", "rerec")
FOR_ORIGINAL = _corpus("for-original", "original")
