"""In-the-Wild (Müller et al., Interspeech 2022): politicians and celebrities, and imitations."""

from __future__ import annotations

from dataclasses import replace

from asdf.corpora.known import KnownCorpus, Reading, first_there
from asdf.corpora.protocols import read_from
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree

_INNER = "release_in_the_wild"


def _read(tree: Tree, subset: str) -> Reading:
    # Where there is neither, the message names the path that the distribution has.
    meta = first_there(tree, ("meta.csv", f"{_INNER}/meta.csv")) or f"{_INNER}/meta.csv"
    trials = read_from(tree, meta)
    home = meta.removesuffix("meta.csv")
    # Names in meta.csv are those in its own folder.
    ids = [home + name for name in trials.ids]
    return Reading(replace(trials, ids=ids), audio=(home.rstrip("/"),))


IN_THE_WILD = KnownCorpus(
    title="In-the-Wild",
    homepage="https://deepfake-total.com/in_the_wild",
    licence="Apache 2.0",
    needs=f"release_in_the_wild.zip unpacked: {_INNER}/meta.csv and the recordings next to it",
    folders=(_INNER, "in_the_wild", "In-the-Wild", "InTheWild", "in-the-wild", "itw"),
    marks=("meta.csv", f"{_INNER}/meta.csv"),
    read=_read,
    published=PUBLISHED["in-the-wild"],
    source="the corpus's meta.csv",
)
