"""Corpora with a label file per subset: a common reader, which finds columns by name.

Invariant: every line is a trial, and a word that means neither class is an error with its line,
never a spoof. Recordings are matched with lines by file name, with any suffix.
"""

from __future__ import annotations

import csv
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from asdf.corpora.known_corpus import (
    Reading,
    SubsetFiles,
    files_in,
    find_labels,
    is_recording,
    is_there,
)
from asdf.errors import AsdfError
from asdf.trials.label_words import label_of
from asdf.trials.table import TrialCollector
from asdf.trials.text_lines import NumberedLines
from asdf.trials.trees import Tree

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
