"""ASVspoof 2019 LA and PA, ASVspoof 5 track 1, and ASVspoof 2021 LA, DF and PA.

Wang et al., Computer Speech & Language, 2020; Wang et al., ASVspoof 2024 workshop; Liu et al.,
IEEE/ACM TASLP, 2023. The keys of 2021 are in a separate archive, so they are searched for in all
likely places. The file has the same name for all tracks; its columns identify the track.
"""

from __future__ import annotations

from collections.abc import Mapping

from asdf.corpora.known_corpus import ANTI_DEEPFAKE, VCTK, KnownCorpus, Origin, Taken
from asdf.corpora.label_lists import ALL, Lists, SubsetFiles
from asdf.facts import PUBLISHED, Published

_2019_SUFFIXES = {"train": "train.trn", "dev": "dev.trl", "eval": "eval.trl"}


def _asvspoof_2019(
    track: str, name: str, published: Mapping[str, Published], origin: Origin
) -> KnownCorpus:
    protocols = f"ASVspoof2019_{track}_cm_protocols"
    files = {
        subset: SubsetFiles(
            (f"{protocols}/ASVspoof2019.{track}.cm.{suffix}.txt",),
            (f"ASVspoof2019_{track}_{subset}/flac",),
        )
        for subset, suffix in _2019_SUFFIXES.items()
    }
    lists = Lists(files, f"Unpack {track}.zip there.", homes=(f"{track}/", ""), suffix=".flac")
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
        read=lists.read,
        subsets=tuple(files),
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


def _asvspoof_5_files(letter: str, subset: str, protocol: str, folder: str) -> SubsetFiles:
    return SubsetFiles(
        (protocol, f"ASVspoof5_protocols/{protocol}", f"protocols/{protocol}"),
        (folder, f"ASVspoof5_{subset}/{folder}", f"audio/{folder}"),
        # The archives flac_E_aa.tar to flac_E_aj.tar each unpack into the same folder.
        [f"flac_{letter}_a{part}/{folder}" for part in "abcdefghij"],
    )


_ASVSPOOF5 = Lists(
    {
        "train": _asvspoof_5_files("T", "train", "ASVspoof5.train.tsv", "flac_T"),
        "dev": _asvspoof_5_files("D", "dev", "ASVspoof5.dev.track_1.tsv", "flac_D"),
        "eval": _asvspoof_5_files("E", "eval", "ASVspoof5.eval.track_1.tsv", "flac_E_eval"),
    },
    "Nor is it in ASVspoof5_protocols. Unpack ASVspoof5_protocols.tar.gz there.",
    suffix=".flac",
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
    subsets=tuple(_ASVSPOOF5.files),
    usual="eval",
    published={
        "train": Published(182_357, 18_797),
        "dev": Published(140_950, 31_334),
        "eval": Published(680_774, 138_688),
    },
    source="counts of the protocols in several public code bases, which agree",
    origin=Origin(("MLS",), ANTI_DEEPFAKE),
)


_EVAL_PACKAGE = "the eval package of ASVspoof 2021, README.md"
_RE_EVALUATIONS = "the corpus's keys; bona fide of eval: re-evaluations published with code"
# Archives of the audio, which all unpack into the same folder: 4 for DF, 7 for PA.
_PARTS = 7
# A column that only the keys of the track have.
_COLUMN_OF_TRACK = {"LA": "transmission", "DF": "compression", "PA": "asv_room"}


def _asvspoof_2021(
    track: str,
    homepage: str,
    licence: str,
    published: dict[str, Published],
    source: str,
    origin: Origin = VCTK,
    taken: str = "",
) -> KnownCorpus:
    audio = f"ASVspoof2021_{track}_eval"
    homes = (
        *("", f"{audio}/", f"{track}-keys-full/", f"{track}-keys-stage-1/"),
        *(f"{audio}/{track}-keys-full/", f"ASVspoof2021_{track}_keys/"),
    )
    folders = (f"keys/{track}/CM/", f"{track}/CM/", "keys/CM/", "CM/", "")
    parts = [f"{audio}_part{part:02d}/" for part in range(_PARTS)]
    archives = [part + inner for part in parts for inner in (f"{audio}/", "")]
    files = SubsetFiles(
        # The most likely first: keys/LA/CM, in any of the homes.
        [f"{home}{folder}trial_metadata.txt" for folder in folders for home in homes],
        (f"{audio}/flac",),
        # An archive may have been unpacked into a folder with its own name.
        [f"{folder}flac" for folder in (f"{audio}/{audio}/", "", *archives)],
    )
    lists = Lists(
        dict.fromkeys(("eval", "progress", "hidden", ALL), files),
        f"The keys of ASVspoof 2021 {track} come in a separate archive, {track}-keys-full.tar.gz "
        f"of www.asvspoof.org: unpack it next to the folder {audio}.",
        suffix=".flac",
        subset_column="subset",
        mark=_COLUMN_OF_TRACK[track],
        notes={
            ALL: "these are all trials, of eval, progress and hidden; published numbers are of "
            "subset eval only"
        },
    )
    return KnownCorpus(
        name=f"asvspoof21-{track.lower()}",
        title=f"ASVspoof 2021 {track}",
        homepage=homepage,
        licence=licence,
        needs=f"{audio}/flac, and next to it or in it keys/{track}/CM/trial_metadata.txt of "
        f"{track}-keys-full.tar.gz",
        folders=(
            *("", f"ASVspoof2021_{track}", f"ASVspoof2021/{track}"),
            *("ASVspoof2021", "asvspoof2021"),
        ),
        marks=(f"{audio}/flac", f"{audio}/{audio}/flac", f"{audio}_part00"),
        read=lists.read,
        subsets=tuple(lists.files),
        usual="eval",
        published=published,
        source=source,
        origin=origin,
        taken={"asvspoof19:eval": Taken(taken, _EVAL_PACKAGE)} if taken else {},
    )


ASVSPOOF21_LA = _asvspoof_2021(
    "LA",
    "https://zenodo.org/record/4837263, keys: https://www.asvspoof.org/index2021.html",
    "ODC-By",
    PUBLISHED["asvspoof21-la"],
    _RE_EVALUATIONS,
    taken="2021 LA has the attacks of 2019 LA eval (A07 to A19), sent through codecs",
)
ASVSPOOF21_DF = _asvspoof_2021(
    "DF",
    "https://zenodo.org/record/4835108, keys: https://www.asvspoof.org/index2021.html",
    "see its LICENSE.txt",
    PUBLISHED["asvspoof21-df"],
    _RE_EVALUATIONS,
    taken="the part 'asvspoof' of 2021 DF is from 2019 LA, compressed",
)
ASVSPOOF21_PA = _asvspoof_2021(
    "PA",
    "https://zenodo.org/record/4834716, keys: https://www.asvspoof.org/index2021.html",
    "see its LICENSE.txt",
    {
        "eval": Published(721_332),
        "progress": Published(87_048),
        "hidden": Published(134_730),
        "all": Published(943_110),
    },
    "counts of the corpus's keys in a public repository",
    Origin(("VCTK",), "the challenge's paper"),
)
