"""Corpora with label files that `read_protocol` supports: paths of files and recordings.

ASVspoof 2019 LA and PA (Wang et al., Computer Speech & Language, 2020), ASVspoof 5 track 1 (Wang et
al., ASVspoof 2024 workshop), SpoofCeleb (Jung et al., IEEE Open Journal of Signal Processing, 2025:
VoxCeleb1 is bona fide, and 23 systems were trained on it), In-the-Wild (Müller et al., Interspeech
2022: politicians and celebrities, and imitations).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from asdf.corpora.known_corpus import (
    ANTI_DEEPFAKE,
    VCTK,
    KnownCorpus,
    Origin,
    Reading,
    SubsetFiles,
    find_labels,
    first_there,
    is_there,
    join_name,
    with_files,
)
from asdf.corpora.protocols import read_from
from asdf.facts import PUBLISHED, Published
from asdf.trials.lists import Tree


@dataclass(frozen=True)
class Protocols:
    """The label files of a corpus, and their recordings.

    Attributes:
        files: Label files and folders of recordings of each subset, below one of the `homes`.
        advice: Advice for a user without a label file.
        homes: Possible folders of both, the most likely first, each with its '/'.
        parts: Folders with a part of the recordings each, for each subset, if none of the `files`
            has all of them.
        suffix: Suffix of the recordings, if the label file omits it and their folders; '' if it
            contains paths.
    """

    files: Mapping[str, SubsetFiles]
    advice: str
    homes: Sequence[str] = ("",)
    parts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    suffix: str = ".flac"

    def read(self, tree: Tree, subset: str) -> Reading:
        """Read a subset of a corpus.

        Raises:
            AsdfError: its label file does not exist, or a line is malformed.
        """
        files = self.files[subset]
        home_of = {home + name: home for home in self.homes for name in files.labels}
        labels = find_labels(tree, list(home_of), self.advice)
        trials = read_from(tree, labels)
        # Without a '/' at the end if the recordings lie in the home itself.
        folders = [(home_of[labels] + folder).rstrip("/") for folder in files.audio]
        whole = first_there(tree, folders)
        # Only then, because looking into an archive reads all of its names.
        parts = self.parts.get(subset, ()) if whole is None else ()
        existing = tuple(part for part in parts if is_there(tree, part))
        # Without any, recordings are reported as missing at their usual paths.
        audio = existing or (whole or folders[0],)
        if self.suffix:
            return Reading(with_files(trials, tree, audio, self.suffix), audio)
        return Reading(
            replace(trials, ids=[join_name(audio[0], name) for name in trials.ids]), audio
        )


_2019_SUFFIXES = {"train": "train.trn", "dev": "dev.trl", "eval": "eval.trl"}


def _asvspoof_2019(
    track: str, name: str, published: Mapping[str, Published], origin: Origin
) -> KnownCorpus:
    protocols = f"ASVspoof2019_{track}_cm_protocols"
    files = {}
    for subset, suffix in _2019_SUFFIXES.items():
        files[subset] = SubsetFiles(
            (f"{protocols}/ASVspoof2019.{track}.cm.{suffix}.txt",),
            (f"ASVspoof2019_{track}_{subset}/flac",),
        )
    read = Protocols(files, f"Unpack {track}.zip there.", homes=(f"{track}/", ""))
    return KnownCorpus(
        name=name,
        title=f"ASVspoof 2019 {track}",
        homepage="https://datashare.ed.ac.uk/handle/10283/3336",
        licence="ODC-By",
        needs=f"{track}.zip unpacked: {track}/{protocols} and "
        f"{track}/ASVspoof2019_{track}_{{train,dev,eval}}/flac",
        folders=(
            *("", "ASVspoof2019", f"ASVspoof2019_{track}", "asvspoof2019", track),
            # Name of the download from Edinburgh DataShare.
            *("DS_10283_3336", f"DS_10283_3336/{track}"),
        ),
        marks=(f"{track}/{protocols}", protocols),
        read=read.read,
        subsets=("train", "dev", "eval"),
        usual="eval",
        published=published,
        source="the corpus's protocols",
        origin=origin,
    )


ASVSPOOF19 = _asvspoof_2019("LA", "asvspoof19", PUBLISHED["asvspoof19"], VCTK)
ASVSPOOF19_PA = _asvspoof_2019(
    "PA",
    "asvspoof19-pa",
    {
        "train": Published(54_000, 5_400),
        "dev": Published(29_700, 5_400),
        "eval": Published(134_730, 18_090),
    },
    Origin(("VCTK",), "the corpus's paper"),
)


def _asvspoof_5_files(subset: str, protocol: str, folder: str) -> SubsetFiles:
    return SubsetFiles(
        (protocol, f"ASVspoof5_protocols/{protocol}", f"protocols/{protocol}"),
        (folder, f"ASVspoof5_{subset}/{folder}", f"audio/{folder}"),
    )


def _asvspoof_5_parts(letter: str, folder: str) -> list[str]:
    """Return the archives flac_E_aa.tar to flac_E_aj.tar; each unpacks into the same folder."""
    return [f"flac_{letter}_a{part}/{folder}" for part in "abcdefghij"]


_ASVSPOOF5 = Protocols(
    {
        "train": _asvspoof_5_files("train", "ASVspoof5.train.tsv", "flac_T"),
        "dev": _asvspoof_5_files("dev", "ASVspoof5.dev.track_1.tsv", "flac_D"),
        "eval": _asvspoof_5_files("eval", "ASVspoof5.eval.track_1.tsv", "flac_E_eval"),
    },
    "Nor is it in ASVspoof5_protocols. Unpack ASVspoof5_protocols.tar.gz there.",
    parts={
        "train": _asvspoof_5_parts("T", "flac_T"),
        "dev": _asvspoof_5_parts("D", "flac_D"),
        "eval": _asvspoof_5_parts("E", "flac_E_eval"),
    },
)
ASVSPOOF5 = KnownCorpus(
    name="asvspoof5",
    title="ASVspoof 5, track 1",
    homepage="https://zenodo.org/records/14498691",
    licence="ODC-By 1.0",
    needs="ASVspoof5_protocols.tar.gz and flac_{T,D,E}_*.tar unpacked: ASVspoof5.*.tsv, flac_T, "
    "flac_D, flac_E_eval; or these tars as they are",
    folders=("ASVspoof5", "asvspoof5", "ASVspoof_5", "ASVspoof2024", ""),
    marks=tuple(name for files in _ASVSPOOF5.files.values() for name in files.labels),
    read=_ASVSPOOF5.read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    published={
        "train": Published(182_357, 18_797),
        "dev": Published(140_950, 31_334),
        "eval": Published(680_774, 138_688),
    },
    source="counts of the protocols in several public code bases, which agree",
    origin=Origin(("MLS",), ANTI_DEEPFAKE),
)

SPOOFCELEB = KnownCorpus(
    name="spoofceleb",
    title="SpoofCeleb",
    homepage="https://jungjee.github.io/spoofceleb",
    licence="CC BY 4.0",
    needs="metadata/{train,development,evaluation}.csv and flac/{train,development,evaluation}",
    folders=("SpoofCeleb", "spoofceleb"),
    marks=("metadata", "spoofceleb/metadata"),
    read=Protocols(
        {
            "train": SubsetFiles(("metadata/train.csv",), ("flac/train",)),
            "dev": SubsetFiles(
                ("metadata/development.csv", "metadata/dev.csv"), ("flac/development", "flac/dev")
            ),
            "eval": SubsetFiles(
                ("metadata/evaluation.csv", "metadata/eval.csv"), ("flac/evaluation", "flac/eval")
            ),
        },
        "Is it the folder of SpoofCeleb that holds metadata and flac?",
        homes=("", "spoofceleb/"),
        suffix="",
    ).read,
    subsets=("train", "dev", "eval"),
    usual="eval",
    origin=Origin(("VoxCeleb1",), ANTI_DEEPFAKE),
)

_WILD_FOLDER = "release_in_the_wild"
IN_THE_WILD = KnownCorpus(
    name="in-the-wild",
    title="In-the-Wild",
    homepage="https://deepfake-total.com/in_the_wild",
    licence="Apache 2.0",
    needs=f"release_in_the_wild.zip unpacked: {_WILD_FOLDER}/meta.csv and the recordings next to "
    "it",
    folders=(_WILD_FOLDER, "in_the_wild", "In-the-Wild", "InTheWild", "in-the-wild", "itw"),
    marks=("meta.csv", f"{_WILD_FOLDER}/meta.csv"),
    read=Protocols(
        {"": SubsetFiles(("meta.csv",), ("",))},
        f"Unpack release_in_the_wild.zip there, so that there is {_WILD_FOLDER}/meta.csv.",
        homes=("", f"{_WILD_FOLDER}/"),
        suffix="",
    ).read,
    published=PUBLISHED["in-the-wild"],
    source="the corpus's meta.csv",
)
