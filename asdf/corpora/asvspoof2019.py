"""ASVspoof 2019 LA (Wang et al., Computer Speech & Language, 2020)."""

from __future__ import annotations

from asdf.corpora.known import (
    KnownCorpus,
    Reading,
    first_there,
    join_name,
    with_files,
)
from asdf.corpora.protocols import read_from
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree

_PROTOCOLS = "ASVspoof2019_LA_cm_protocols"
_SUFFIXES = {"train": "train.trn", "dev": "dev.trl", "eval": "eval.trl"}


def _read(tree: Tree, subset: str) -> Reading:
    # Where there is neither, the message names the path that the distribution has.
    protocols = first_there(tree, (f"LA/{_PROTOCOLS}", _PROTOCOLS)) or f"LA/{_PROTOCOLS}"
    trials = read_from(tree, f"{protocols}/ASVspoof2019.LA.cm.{_SUFFIXES[subset]}.txt")
    home = protocols.removesuffix(_PROTOCOLS).rstrip("/")
    audio = (join_name(home, f"ASVspoof2019_LA_{subset}/flac"),)
    return Reading(with_files(trials, tree, audio), audio)


ASVSPOOF19 = KnownCorpus(
    title="ASVspoof 2019 LA",
    homepage="https://datashare.ed.ac.uk/handle/10283/3336",
    licence="ODC-By",
    needs=f"LA.zip unpacked: LA/{_PROTOCOLS} and LA/ASVspoof2019_LA_{{train,dev,eval}}/flac",
    folders=(
        "",
        "ASVspoof2019",
        "ASVspoof2019_LA",
        "asvspoof2019",
        "LA",
        # What Edinburgh DataShare calls its download.
        "DS_10283_3336",
        "DS_10283_3336/LA",
    ),
    marks=(f"LA/{_PROTOCOLS}", _PROTOCOLS),
    read=_read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published=PUBLISHED["asvspoof19"],
    source="the corpus's protocols",
)
