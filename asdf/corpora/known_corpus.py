"""Description of a public corpus, and the result of its reader.

Invariant: a reader accesses a corpus only through a `Tree`, and names its recordings as in the
tree, so the location of the corpus does not matter, nor whether it was unpacked.

Corpora with a label file per subset: a common reader, which finds columns by name.

Invariant: every line is a trial, and a word that means neither class is an error with its line,
never a spoof. Recordings are matched with lines by file name, with any suffix.
"""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES, Published
from asdf.places import folder_suffixes, is_container
from asdf.trials.label_words import Columns, label_of
from asdf.trials.lists import Tree, open_tree
from asdf.trials.table import TrialCollector
from asdf.trials.text_lines import NumberedLines
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True)
class Reading:
    """The result of a reader.

    Attributes:
        trials: Trials, whose ids are names in the tree.
        audio: Folders of the recordings.
        others: Names in the tree of recordings in other subsets of the label file.
        notes: Sentences for the user about this copy of the corpus.
    """

    trials: TrialList
    audio: Sequence[str] = ()
    others: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


class Origin(NamedTuple):
    """The source of a corpus's speech, with its reference."""

    speech: tuple[str, ...]
    source: str


class Taken(NamedTuple):
    """Reason why a corpus contains recordings of another one, with its reference."""

    reason: str
    source: str


ANTI_DEEPFAKE = "the table of sources in nii-yamagishilab/AntiDeepfake, protocols/README.md"
VCTK = Origin(("VCTK",), ANTI_DEEPFAKE)


@dataclass(frozen=True, kw_only=True)
class KnownCorpus:
    """A corpus as it is distributed, with all facts about it.

    Attributes:
        name: Name of the corpus in settings and commands.
        homepage, licence: Address of its distribution, and its licence if known.
        needs: Files that must be in its folder.
        folders: Folders below paths.database_folder in which it is expected; the first one with one
            of `marks` is used.
        marks: Files or folders that identify the corpus.
        read: Reader; its argument is one of `subsets`, any value of `subset_of`, or '' for
            everything.
        read_columns: Reader of a table whose columns may have any name, instead of `read`.
        subsets: Names of its subsets, if they are fixed.
        usual: Subset for which results are published.
        subset_of: Column whose values are subsets too: 'language', 'system'; a name without a
            subset then means everything.
        published: Numbers of trials, by subset ('' for everything); those that other rooms need are
            in `asdf.facts`.
        source: Source of these numbers.
        origin: Source of its speech, if published.
        taken: Corpora, or subsets of them, whose recordings it contains.
    """

    name: str
    title: str
    homepage: str
    licence: str = "see its page"
    needs: str
    folders: tuple[str, ...]
    marks: tuple[str, ...]
    read: Callable[[Tree, str], Reading]
    read_columns: Callable[[Tree, str, Columns], Reading] | None = None
    subsets: tuple[str, ...] = ()
    usual: str = ""
    subset_of: str = ""
    published: Mapping[str, Published] = field(default_factory=dict)
    source: str = ""
    origin: Origin | None = None
    taken: Mapping[str, Taken] = field(default_factory=dict)


@dataclass(frozen=True)
class SubsetFiles:
    """Paths of a subset, the most likely first.

    Attributes:
        labels: Possible names of its label file.
        audio: Possible folders of its recordings.
    """

    labels: tuple[str, ...]
    audio: tuple[str, ...]


def is_there(tree: Tree, name: str) -> bool:
    """Whether the tree has a file or folder `name`; folders on the path may be places."""
    # A place exists, even without recordings in it.
    if tree.exists(name):
        return True
    location = _locate(tree, name)
    # The name is empty if it is that of the place itself, which exists.
    return not location.name or location.tree.exists(location.name)


def first_there(tree: Tree, names: Iterable[str]) -> str | None:
    """Return the first of `names` that the tree has."""
    for name in names:
        if is_there(tree, name):
            return name
    return None


def find_labels(tree: Tree, names: Sequence[str], advice: str) -> str:
    """Return the first label file of `names` that the tree has.

    Raises:
        AsdfError: it has none.
    """
    name = first_there(tree, names)
    if name is None:
        raise AsdfError(f"{tree.root}: there is no {names[0]}. {advice}")
    return name


def recordings(tree: Tree, folder: str) -> list[str]:
    """Return the names of the audio files in `folder` and below it, sorted."""
    return [name for name in files_in(tree, folder) if is_recording(name)]


def files_in(tree: Tree, folder: str) -> list[str]:
    """Return the names of all files in `folder` and below it, sorted."""
    location = _locate(tree, folder)
    return [location.prefix + name for name in location.tree.files(location.name)]


def is_recording(name: str) -> bool:
    """Whether a file with this name contains speech."""
    # For a name without a dot this is the last character, which is not a suffix.
    return name[name.rfind(".") :].lower() in AUDIO_SUFFIXES


class _Location(NamedTuple):
    """The target of a name in a tree: in the tree itself, or in an archive used as a folder.

    Attributes:
        prefix: Prefix of the names of `tree` in the outer tree.
        name: Name in `tree`.
    """

    tree: Tree
    prefix: str
    name: str


def _locate(tree: Tree, name: str) -> _Location:
    parts = name.split("/")
    for depth in range(1, len(parts) + 1):
        folder = "/".join(parts[:depth])
        # A folder may have such a name, too.
        is_archive = is_container(folder) and tree.path(folder).is_file()
        if tree.exists(folder) and not is_archive:
            continue
        if is_archive or any(tree.exists(folder + suffix) for suffix in folder_suffixes()):
            inner = "/".join(parts[depth:])
            return _Location(open_tree(tree.path(folder)), f"{folder}/", inner)
        # Neither a folder nor a place: nothing below it can exist, as `tree` will report.
        break
    return _Location(tree, "", name)


def with_files(
    trials: TrialList, tree: Tree, folders: Sequence[str], suffix: str = ".flac"
) -> TrialList:
    """Return `trials` with the names of their recordings in `folders`, with any suffix.

    A missing recording is named UTT with `suffix` in the first folder. If several recordings have
    the same name, the one in the first folder is used: an archive may remain next to its unpacked
    files.
    """
    names: dict[str, str] = {}
    # The first folder comes last, and overrides equal names in the others.
    for folder in reversed(folders):
        for name in recordings(tree, folder):
            utterance = name[name.rfind("/") + 1 : name.rfind(".")]
            names[utterance] = name
    ids = []
    for utterance in trials.ids:
        ids.append(names.get(utterance) or join_name(folders[0], f"{utterance}{suffix}"))
    return replace(trials, ids=ids)


def join_name(folder: str, name: str) -> str:
    """Return the path of `name` in `folder` of a tree; either may be '', the root."""
    if not folder or not name:
        return folder or name
    return f"{folder}/{name}"


_OF_SPOOFS = ("attack", "vocoder")
_NOT_COLUMNS = ("", "utterance", "key")

Row = dict[str, str]


@dataclass(frozen=True)
class Format:
    """The format of a label file.

    Attributes:
        columns: Columns, including 'utterance' and 'key'. For lines separated by white space, their
            names in order, '' for unused ones; for a csv with a header, the names used here.
            Alternative names of one column are allowed.
        keys: Meanings of the key's words, 1 bona fide, 0 spoof, None: the line is skipped; other
            words are those of `label_of`.
        attacks: Names used here for the values of the column 'attack'. Without that column, attacks
            follow from the keys.
        suffix: Suffix of the recordings, if the file omits it.
        is_in: Function that returns whether a row belongs to a subset.
        match: Function that returns the part of a path that identifies a line; None: the file name.
    """

    columns: Sequence[str] | Mapping[str, str]
    keys: Mapping[str, int | None] = field(default_factory=dict)
    attacks: Mapping[str, str] = field(default_factory=dict)
    suffix: str = ""
    is_in: Callable[[Row, str], bool] | None = None
    match: Callable[[str], str] | None = None

    def names(self) -> list[str]:
        """Return the names of the columns of the list of trials."""
        names = self.columns.values() if isinstance(self.columns, Mapping) else self.columns
        if self.attacks and "attack" not in names:
            names = [*names, "attack"]
        # Alternative names of one column stand for the same column.
        return [name for name in dict.fromkeys(names) if name not in _NOT_COLUMNS]

    def label(self, word: str) -> int | None:
        """Return the label of a key, None if its line is skipped.

        Raises:
            KeyError: the key means neither class.
        """
        word = word.lower()
        if word in self.keys:
            return self.keys[word]
        label = label_of(word)
        if label is None:
            raise KeyError(word)
        return label

    def values(self, row: Row, label: int) -> list[str]:
        """Return the values of the columns."""
        values = []
        for name in self.names():
            # Without a column of attacks, the keys are attacks, as in track 3 of ADD 2023.
            value = row.get(name, row["key"])
            if name == "attack":
                value = self.attacks.get(value, value)
            # Some files have 'bonafide' or 'a00' there.
            values.append("-" if label == 1 and name in _OF_SPOOFS else value)
        return values


@dataclass(frozen=True)
class Lists:
    """The label files of a corpus: their format, their paths, and advice if there is none."""

    format: Format
    files: Mapping[str, SubsetFiles]
    advice: str

    def read(self, tree: Tree, subset: str) -> Reading:
        """Read a subset of a corpus.

        Raises:
            AsdfError: its label file does not exist, or a line is malformed.
        """
        files = self.files[subset]
        name = find_labels(tree, files.labels, self.advice)
        existing = tuple(folder for folder in files.audio if is_there(tree, folder))
        # Without any, recordings are reported as missing at their usual paths.
        audio = existing[:1] or files.audio[:1]
        collector = TrialCollector(tree.path(name), self.format.names())
        left_out = []
        for number, row in _rows(self.format, tree.lines(name), tree.path(name)):
            if self.format.is_in is not None and not self.format.is_in(row, subset):
                continue
            try:
                label = self.format.label(row["key"])
            except KeyError:
                raise AsdfError(
                    f"{tree.path(name)}, line {number}: {row['key']!r} means neither bona fide nor "
                    "spoof. Is it the corpus's own label file?"
                ) from None
            if label is None:
                left_out.append(row["utterance"])
            else:
                collector.add(number, row["utterance"], label, self.format.values(row, label))
        trials = collector.trials()
        paths = _Paths(self.format, tree, audio[0])
        trials = replace(trials, ids=[paths.find(utterance) for utterance in trials.ids])
        notes = []
        if left_out:
            notes.append(
                f"lines of neither class, left out: {len(left_out)}, such as {left_out[0]}"
            )
        # They are on the disk, and would be reported there as unnamed.
        others = [paths.find(utterance) for utterance in left_out]
        return Reading(trials, audio=audio, others=frozenset(others), notes=notes)


def _rows(form: Format, lines: NumberedLines, path: Path) -> Iterator[tuple[int, Row]]:
    """Yield the number and the columns of each line.

    Raises:
        AsdfError: a line has too few or too many columns, or a csv lacks one.
    """
    if isinstance(form.columns, Mapping):
        yield from _rows_of_csv(form.columns, lines, path)
        return
    for number, line in lines:
        cells = line.split()
        if len(cells) != len(form.columns):
            shape = " ".join(name.upper() or "-" for name in form.columns)
            raise AsdfError(
                f"{path}, line {number}: expected '{shape}', found {line.strip()[:120]!r}."
            )
        yield number, dict(zip(form.columns, cells, strict=True))


def _rows_of_csv(
    columns: Mapping[str, str], lines: NumberedLines, path: Path
) -> Iterator[tuple[int, Row]]:
    positions: dict[str, int] = {}
    for number, line in lines:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if not positions:
            positions = _positions(columns, cells, path, number)
            continue
        if len(cells) <= max(positions.values()):
            raise AsdfError(
                f"{path}, line {number}: it has {len(cells)} columns, fewer than the header."
            )
        yield number, {name: cells[position] for name, position in positions.items()}


def _positions(
    columns: Mapping[str, str], header: Sequence[str], path: Path, number: int
) -> dict[str, int]:
    lowered = [cell.lower() for cell in header]
    positions = {}
    for theirs, ours in columns.items():
        if theirs.lower() in lowered:
            positions[ours] = lowered.index(theirs.lower())
    missing = [theirs for theirs, ours in columns.items() if ours not in positions]
    if missing:
        raise AsdfError(
            f"{path}, line {number}: it has no column {', '.join(missing)}, but "
            f"{', '.join(header)}."
        )
    return positions


class _Paths:
    """The recordings of a folder, by the part that identifies a line of a label file."""

    def __init__(self, form: Format, tree: Tree, folder: str) -> None:
        self._folder = folder
        self._suffix = form.suffix
        self._match = form.match or posixpath.basename
        self._names: dict[str, str] = {}
        self._stems: dict[str, str] = {}
        for name in files_in(tree, folder):
            key = self._match(name)
            self._names[key] = name
            if is_recording(name):
                self._stems[_stem(key)] = name

    def find(self, utterance: str) -> str:
        """Return the name of a recording in the tree, even if it does not exist."""
        key = self._match(utterance)
        # The exact name first, since several recordings may differ only in their suffix.
        name = self._names.get(key) or self._stems.get(_stem(key))
        # The folder is '' if the recordings are below the root.
        return name or f"{self._folder}/{utterance}{self._suffix}".lstrip("/")


def _stem(name: str) -> str:
    # A dot in a name without a suffix is a part of the name.
    return posixpath.splitext(name)[0] if is_recording(name) else name
