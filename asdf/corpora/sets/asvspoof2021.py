"""ASVspoof 2021 LA, DF and PA (Liu et al., IEEE/ACM TASLP, 2023).

The keys are in a separate archive, so they are searched for in all likely places: next to the
audio's folder, inside it, with or without the archive's own folder. The file has the same name for
all tracks; its columns identify the track.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from asdf.corpora.known_corpus import (
    VCTK,
    KnownCorpus,
    Origin,
    Reading,
    Taken,
    is_there,
    with_files,
)
from asdf.corpora.protocols import choose_subset, read_from
from asdf.errors import AsdfError
from asdf.facts import PUBLISHED, Published
from asdf.trials.lists import Tree
from asdf.trials.trial_list import TrialList

_EVAL_PACKAGE = "the eval package of ASVspoof 2021, README.md"
_RE_EVALUATIONS = "the corpus's keys; bona fide of eval: re-evaluations published with code"
SUBSETS = ("eval", "progress", "hidden", "all")
# Archives of the audio, which all unpack into the same folder: 4 for DF, 7 for PA.
_PARTS = 7
# A column that only the keys of the track have.
_COLUMN_OF_TRACK = {"LA": "transmission", "DF": "compression", "PA": "asv_room"}


def _key_paths(track: str) -> Iterator[str]:
    """Yield possible paths of the keys, the most likely first."""
    homes = (
        "",
        f"ASVspoof2021_{track}_eval/",
        f"{track}-keys-full/",
        f"{track}-keys-stage-1/",
        f"ASVspoof2021_{track}_eval/{track}-keys-full/",
        f"ASVspoof2021_{track}_keys/",
    )
    for folder in (f"keys/{track}/CM/", f"{track}/CM/", "keys/CM/", "CM/", ""):
        for home in homes:
            yield f"{home}{folder}trial_metadata.txt"


def _find_keys(tree: Tree, track: str) -> tuple[str, TrialList]:
    for name in _key_paths(track):
        if is_there(tree, name):
            trials = read_from(tree, name)
            if _COLUMN_OF_TRACK[track] in trials.columns:
                return name, trials
    raise AsdfError(
        f"{tree.root}: the keys of ASVspoof 2021 {track} are missing. They come in a separate "
        f"archive, {track}-keys-full.tar.gz of www.asvspoof.org: unpack it next to the folder "
        f"ASVspoof2021_{track}_eval, so that keys/{track}/CM/trial_metadata.txt exists."
    )


def _read(track: str, tree: Tree, subset: str) -> Reading:
    name, trials = _find_keys(tree, track)
    whole = f"ASVspoof2021_{track}_eval"
    # The folder of a whole archive first; doubled if an archive was unpacked into a folder with its
    # own name.
    folders = [f"{whole}/flac", f"{whole}/{whole}/flac", "flac"]
    for part in range(_PARTS):
        archive = f"{whole}_part{part:02d}"
        folders += [f"{archive}/{whole}/flac", f"{archive}/flac"]
    existing = tuple(folder for folder in folders if is_there(tree, folder))
    # Without any, recordings are reported as missing at their usual paths.
    audio = existing or (folders[0],)
    trials = with_files(trials, tree, audio)
    if subset == "all":
        note = (
            "these are all trials, of eval, progress and hidden; published numbers are of subset "
            "eval only"
        )
        return Reading(trials, audio, notes=[note])
    chosen = choose_subset(trials, subset, tree.path(name))
    return Reading(chosen, audio, others=frozenset(trials.ids) - frozenset(chosen.ids))


def _corpus(
    track: str,
    homepage: str,
    licence: str,
    published: dict[str, Published],
    source: str,
    origin: Origin = VCTK,
    taken: str = "",
) -> KnownCorpus:
    audio = f"ASVspoof2021_{track}_eval"
    return KnownCorpus(
        name=f"asvspoof21-{track.lower()}",
        title=f"ASVspoof 2021 {track}",
        homepage=homepage,
        licence=licence,
        needs=f"{audio}/flac, and next to it or in it keys/{track}/CM/trial_metadata.txt of "
        f"{track}-keys-full.tar.gz",
        folders=(
            "",
            f"ASVspoof2021_{track}",
            f"ASVspoof2021/{track}",
            "ASVspoof2021",
            "asvspoof2021",
        ),
        marks=(f"{audio}/flac", f"{audio}/{audio}/flac", f"{audio}_part00"),
        read=partial(_read, track),
        subsets=SUBSETS,
        usual="eval",
        published=published,
        source=source,
        origin=origin,
        taken={"asvspoof19:eval": Taken(taken, _EVAL_PACKAGE)} if taken else {},
    )


ASVSPOOF21_LA = _corpus(
    "LA",
    "https://zenodo.org/record/4837263, keys: https://www.asvspoof.org/index2021.html",
    "ODC-By",
    PUBLISHED["asvspoof21-la"],
    _RE_EVALUATIONS,
    taken="2021 LA has the attacks of 2019 LA eval (A07 to A19), sent through codecs",
)
ASVSPOOF21_DF = _corpus(
    "DF",
    "https://zenodo.org/record/4835108, keys: https://www.asvspoof.org/index2021.html",
    "see its LICENSE.txt",
    PUBLISHED["asvspoof21-df"],
    _RE_EVALUATIONS,
    taken="the part 'asvspoof' of 2021 DF is from 2019 LA, compressed",
)
ASVSPOOF21_PA = _corpus(
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
