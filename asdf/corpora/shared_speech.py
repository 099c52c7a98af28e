"""Speech shared between corpora: a network cannot be tested on its training speech.

Invariant: only published facts are used, from the corpora's `origin` and `taken`. They concern
corpora, not recordings: speech shared by a training set and an evaluation set is a warning, and may
be the purpose of the experiment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, product, starmap

from asdf.corpora.known_corpus import Taken
from asdf.corpora.registry import KNOWN, Chosen

# LibriTTS was cut from the recordings of LibriSpeech.
_SAME_SPEECH = {"LibriTTS": "LibriSpeech"}

# The challenges separate their speakers: those of train and dev from those of eval.
_ONE_CHALLENGE = ("asvspoof19", "asvspoof19-pa", "partial-spoof")
_ONLY_EVAL = ("asvspoof21-la", "asvspoof21-df", "asvspoof21-pa")
# Sets of the Arena, with the corpora used here.
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
    pairs = product(trained, scored)
    return list(dict.fromkeys(chain.from_iterable(starmap(_describe_pair, pairs))))


def describe_origin(key: str) -> str:
    """Return the source of a corpus's speech, with its reference; '' if unknown."""
    origin = KNOWN[key].origin
    if origin is None:
        return ""
    return f"{', '.join(origin.speech)} (according to {origin.source})"


def sharing(key: str) -> list[str]:
    """Return the corpora that share speech with a corpus."""
    # Of any subset.
    taken_from = {name.split(":")[0] for name in KNOWN[key].taken}
    names = []
    for other, corpus in KNOWN.items():
        is_taken = other in taken_from or key in {name.split(":")[0] for name in corpus.taken}
        if other != key and (is_taken or _shared_speech(key, other)):
            names.append(other)
    return names


def _describe_pair(training: Chosen, evaluation: Chosen) -> Iterator[str]:
    one, other = _resolved(training), _resolved(evaluation)
    if one == other and one.key in KNOWN and one.key not in ("arena", "parquet"):
        yield f"{evaluation.name} is trained on as {training.name}: its results are not a test"
        return
    # Parts of one corpus are as independent as its authors intended.
    parts = {_part_of(one), _part_of(other)}
    are_apart = "" not in parts and "eval" in parts and len(parts) > 1
    if one.key == other.key or are_apart:
        return
    beginning = f"{evaluation.name} shares speech with the training set {training.name}"
    taken = _taken(one, other) or _taken(other, one)
    if taken:
        yield f"{beginning}: {taken.reason} (according to {taken.source})"
        return
    speech = _shared_speech(one.key, other.key)
    if speech:
        origin = KNOWN[other.key].origin
        assert origin is not None  # it has speech of it
        yield f"{beginning}: both have speech of {', '.join(speech)} (according to {origin.source})"


def _resolved(chosen: Chosen) -> Chosen:
    """Return the original set of a set of the Arena; other sets are returned unchanged."""
    return _OF_ARENA.get(chosen.subset, chosen) if chosen.key == "arena" else chosen


def _taken(holder: Chosen, other: Chosen) -> Taken | None:
    """Return why `holder` has recordings of the other set, or of its whole corpus."""
    taken = KNOWN[holder.key].taken
    return taken.get(other.name) or taken.get(other.key)


def _part_of(chosen: Chosen) -> str:
    """Return the part of ASVspoof 2019's speakers in a set; '' for other corpora."""
    if chosen.key in _ONLY_EVAL:
        return "eval"
    return chosen.subset if chosen.key in _ONE_CHALLENGE else ""


def _shared_speech(one: str, other: str) -> list[str]:
    return sorted(_speech_of(one) & _speech_of(other))


def _speech_of(key: str) -> set[str]:
    origin = KNOWN[key].origin
    speech = () if origin is None else origin.speech
    return {_SAME_SPEECH.get(name, name) for name in speech}
