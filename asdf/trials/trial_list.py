"""Lists of trials: utterances, their labels, and columns with facts from their corpus.

Invariant: readers of lists, protocols and corpora return a `TrialList`, and training, scoring and
evaluation take one; labels are int8, and every column has a value per trial. An utterance is looked
up by id or by bare name (`flac/LA_0001.flac` and `LA_0001` are the same trial), since score files
of others use the bare names of protocols; trials that share a bare name are looked up only by full
id.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from asdf.arrays import AnyIntegers, Labels
from asdf.facts import AUDIO_SUFFIXES
from asdf.trials.packed_names import CodedColumn, Names

REFERENCE = "reference"
"""Column with the path of each trial's reference, relative to the list's folder; '' for none."""

LABELS = {"1": 1, "0": 0, "1.0": 1, "0.0": 0}
"""Labels as they are written; pandas writes those of a column with a gap as floats."""

UNLABELLED = -1
"""Label of a recording that is not known to be genuine or spoofed."""

_AT_ONCE = 1 << 16


class Origin(NamedTuple):
    """The location of the recordings of a list that is part of a joined one.

    Attributes:
        folder: Folder that their paths are relative to.
        prefix: Number of characters of a joined id before the path.
        corpus: Name of the part.
        vocoder: Vocoder through which its recordings are to be copied; '' for none.
    """

    folder: Path
    prefix: int
    corpus: str = ""
    vocoder: str = ""


@dataclass(frozen=True, eq=False)
class TrialList:
    """Trials of one corpus, or of several.

    Attributes:
        ids: Paths of recordings, or their names in a protocol.
        labels: Labels (trials,), 1 bona fide, 0 spoof; `UNLABELLED` only in training lists, for
            training steps that accept such recordings.
        columns: Further facts from the corpus, a value per trial: 'speaker', 'attack' ('-' for bona
            fide), and conditions of its own such as 'codec'; '' for unknown values.
        name: Name of the corpus.
        folder: Folder that `ids` are relative to, if they are paths and the list is not joined.
        origins: Origins of the parts of a joined list.
        origin: Index in `origins` of each trial of a joined list, (trials,) int16, since a path per
            trial would take more memory than everything else.

    Examples:
        >>> from pathlib import Path
        >>> from asdf.evaluation import TrialList
        >>> speakers = {"speaker": ["S1", "S2"]}
        >>> trials = TrialList(["a.flac", "b.flac"], [1, 0], columns=speakers, folder=Path("data"))
        >>> trials.path(1).as_posix(), trials.columns["speaker"][1], len(trials)
        ('data/b.flac', 'S2', 2)
    """

    ids: Sequence[str]
    labels: Labels
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict, kw_only=True)
    name: str = field(default="", kw_only=True)
    folder: Path = field(default=Path(), kw_only=True)
    origins: tuple[Origin, ...] = field(default=(), kw_only=True)
    origin: npt.NDArray[np.int16] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        # Callers may pass labels of any integer type, although the dataclass is frozen.
        object.__setattr__(self, "labels", np.asarray(self.labels, np.int8))
        of_trials: dict[str, Sized] = {"ids": self.ids, "labels": self.labels, **self.columns}
        sizes = {name: len(values) for name, values in of_trials.items()}
        if len(set(sizes.values())) > 1:
            raise ValueError(f"ids, labels and columns must have the same length, not {sizes}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def count_unlabelled(self) -> int:
        """The number of recordings without a label."""
        return int((self.labels == UNLABELLED).sum())

    def path(self, index: int) -> Path:
        """Return the path of the recording of a trial."""
        recording = self.ids[index]
        if self.origin is None:
            return self.folder / recording
        origin = self.origins[int(self.origin[index])]
        return origin.folder / recording[origin.prefix :]

    def folder_of(self, index: int) -> Path:
        """Return the folder that the paths of a trial's list are relative to."""
        return self.folder if self.origin is None else self.origins[int(self.origin[index])].folder

    def vocoder(self, index: int) -> str:
        """Return the vocoder through which the recording of a trial is copied; '' for none."""
        if self.origin is None:
            return ""
        return self.origins[int(self.origin[index])].vocoder

    def count_vocoded(self) -> dict[str, int]:
        """Return the number of copies by each vocoder; empty without copies."""
        counts: dict[str, int] = {}
        if self.origin is None:
            return counts
        trials_of_origin = np.bincount(self.origin, minlength=len(self.origins))
        for origin, trials in zip(self.origins, trials_of_origin.tolist(), strict=True):
            if origin.vocoder and trials:
                counts[origin.vocoder] = counts.get(origin.vocoder, 0) + trials
        return counts

    def select(self, indices: AnyIntegers) -> TrialList:
        """Return the trials at `indices`, in that order."""
        ids: Sequence[str] = values_at(self.ids, indices)
        # A list packed for forked processes is used in them and stays packed.
        if isinstance(self.ids, Names):
            ids = Names(ids)
        return TrialList(
            ids,
            self.labels[indices],
            columns={name: values_at(values, indices) for name, values in self.columns.items()},
            name=self.name,
            folder=self.folder,
            origins=self.origins,
            origin=None if self.origin is None else self.origin[indices],
        )

    def corpora(self) -> list[str]:
        """Return the corpus of each trial; in a joined list, the name of its part."""
        if self.origin is None:
            return [self.name] * len(self)
        return [self.origins[number].corpus for number in self.origin.tolist()]

    def packed(self) -> TrialList:
        """Return the trials in packed form without columns, for forked processes.

        See `asdf.trials.packed_names` for the savings.
        """
        ids = self.ids if isinstance(self.ids, Names) else Names(self.ids)
        return replace(self, ids=ids, columns={})

    def digest(self) -> str:
        """Return a digest of the content of the list.

        It does not depend on the location of the recordings, such as a node's local disk.
        """
        digest = hashlib.sha256()
        # In blocks, since ten million ids as Python objects take gigabytes.
        for start in range(0, len(self), _AT_ONCE):
            text = "\n".join(self.ids[start : start + _AT_ONCE])
            between = "\n" if start else ""
            # File names may contain bytes that are not UTF-8.
            digest.update(f"{between}{text}".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:16]

    def index_of(self, utterance: str) -> int | None:
        """Return the index of the trial with this id in any spelling, or with this bare name.

        Returns:
            Index; None if there is no such trial, or several have this bare name.
        """
        index = self.exact.get(utterance)
        if index is None:
            index = self._indices.get(same_recording(utterance))
        if index is None:
            index = self._indices.get(bare_name(utterance))
        return index

    @cached_property
    def exact(self) -> dict[str, int]:
        """The index of each id."""
        return dict(zip(self.ids, range(len(self)), strict=True))

    @cached_property
    def _indices(self) -> dict[str, int]:
        """The index of each path in one spelling, and of each bare name of a single trial."""
        names = list(map(bare_name, self.ids))
        indices = dict(zip(names, range(len(names)), strict=True))
        for name in {names[index] for index, _ in find_repeats(names)}:
            del indices[name]
        # Last, since one trial's path may be the bare name of another.
        indices.update(zip(map(same_recording, self.ids), range(len(names)), strict=True))
        return indices


def describe_labels(utterances: TrialList) -> str:
    """Return '13 bona fide, 13 spoof', and the number without labels, if any."""
    labels = utterances.labels
    text = f"{int((labels == 1).sum())} bona fide, {int((labels == 0).sum())} spoof"
    unlabelled = utterances.count_unlabelled
    return f"{text}, {unlabelled} without a label" if unlabelled else text


def known_speakers(speakers: Sequence[str]) -> Sequence[str] | None:
    """Return the speaker of each trial; None unless all are known and some differ."""
    # Intervals over the known speakers would leave out trials of the others.
    distinct = frozenset(speakers)
    return speakers if len(distinct) > 1 and distinct.isdisjoint(("", "-")) else None


def values_at(values: Sequence[str], indices: AnyIntegers) -> list[str]:
    """Return the values, one for each trial, of the trials at `indices`, in that order."""
    # Convert to Python integers, which index a list several times as fast as numpy's.
    return list(map(values.__getitem__, indices.tolist()))


def join(lists: Sequence[TrialList]) -> TrialList:
    """Join lists of several corpora into one; an id becomes `corpus:id`."""
    # Trials of lists without a column have '' there.
    names = dict.fromkeys(name for part in lists for name in part.columns)
    columns: dict[str, list[str]] = {name: [] for name in names}
    origins: list[Origin] = []
    origin = []
    for part in lists:
        for name, values in columns.items():
            values += part.columns.get(name, [""] * len(part))
        prefix = len(part.name) + 1
        if part.origin is None:
            origin.append(np.full(len(part), len(origins), np.int16))
            origins.append(Origin(part.folder, prefix, part.name))
        else:
            # For a list that is itself joined, the names of its parts are nested below its own.
            origin.append(part.origin + np.int16(len(origins)))
            for inner in part.origins:
                moved = inner._replace(prefix=prefix + inner.prefix, corpus=part.name)
                origins.append(moved)
    return TrialList(
        # A generator, since packed ids of millions of trials take a fraction of the memory of a
        # list.
        Names(f"{part.name}:{utterance}" for part in lists for utterance in part.ids),
        np.concatenate([part.labels for part in lists]),
        columns=columns,
        name="+".join(part.name for part in lists),
        origins=tuple(origins),
        origin=np.concatenate(origin),
    )


def bare_name(utterance: str) -> str:
    """Return `LA_0001` for `flac/LA_0001.flac`; only suffixes of recordings are removed."""
    name = utterance.replace("\\", "/").rsplit("/", 1)[-1]
    # Ten times as fast as a Path, for a million names.
    stem, dot, suffix = name.rpartition(".")
    if stem.strip(".") and f"{dot}{suffix.lower()}" in AUDIO_SUFFIXES:
        return stem
    return name


def same_recording(path: str) -> str:
    """Return the canonical spelling of a path: `a//b`, `./a/b`, `c/../a/b`, `a\\b` are `a/b`."""
    # Called for a million paths, of which hardly any needs a change.
    return posixpath.normpath(path.replace("\\", "/")) if _may_vary(path) else path


def _may_vary(path: str) -> bool:
    """Whether a path, or one of several in a text, may be spelled in another way too."""
    return "//" in path or "./" in path or "\\" in path


def all_differ(names: Iterable[str]) -> bool:
    """Whether no two names are equal; False also, almost never, for names that do differ."""
    # Their hashes take a fifth of the time and of the memory of a set.
    hashes = np.fromiter(map(hash, names), np.int64)
    hashes.sort()
    return bool((hashes[1:] != hashes[:-1]).all())


Repeats = list[tuple[int, int]]
"""Indices of repeated names, ascending, each with that of the first equal name."""


def find_repeats(names: Sequence[str]) -> Repeats:
    """Return the repeated names; [] if all differ."""
    if all_differ(names):
        return []
    first: dict[str, int] = {}
    pairs = [(index, first.setdefault(name, index)) for index, name in enumerate(names)]
    return [(index, earlier) for index, earlier in pairs if index != earlier]


def find_repeated_recordings(paths: Sequence[str]) -> Repeats:
    """Return the repeated paths, which may differ in their spelling."""
    for start in range(0, len(paths), _AT_ONCE):
        text = "\n".join(paths[start : start + _AT_ONCE])
        if _may_vary(text):
            return find_repeats(list(map(same_recording, paths)))
    return find_repeats(paths)


Arrays = dict[str, np.ndarray]

# A column whose distinct values exceed a quarter of its trials is stored as names.
_REPEATED = 4


@dataclass(frozen=True)
class ListRest:
    """The content of a packed list besides its arrays.

    Attributes:
        frame: List without trials that holds its name, folder and origins.
        values: Distinct values of each column; None for a column of names.
    """

    frame: TrialList
    values: Mapping[str, Sequence[str] | None]


def pack_list(trials: TrialList, **further: np.ndarray) -> tuple[Arrays, ListRest]:
    """Return a list as arrays, including `further` ones, and its remaining small content."""
    arrays: Arrays = {**further, "labels": trials.labels}
    _add_names(arrays, "ids", trials.ids)
    values: dict[str, Sequence[str] | None] = {}
    for number, (name, column) in enumerate(trials.columns.items()):
        numbers = {value: code for code, value in enumerate(dict.fromkeys(column))}
        if len(numbers) * _REPEATED > len(trials):
            values[name] = None
            _add_names(arrays, f"column {number}", column)
            continue
        values[name] = list(numbers)
        codes = map(numbers.__getitem__, column)
        # A byte per trial for most columns, which have few distinct values.
        smallest = np.min_scalar_type(len(numbers))
        arrays[f"column {number}"] = np.fromiter(codes, smallest, len(trials))
    if trials.origin is not None:
        arrays["origin"] = trials.origin
    none = trials.select(np.empty(0, np.int64))
    frame = replace(none, columns={}, origin=None)
    return arrays, ListRest(frame, values)


def unpack_list(arrays: Mapping[str, np.ndarray], rest: ListRest) -> TrialList:
    """Return the list that `pack_list` packed."""
    columns: dict[str, Sequence[str]] = {}
    for number, (name, values) in enumerate(rest.values.items()):
        if values is None:
            columns[name] = _names_of(arrays, f"column {number}")
        else:
            columns[name] = CodedColumn(values, arrays[f"column {number}"])
    return replace(
        rest.frame,
        ids=_names_of(arrays, "ids"),
        labels=arrays["labels"],
        columns=columns,
        origin=arrays.get("origin"),
    )


def _add_names(arrays: Arrays, name: str, names: Sequence[str]) -> None:
    packed = names if isinstance(names, Names) else Names(names)
    arrays[name] = packed.block
    arrays[f"{name}.ends"] = packed.ends


def _names_of(arrays: Mapping[str, np.ndarray], name: str) -> Names:
    return Names.of_arrays(arrays[name], arrays[f"{name}.ends"])
