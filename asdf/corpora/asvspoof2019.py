"""ASVspoof 2019 LA and PA (Wang et al., Computer Speech & Language, 2020)."""

from __future__ import annotations

from functools import partial

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

_SUFFIXES = {"train": "train.trn", "dev": "dev.trl", "eval": "eval.trl"}


def _protocols_of(track: str) -> str:
    return f"ASVspoof2019_{track}_cm_protocols"


def _read(track: str, tree: Tree, subset: str) -> Reading:
    folder = _protocols_of(track)
    # Where there is neither, the message names the path that the distribution has.
    protocols = first_there(tree, (f"{track}/{folder}", folder)) or f"{track}/{folder}"
    name = f"{protocols}/ASVspoof2019.{track}.cm.{_SUFFIXES[subset]}.txt"
    trials = read_from(tree, name)
    home = protocols.removesuffix(folder).rstrip("/")
    audio = (join_name(home, f"ASVspoof2019_{track}_{subset}/flac"),)
    return Reading(with_files(trials, tree, audio), audio)


def _corpus(track: str, key: str) -> KnownCorpus:
    protocols = _protocols_of(track)
    return KnownCorpus(
        title=f"ASVspoof 2019 {track}",
        homepage="https://datashare.ed.ac.uk/handle/10283/3336",
        licence="ODC-By",
        needs=f"{track}.zip unpacked: {track}/{protocols} and "
        f"{track}/ASVspoof2019_{track}_{{train,dev,eval}}/flac",
        folders=(
            "",
            "ASVspoof2019",
            f"ASVspoof2019_{track}",
            "asvspoof2019",
            track,
            # What Edinburgh DataShare calls its download.
            "DS_10283_3336",
            f"DS_10283_3336/{track}",
        ),
        marks=(f"{track}/{protocols}", protocols),
        read=partial(_read, track),
        subsets=("train", "dev", "eval"),
        usual="eval",
        published=PUBLISHED[key],
        source="the corpus's protocols",
    )


ASVSPOOF19 = _corpus("LA", "asvspoof19")
ASVSPOOF19_PA = _corpus("PA", "asvspoof19-pa")
