"""Public corpora by name: `corpus` or `corpus:subset`.

Invariant: a name means a single list of trials. A corpus with several subsets requires one in the
name, so that no result on all of its trials is compared with published ones on a part.

A network cannot be tested on its training speech. Only published facts on speech that corpora share
are used, from their `origin` and `taken`. They concern corpora, not recordings: speech shared by a
training set and an evaluation set is a warning, and may be the purpose of the experiment.

Other names state a location, `folder:PATH:SPLIT`, or a part, `asvspoof19~0.1~3`: they contain
everything that is needed to read the data, so that a config and a command line can use data not
declared in run.py. A part depends only on the name, which includes its seed. It has the same
proportions of each class and attack as the whole, and a smaller part with the same seed is
contained in a larger one. Data that extras read are named as folders, as their `LOCATED` says.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property
from importlib import import_module
from itertools import chain, product
from pathlib import Path
from pkgutil import iter_modules

import numpy as np

from asdf.corpora import sets
from asdf.corpora.known_corpus import KnownCorpus, Reading, Taken, first_there, is_there
from asdf.errors import AsdfError, UsageError
from asdf.places import folder_name
from asdf.ports import provided
from asdf.trials.label_words import Columns
from asdf.trials.lists import Tree, open_tree
from asdf.trials.trial_list import TrialList


class _Known(Mapping[str, KnownCorpus]):
    """The corpora of all files in the folder `sets` and of the extras, sorted by name.

    The files are imported when the first corpus is looked for, which some commands never do.
    """

    @cached_property
    def _corpora(self) -> dict[str, KnownCorpus]:
        corpora = {}
        own = [f"{sets.__name__}.{file.name}" for file in iter_modules(sets.__path__)]
        for name in (*own, *provided("CORPORA")):
            for value in vars(import_module(name)).values():
                if isinstance(value, KnownCorpus):
                    corpora[value.name] = value
        return dict(sorted(corpora.items()))

    def __getitem__(self, name: str) -> KnownCorpus:
        return self._corpora[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._corpora)

    def __len__(self) -> int:
        return len(self._corpora)


KNOWN = _Known()
_SHOWN = 5

ALIASES = {
    "asvspoof19": "asvspoof19:train",
    "asvspoof19-dev": "asvspoof19:dev",
    "asvspoof19-eval": "asvspoof19:eval",
    "asvspoof21-la-progress": "asvspoof21-la:progress",
    "asvspoof21-la-eval": "asvspoof21-la:eval",
    "asvspoof21-df-progress": "asvspoof21-df:progress",
    "asvspoof21-df-eval": "asvspoof21-df:eval",
    "itw": "in-the-wild",
    "for": "for:training",
    "for-validation": "for:validation",
    "for-testing": "for:testing",
}
"""Names of corpora in the original framework's recipe."""


FOLDER = "folder"


@dataclass(frozen=True)
class Located:
    """A parsed name.

    Attributes:
        kind: Kind of the location.
        where: Path of a folder, of shards or manifests, or name of a data set on the hub with its
            revision, if any.
        split: Name of the split; '' for everything.
        columns: Names of columns and values, given after a '?'.
    """

    kind: str
    where: str
    split: str = ""
    columns: Columns = field(default_factory=Columns)


def parse_located(name: str) -> Located | None:
    """Parse a name such as `folder:my/data:train`; return None for names of other kinds.

    Raises:
        UsageError: it has such a prefix, but no folder or data set.
    """
    kind, sign, rest = name.partition(":")
    located = provided("LOCATED")
    if not sign or (kind != FOLDER and kind not in located):
        return None
    # The whole of other names is a path, which may contain a ':'.
    has_split = kind == FOLDER or located[kind][1]
    # First, since a value after the '?' may contain a ':'.
    rest, _, query = rest.partition("?")
    where, _, split = rest.partition(":") if has_split else (rest, "", "")
    if not where or ":" in split:
        shape = f"{kind}:PATH or {kind}:PATH:SPLIT" if has_split else f"{kind}:PATH"
        if kind == "hub":
            shape = "hub:ORG/NAME or hub:ORG/NAME:SPLIT, with @REVISION after NAME"
        raise UsageError(f"{name!r}: write {shape}, followed, if needed, by ?label=COLUMN.")
    names = {}
    for word in query.split(",") if query else ():
        ours, _, theirs = word.partition("=")
        if not ours or not theirs:
            raise UsageError(
                f"{name!r}: after the '?', name the columns and the value that is bona fide: "
                "?label=COLUMN,speaker=COLUMN,bona_fide=VALUE."
            )
        names[ours] = theirs
    bona_fide = names.pop("bona_fide", "")
    return Located(kind, where.rstrip("/") or "/", split, Columns(names, bona_fide))


_SIGN = "~"
_PART = re.compile(r"(\d+(?:\.\d+)?)(?:~(\d{1,9}))?")


@dataclass(frozen=True)
class StatedPart:
    """The size of a part of a corpus.

    Attributes:
        amount: Proportion of its trials if below 1, else their number.
    """

    amount: float
    seed: int = 0

    def of(self, trials: TrialList) -> TrialList:
        """Return the part of a list, in its order and with its name.

        Each class and attack keeps its proportion, and at least one trial.

        Raises:
            UsageError: the list has too few trials.
        """
        if self.amount > len(trials):
            raise UsageError(
                f"{trials.name}: {self.amount:g} trials were requested of {len(trials):,}."
            )

        def rank(index: int) -> bytes:
            """Return a sort key of a trial, independent of other trials and of their order."""
            # Not hash(), which differs from process to process. Names of files need not be valid
            # UTF-8.
            text = f"{self.seed}:{trials.ids[index]}"
            return hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest()

        share = self.amount if self.amount < 1 else self.amount / len(trials)
        attacks = trials.columns.get("attack") or [""] * len(trials)
        strata: dict[tuple[int, str], list[int]] = defaultdict(list)
        for index, stratum in enumerate(zip(trials.labels.tolist(), attacks, strict=True)):
            strata[stratum].append(index)
        chosen: list[int] = []
        for indices in strata.values():
            # Ranked, not drawn: the first of a larger part are those of a smaller one.
            chosen += sorted(indices, key=rank)[: max(1, round(share * len(indices)))]
        return trials.select(np.array(sorted(chosen)))


def parse_part(name: str) -> tuple[str, StatedPart | None]:
    """Return the name of a corpus, and the part of it in a name; None for all of it.

    Raises:
        UsageError: the text after the '~' is not a proportion, a number or a seed.
    """
    whole, sign, text = name.partition(_SIGN)
    if not sign:
        return name, None
    match = _PART.fullmatch(text)
    amount = float(match.group(1)) if match else 0.0
    is_amount = 0 < amount < 1 or amount == int(amount) > 0
    if match is None or not whole or not is_amount:
        raise UsageError(
            f"{name!r}: after '~', state a share of the corpus such as 0.1 or a number of trials "
            "such as 2000, and after another '~' the seed, as in 'asvspoof19~0.1~3'."
        )
    return whole, StatedPart(amount, int(match.group(2) or 0))


@dataclass(frozen=True)
class Chosen:
    """A corpus and its subset in a name; '' for everything."""

    key: str
    subset: str

    @property
    def corpus(self) -> KnownCorpus:
        return KNOWN[self.key]

    @property
    def name(self) -> str:
        return f"{self.key}:{self.subset}" if self.subset else self.key


def is_known(name: str) -> bool:
    """Whether `name`, with or without a subset, begins with the name of a known corpus."""
    return name.split(":", 1)[0] in {*KNOWN, *ALIASES}


def known_names() -> list[str]:
    """Return every name that means a single list, for hints.

    Subsets that depend on the user's copy of a corpus are left out.
    """
    names = list(ALIASES)
    for key, corpus in KNOWN.items():
        names += [f"{key}:{subset}" for subset in corpus.subsets] or [key]
    return names


def choose(name: str) -> Chosen:
    """Return the corpus and subset of a name.

    Raises:
        UsageError: the corpus or the subset does not exist, or a subset is missing; the message
            lists the existing ones.
    """
    if (located := parse_located(name)) is not None:
        return Chosen(located.kind, name.partition(":")[2])
    # Aliases first: in recipes of the original, `asvspoof19` and `for` are the training sets.
    key, _, subset = ALIASES.get(name, name).partition(":")
    if key not in KNOWN:
        # In the spelling of papers, 'AT-ADD': a corpus with several tracks is found by its prefix.
        wanted = name.lower()
        near = [known for known in KNOWN if known.startswith(wanted)]
        near = near or get_close_matches(wanted, known_names(), n=1)
        hint = f"There are {', '.join(KNOWN)}."
        if near:
            hint = f"Did you mean {' or '.join(map(repr, near[:_SHOWN]))}?"
        raise UsageError(f"there is no corpus {name!r}. {hint}")
    corpus = KNOWN[key]
    if corpus.subsets and subset not in corpus.subsets:
        problem = f"{key} has subsets, but {name!r} names none"
        if subset:
            problem = f"{key} has no subset {subset!r}"
        near = get_close_matches(subset, corpus.subsets, n=1)
        hint = f"Did you mean {key}:{near[0]}? " if near else ""
        raise UsageError(
            f"{problem}. {hint}There are {', '.join(f'{key}:{known}' for known in corpus.subsets)};"
            f" published numbers are of {key}:{corpus.usual}."
        )
    if subset and not corpus.subsets and not corpus.subset_of:
        raise UsageError(f"{key} has no subsets: name it without ':{subset}'.")
    # It is the name of a folder, and part of file names.
    if subset.startswith(".") or "/" in subset:
        raise UsageError(
            f"{name!r}: a {corpus.subset_of} must be the name of one folder, without '/' or a "
            "leading '.'."
        )
    return Chosen(key, subset)


def find_tree(corpus: KnownCorpus, folder: Path, itself: bool = False) -> Tree:
    """Return the tree of a corpus somewhere in `folder`.

    Args:
        itself: Whether the corpus may also be `folder` itself, or contain `folder`.

    Raises:
        AsdfError: it does not exist; the message lists all paths that were tried.
    """
    base = open_tree(folder)
    # First, if the user names a folder of the corpus: that folder is meant, whatever it contains.
    paths = dict.fromkeys([*([""] if itself else []), *corpus.folders])
    for path in paths:
        if path and not is_there(base, path):
            continue
        tree = open_tree(folder / path) if path else base
        # Without marks any folder is accepted: the reader reports what is missing.
        if not corpus.marks or first_there(tree, corpus.marks):
            return tree
    # The folder, or a file that stands for it, may identify the corpus, such as for-norm. It must
    # not be the folder of one language or system, which would stand for all of them.
    inside = folder_name(folder.absolute().name) + "/"
    marks = [f"{mark}/" for mark in corpus.marks if itself and not corpus.subset_of]
    inner = [mark.removeprefix(inside).rstrip("/") for mark in marks if mark.startswith(inside)]
    if first_there(base, inner) is not None:
        # Absolute, because the parent of '.' would be '.' again.
        return open_tree(folder.absolute().parent)
    tried = ", ".join(str(folder / path) for path in paths)
    raise AsdfError(
        f"{corpus.title} is not in {folder}: it needs {corpus.needs}. Looked in {tried}. Check "
        f"paths.database_folder, or get the corpus from {corpus.homepage}."
    )


def read_known(chosen: Chosen, tree: Tree, name: str = "") -> tuple[TrialList, Reading]:
    """Return the chosen list, with the result of the reader.

    Raises:
        AsdfError: a label file or the recordings do not exist, or are malformed.
    """
    reading = chosen.corpus.read(tree, chosen.subset)
    return as_list(reading.trials, tree, name or chosen.name), reading


def as_list(trials: TrialList, tree: Tree, name: str) -> TrialList:
    """Return trials whose ids are names in `tree` as a list of recordings."""
    if not len(trials):
        raise AsdfError(f"{tree.root}: {name} has no trials. Was the corpus unpacked completely?")
    return replace(trials, name=name, folder=tree.root)


def differences(chosen: Chosen, labels: np.ndarray) -> list[str]:
    """Return a sentence if the numbers of trials differ from the published ones, if known.

    Args:
        labels: Labels of the trials, (N,), 1 bona fide, 0 spoof.
    """
    published = chosen.corpus.published.get(chosen.subset)
    if published is None:
        return []
    # For some sets only the total number of trials is published.
    excess = {"": len(labels) - published.trials}
    if published.bona_fide is not None:
        excess = {
            " bona fide": int((labels == 1).sum()) - published.bona_fide,
            " spoof": int((labels == 0).sum()) - (published.spoof or 0),
        }
    parts = [
        f"{abs(number):,}{kind} {'missing' if number < 0 else 'too many'}"
        for kind, number in excess.items()
        if number
    ]
    start = f"{chosen.name} has {len(labels):,} trials, published {published.trials:,}"
    return [f"{start}: {', '.join(parts)}"] if parts else []


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
    return list(dict.fromkeys(chain.from_iterable(_describe_pair(*pair) for pair in pairs)))


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
    if speech := _shared_speech(one.key, other.key):
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


def _shared_speech(*keys: str) -> list[str]:
    speech = []
    for origin in (KNOWN[key].origin for key in keys):
        names = () if origin is None else origin.speech
        speech.append({_SAME_SPEECH.get(name, name) for name in names})
    return sorted(set.intersection(*speech))
