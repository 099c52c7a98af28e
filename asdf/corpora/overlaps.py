"""What corpora share with each other: speech that a network was trained on is no test of it.

Invariant: only what a source states is in the tables. They know corpora, not recordings: what a
training set shares with an evaluation set is a warning, and may be what the experiment is about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from asdf.corpora.registry import KNOWN, Chosen


class Origin(NamedTuple):
    """Whose speech a corpus has, and who says so."""

    speech: tuple[str, ...]
    source: str


_ANTI_DEEPFAKE = "the table of sources in nii-yamagishilab/AntiDeepfake, protocols/README.md"
_ARENA_PAGES = "the Arena's pages of the ADD sets"
_VCTK = Origin(("VCTK",), _ANTI_DEEPFAKE)
_AISHELL_3 = Origin(("AISHELL-3",), _ARENA_PAGES)

ORIGINS: dict[str, Origin] = {
    "asvspoof19": _VCTK,
    "asvspoof19-pa": Origin(("VCTK",), "the corpus's paper"),
    "asvspoof21-la": _VCTK,
    "asvspoof21-df": _VCTK,
    "asvspoof21-pa": Origin(("VCTK",), "the challenge's paper"),
    "asvspoof5": Origin(("MLS",), _ANTI_DEEPFAKE),
    "wavefake": Origin(("LJSpeech", "JSUT"), _ANTI_DEEPFAKE),
    "mlaad": Origin(("M-AILABS",), _ANTI_DEEPFAKE),
    "m-ailabs": Origin(("M-AILABS",), "itself"),
    "spoofceleb": Origin(("VoxCeleb1",), _ANTI_DEEPFAKE),
    "for": Origin(("LJSpeech",), "the corpus's paper"),
    "partial-spoof": Origin(("VCTK",), "the corpus's paper: it is made of ASVspoof 2019 LA"),
    "llama-partial-spoof": Origin(("LibriTTS",), "the corpus's paper"),
    "had": Origin(("AISHELL-3",), "the corpus's paper"),
    "add22": _AISHELL_3,
    "add23": _AISHELL_3,
    "add23-track3": _AISHELL_3,
    "cfad": Origin(("AISHELL-1", "AISHELL-3", "THCHS-30", "MAGICDATA"), _ANTI_DEEPFAKE),
    "codecfake-xie": Origin(("VCTK", "LibriTTS", "AISHELL-3"), _ANTI_DEEPFAKE),
    "codecfake-wu": _VCTK,
    "dfadd": _VCTK,
    "odss": Origin(("VCTK",), "the folders of its recordings, in DeepFense's list"),
    "decro": Origin(("VCTK", "AISHELL-1", "AISHELL-3", "MAGICDATA"), _ANTI_DEEPFAKE),
    "librisevoc": Origin(("LibriTTS",), "the README of its repository"),
    "diffssd": Origin(("LibriSpeech", "LJSpeech"), _ANTI_DEEPFAKE),
    "fakeavceleb": Origin(("VoxCeleb2",), "the corpus's paper"),
}
"""Whose speech the corpora have, by their names here; variants of Fake-or-Real are all `for`."""

# LibriTTS was cut from the recordings of LibriSpeech.
_SAME_SPEECH = {"LibriTTS": "LibriSpeech"}


@dataclass(frozen=True)
class _Shared:
    """Two corpora, or subsets of them, of which one holds recordings of the other."""

    one: str
    other: str
    reason: str
    source: str


_EVAL_PACKAGE = "the eval package of ASVspoof 2021, README.md"
_DECRO = "the README of DECRO's repository"
_SHARED = (
    _Shared(
        "asvspoof19:eval",
        "asvspoof21-la",
        "2021 LA has the attacks of 2019 LA eval (A07 to A19), sent through codecs",
        _EVAL_PACKAGE,
    ),
    _Shared(
        "asvspoof19:eval",
        "asvspoof21-df",
        "the part 'asvspoof' of 2021 DF is from 2019 LA, compressed",
        _EVAL_PACKAGE,
    ),
    _Shared(
        "asvspoof19",
        "partial-spoof",
        "PartialSpoof is made of the recordings of ASVspoof 2019 LA",
        "the corpus's paper",
    ),
    _Shared(
        "asvspoof19", "decro", "DECRO's English bona fide is of ASVspoof 2019 LA, redivided", _DECRO
    ),
    _Shared("wavefake", "decro", "DECRO has spoofs of WaveFake", _DECRO),
    _Shared("cfad", "decro", "DECRO has spoofs of CFAD", _DECRO),
)

# Whose speakers the challenges keep apart: those of train and dev from those of eval.
_ONE_CHALLENGE = ("asvspoof19", "asvspoof19-pa", "partial-spoof")
_ONLY_EVAL = ("asvspoof21-la", "asvspoof21-df", "asvspoof21-pa")
# What the sets of the Arena are here.
_OF_ARENA = {
    "ASVspoof2019_LA": Chosen("asvspoof19", "eval"),
    "ASVspoof2019_PA": Chosen("asvspoof19-pa", "eval"),
    "ASVspoof2021_LA": Chosen("asvspoof21-la", "all"),
    "ASVspoof2021_DF": Chosen("asvspoof21-df", "all"),
    "ASVspoof5": Chosen("asvspoof5", "eval"),
    "InTheWild": Chosen("in-the-wild", ""),
    "CFAD": Chosen("cfad", ""),
    "DFADD": Chosen("dfadd", "test"),
    "ODSS": Chosen("odss", ""),
    "DECRO": Chosen("decro", ""),
}


def describe_overlaps(trained: Sequence[Chosen], scored: Sequence[Chosen]) -> list[str]:
    """Return a sentence for each of the `scored` that shares speech with one of the `trained`."""
    sentences: list[str] = []
    for training in trained:
        for evaluation in scored:
            sentences += _describe_pair(training, evaluation)
    return list(dict.fromkeys(sentences))


def describe_origin(key: str) -> str:
    """Return whose speech a corpus has, with the source of it; '' where it is not known."""
    origin = ORIGINS.get(_key_of(key))
    if origin is None:
        return ""
    return f"{', '.join(origin.speech)} (says {origin.source})"


def sharing(key: str) -> list[str]:
    """Return the corpora that share speech with one."""
    names = []
    for other in KNOWN:
        keys = {key, other}
        is_listed = any(keys == {_key(shared.one), _key(shared.other)} for shared in _SHARED)
        if other != key and (is_listed or _shared_speech(key, other)):
            names.append(other)
    return names


def _key(name: str) -> str:
    return name.split(":")[0]


def _describe_pair(training: Chosen, evaluation: Chosen) -> Iterator[str]:
    one, other = _resolved(training), _resolved(evaluation)
    if one == other and one.key in KNOWN and one.key not in ("arena", "parquet"):
        yield f"{evaluation.name} is trained on as {training.name}: its results are no test"
        return
    # Parts of one corpus are as far apart as its makers wanted them.
    parts = {_part_of(one), _part_of(other)}
    are_apart = "" not in parts and "eval" in parts and len(parts) > 1
    if one.key == other.key or are_apart:
        return
    beginning = f"{evaluation.name} shares speech with the training set {training.name}"
    for shared in _SHARED:
        names = (shared.one, shared.other)
        if any(all(map(_means, names, pair)) for pair in ((one, other), (other, one))):
            yield f"{beginning}: {shared.reason} (says {shared.source})"
            return
    speech = _shared_speech(one.key, other.key)
    if speech:
        source = ORIGINS[_key_of(other.key)].source
        yield f"{beginning}: both have that of {', '.join(speech)} (says {source})"


def _resolved(chosen: Chosen) -> Chosen:
    """Return what a set of the Arena is by its own name; others are returned as they are."""
    if chosen.key == "arena":
        return _OF_ARENA.get(chosen.subset, chosen)
    return chosen


def _means(name: str, chosen: Chosen) -> bool:
    key, _, subset = name.partition(":")
    return key == chosen.key and subset in ("", chosen.subset)


def _part_of(chosen: Chosen) -> str:
    """Return the part of ASVspoof 2019's speakers that a set has; '' for other corpora."""
    if chosen.key in _ONLY_EVAL:
        return "eval"
    return chosen.subset if chosen.key in _ONE_CHALLENGE else ""


def _shared_speech(one: str, other: str) -> list[str]:
    return sorted(_speech_of(one) & _speech_of(other))


def _speech_of(key: str) -> set[str]:
    origin = ORIGINS.get(_key_of(key))
    if origin is None:
        return set()
    return {_SAME_SPEECH.get(name, name) for name in origin.speech}


def _key_of(key: str) -> str:
    return "for" if key.startswith("for-") else key
