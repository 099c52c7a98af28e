"""ASVspoof 5, track 1 (Wang et al., ASVspoof 2024 workshop)."""

from __future__ import annotations

from asdf.corpora.known import (
    KnownCorpus,
    Reading,
    first_there,
    is_there,
    with_files,
)
from asdf.corpora.protocols import read_from
from asdf.errors import AsdfError
from asdf.facts import PUBLISHED
from asdf.trials.trees import Tree

_PROTOCOLS = {
    "train": "ASVspoof5.train.tsv",
    "dev": "ASVspoof5.dev.track_1.tsv",
    "eval": "ASVspoof5.eval.track_1.tsv",
}
_AUDIO = {"train": "flac_T", "dev": "flac_D", "eval": "flac_E_eval"}
_PLACES = ("", "ASVspoof5_protocols/", "protocols/")
_PARTS = "abcdefghij"  # flac_E_aa.tar to flac_E_aj.tar, each of which unpacks into the same folder


def _read(tree: Tree, subset: str) -> Reading:
    protocol = first_there(tree, (place + _PROTOCOLS[subset] for place in _PLACES))
    if protocol is None:
        raise AsdfError(
            f"{tree.root}: there is no {_PROTOCOLS[subset]}, nor is it in ASVspoof5_protocols. Unpack "
            "ASVspoof5_protocols.tar.gz there."
        )
    audio = _audio(tree, subset)
    return Reading(with_files(read_from(tree, protocol), tree, audio), audio)


def _audio(tree: Tree, subset: str) -> tuple[str, ...]:
    own = _AUDIO[subset]
    whole = first_there(tree, (own, f"ASVspoof5_{subset}/{own}", f"audio/{own}"))
    if whole is not None:
        return (whole,)
    parts = (f"flac_{own[len('flac_')]}_a{letter}/{own}" for letter in _PARTS)
    return tuple(part for part in parts if is_there(tree, part)) or (own,)


ASVSPOOF5 = KnownCorpus(
    title="ASVspoof 5, track 1",
    homepage="https://zenodo.org/records/14498691",
    licence="ODC-By 1.0",
    needs="ASVspoof5_protocols.tar.gz and flac_{T,D,E}_*.tar unpacked: ASVspoof5.*.tsv, flac_T, flac_D, flac_E_eval; "
    "or these tars as they are",
    folders=("ASVspoof5", "asvspoof5", "ASVspoof_5", "ASVspoof2024", ""),
    marks=tuple(place + name for place in _PLACES for name in _PROTOCOLS.values()),
    read=_read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published=PUBLISHED["asvspoof5"],
    source="counts of the protocols in several public code bases, which agree",
)
