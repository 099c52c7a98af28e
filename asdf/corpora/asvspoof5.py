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
_HOMES = ("", "ASVspoof5_protocols/", "protocols/")
# flac_E_aa.tar to flac_E_aj.tar, each of which unpacks into the same folder.
_PARTS = "abcdefghij"


def _read(tree: Tree, subset: str) -> Reading:
    file = _PROTOCOLS[subset]
    protocol = first_there(tree, [home + file for home in _HOMES])
    if protocol is None:
        raise AsdfError(
            f"{tree.root}: there is no {file}, nor is it in ASVspoof5_protocols. Unpack "
            "ASVspoof5_protocols.tar.gz there."
        )
    audio = _audio_folders(tree, subset)
    return Reading(with_files(read_from(tree, protocol), tree, audio), audio)


def _audio_folders(tree: Tree, subset: str) -> tuple[str, ...]:
    """Return the folder of the audio, or those of the archives that it comes in."""
    folder = _AUDIO[subset]
    whole = first_there(tree, (folder, f"ASVspoof5_{subset}/{folder}", f"audio/{folder}"))
    if whole is not None:
        return (whole,)
    # One letter: the archives of flac_E_eval are called flac_E_aa.tar and so on.
    set_letter = folder[len("flac_")]
    parts = []
    for letter in _PARTS:
        part = f"flac_{set_letter}_a{letter}/{folder}"
        if is_there(tree, part):
            parts.append(part)
    # Without any, the recordings are reported as missing in the folder of the distribution.
    return tuple(parts) or (folder,)


ASVSPOOF5 = KnownCorpus(
    title="ASVspoof 5, track 1",
    homepage="https://zenodo.org/records/14498691",
    licence="ODC-By 1.0",
    needs="ASVspoof5_protocols.tar.gz and flac_{T,D,E}_*.tar unpacked: ASVspoof5.*.tsv, flac_T, "
    "flac_D, flac_E_eval; or these tars as they are",
    folders=("ASVspoof5", "asvspoof5", "ASVspoof_5", "ASVspoof2024", ""),
    marks=tuple(home + file for home in _HOMES for file in _PROTOCOLS.values()),
    read=_read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published=PUBLISHED["asvspoof5"],
    source="counts of the protocols in several public code bases, which agree",
)
