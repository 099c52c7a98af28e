"""In-the-Wild (Müller et al., Interspeech 2022): recordings of politicians and celebrities, and imitations of them."""

from __future__ import annotations

from asdf.corpora.known import KnownCorpus, Reading, first_there
from asdf.corpora.protocols import read_from
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree
from asdf.trials.trial_list import TrialList

_INNER = "release_in_the_wild"


def _read(tree: Tree, subset: str) -> Reading:
    meta = first_there(tree, ("meta.csv", f"{_INNER}/meta.csv")) or f"{_INNER}/meta.csv"
    trials = read_from(tree, meta)
    home = meta.removesuffix("meta.csv")
    return Reading(
        TrialList([home + name for name in trials.ids], trials.labels, columns=trials.columns),
        (home.rstrip("/"),),
    )


IN_THE_WILD = KnownCorpus(
    title="In-the-Wild",
    homepage="https://deepfake-total.com/in_the_wild",
    licence="Apache 2.0",
    needs=f"release_in_the_wild.zip unpacked: {_INNER}/meta.csv and the recordings beside it",
    folders=(_INNER, "in_the_wild", "In-the-Wild", "InTheWild", "in-the-wild", "itw"),
    marks=("meta.csv", f"{_INNER}/meta.csv"),
    read=_read,
    published=PUBLISHED["in-the-wild"],
    source="the corpus's meta.csv",
)
