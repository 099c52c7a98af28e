"""Tables of recordings with any header: cells separated by commas, semicolons, bars or TABs.

Invariant: the columns of paths and labels are detected, by name or content, only if a single column
can be meant. Otherwise the message lists the columns with a value of each, and the option that
names them.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES
from asdf.text import shorten
from asdf.trials.label_words import Columns, are_labels, labels_of_values, plain_word
from asdf.trials.table import TrialCollector
from asdf.trials.text_lines import NumberedLines
from asdf.trials.trial_list import TrialList

OUR_PATHS = ("path", "file_name")
"""Names of columns of paths in our own csv files, and in the `metadata.csv` of audio folders."""

PATHS = (
    *("path", "filename", "file", "filepath", "audio", "audiopath", "audiofile", "audiofilepath"),
    *("wav", "wavpath", "wavfile", "recording", "clip", "relativepath", "location", "uri"),
    *("utterance", "utteranceid", "utt", "id", "name", "fname"),
)
"""Usual names of columns of paths, the likeliest first; in lower case, without separators."""

LABELS = (
    *("label", "labels", "class", "key", "target", "truth", "groundtruth", "category", "type"),
    *("isfake", "isspoof", "isdeepfake", "issynthetic", "isgenerated", "fake", "spoof", "deepfake"),
    *("isreal", "isbonafide", "isgenuine", "real", "bonafide", "genuine", "authenticity"),
)
SPEAKERS = ("speaker", "speakerid", "spk", "spkid", "speakername")
ATTACKS = ("attack", "attackid", "attacktype", "generator", "algorithm", "synthesizer", "tool")
# Our names of columns; all others keep their names.
_OURS = {**dict.fromkeys(SPEAKERS, "speaker"), **dict.fromkeys(ATTACKS, "attack")}
_DELIMITERS = (",", "\t", ";", "|")
# Number of rows examined to find out what a column holds.
_LOOKED_AT = 200
_OF_SPOOFS = ("attack", "vocoder")


@dataclass(frozen=True)
class _Table:
    """The cells of a table.

    Attributes:
        header: Names of the columns; numbers from 1 if the file has no header.
        numbers: Line number of each row.
    """

    path: Path
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: Sequence[int]

    def column(self, index: int) -> list[str]:
        return [row[index] for row in self.rows]

    def first_values(self, index: int) -> list[str]:
        """Return the values of the first rows that are not empty."""
        values = (row[index] for row in self.rows[:_LOOKED_AT])
        return [value for value in values if value]

    def our_names(self, columns: Columns) -> list[str]:
        """Return our name of each column."""
        theirs = {}
        for ours, name in columns.names.items():
            theirs[name] = ours
        names = []
        for name in self.header:
            names.append(theirs.get(name, our_name(name)))
        return names

    def describe(self) -> str:
        """Return a list of the columns, each with its first value."""
        shown = []
        for index, name in enumerate(self.header):
            values = self.first_values(index)
            example = f" ({shorten(values[0], 40)})" if values else " (empty)"
            shown.append(f"{name}{example}")
        return ", ".join(shown)


def delimiter_of(first_line: str) -> str:
    """Return the delimiter of a table with this first line; '' if there is none."""
    best = ""
    most = 1
    for delimiter in _DELIMITERS:
        cells = len(_cells(first_line, delimiter))
        if cells > most:
            best = delimiter
            most = cells
    return best


def parse_any_table(lines: NumberedLines, path: Path, columns: Columns | None = None) -> TrialList:
    """Read the lines of a table of recordings and labels with any names of columns.

    Args:
        columns: Names of columns, and values that mean bona fide, if the file does not show them.

    Raises:
        AsdfError: a column cannot be determined, a row has another number of cells, or a label has
            no meaning; the message says what was found, and how to specify it.
    """
    columns = columns or Columns()
    table = _read(lines, path)
    utterance = _find_paths(table, columns)
    label = _find_labels(table, columns, utterance)
    words = table.column(label)
    bona_fide = columns.bona_fide_values
    if not bona_fide and is_our_csv(table.header) and set(words) <= {"0", "1"}:
        bona_fide = frozenset("1")
    labels = labels_of_values(table.header[label], words, str(path), bona_fide)
    others: dict[str, int] = {}
    for index, ours in enumerate(table.our_names(columns)):
        # Several columns may have one of our names; the first is taken.
        is_free = ours not in ("", "utterance", "label", *others)
        if is_free and index not in (utterance, label):
            others[ours] = index
    collector = TrialCollector(path, list(others))
    for number, row, value in zip(table.numbers, table.rows, labels, strict=True):
        cells = []
        for name, index in others.items():
            has_none = value == 1 and name in _OF_SPOOFS
            # TABs would break tables of trials.
            cells.append("-" if has_none else " ".join(row[index].split()))
        if not row[utterance]:
            raise AsdfError(f"{path}, line {number}: the {table.header[utterance]} is empty.")
        collector.add(number, row[utterance], value, cells)
    return collector.trials()


def is_our_csv(header: Sequence[str]) -> bool:
    """Whether a csv has the columns of one of our lists, in which 1 is bona fide."""
    names = [name.lower() for name in header]
    return "label" in names and any(name in names for name in OUR_PATHS)


def parse_columns(
    lines: NumberedLines, path: Path, columns: Columns | None = None
) -> dict[str, dict[str, str]]:
    """Return the values of each recording in a table, by path; labels are words.

    Raises:
        AsdfError: the column of paths cannot be determined, or a row is malformed.
    """
    columns = columns or Columns()
    table = _read(lines, path)
    utterance = _find_paths(table, columns)
    names = table.our_names(columns)
    entries = {}
    for row in table.rows:
        entry = {}
        for index, ours in enumerate(names):
            if index != utterance:
                entry[ours] = " ".join(row[index].split())
        entries[row[utterance]] = entry
    return entries


def _read(lines: NumberedLines, path: Path) -> _Table:
    """Read all cells.

    Raises:
        AsdfError: there is no row, no delimiter, or rows differ in length.
    """
    numbers: list[int] = []
    rows: list[list[str]] = []
    delimiter = ""
    for number, line in lines:
        if not rows:
            delimiter = delimiter_of(line)
        cells = _cells(line, delimiter) if delimiter else [line.strip()]
        if rows and len(cells) != len(rows[0]):
            raise AsdfError(
                f"{path}, line {number}: it has {len(cells)} cells, but the first line has "
                f"{len(rows[0])}: {shorten(line.strip(), 120)!r}. A cell that holds {delimiter!r} "
                "needs double quotes around it."
            )
        numbers.append(number)
        rows.append(cells)
    if not rows:
        raise AsdfError(f"{path}: no trials found. Was it copied completely?")
    header = rows[0]
    if _is_header(header):
        return _Table(path, header, rows[1:], numbers[1:])
    return _Table(path, [str(index + 1) for index in range(len(header))], rows, numbers)


def _cells(line: str, delimiter: str) -> list[str]:
    cells = next(csv.reader([line], delimiter=delimiter), [])
    return [cell.strip() for cell in cells]


def _is_header(cells: Sequence[str]) -> bool:
    """Whether these are column names: distinct, and neither recordings nor numbers."""
    has_values = any(_is_recording(cell) or cell in ("0", "1") for cell in cells)
    return not has_values and len({cell.lower() for cell in cells}) == len(cells)


def _find_paths(table: _Table, columns: Columns) -> int:
    """Return the index of the column of paths."""
    if "path" in columns.names:
        return _named(table, columns.names["path"])
    named = _by_name(table.header, PATHS)
    holding = []
    for index in range(len(table.header)):
        values = table.first_values(index)
        if values and all(map(_is_recording, values)):
            holding.append(index)
    for index in named:
        # The first by name, since a table of paths often has file names as well.
        if index in holding or not holding:
            return index
    if len(holding) == 1:
        return holding[0]
    problem = "several columns hold recordings" if holding else "no column holds recordings"
    raise AsdfError(
        f"{table.path}: {problem}. Columns and the first value of each: {table.describe()}. Name "
        "the right one: python -m asdf lists FILE --columns path=NAME, or Corpus(..., "
        "columns={'path': 'NAME'}) in run.py."
    )


def _find_labels(table: _Table, columns: Columns, utterance: int) -> int:
    """Return the index of the column of labels."""
    if "label" in columns.names:
        return _named(table, columns.names["label"])
    values = [table.first_values(index) for index in range(len(table.header))]
    likely = likely_labels(table.header, values, utterance)
    if len(likely) == 1:
        return likely[0]
    problem = "no column holds labels of the two classes"
    if likely:
        names = ", ".join(map(table.header.__getitem__, likely))
        problem = f"several columns may be the label ({names})"
    raise AsdfError(
        f"{table.path}: {problem}. Columns and the first value of each: {table.describe()}. Name "
        "the right one: python -m asdf lists FILE --columns label=NAME, or Corpus(..., "
        "columns={'label': 'NAME'}) in run.py; --bona-fide VALUE says which value is bona fide."
    )


def likely_labels(
    header: Sequence[str], first_values: Sequence[Sequence[str]], utterance: int = -1
) -> list[int]:
    """Return the indices of columns that may hold labels, by their names and values.

    Args:
        first_values: First values of each column that are not empty.
        utterance: Index of the column of paths, which holds no labels.
    """
    named = _by_name(header, LABELS)
    if utterance in named:
        named.remove(utterance)
    meant = []
    both = []
    for index, name in enumerate(header):
        values = first_values[index]
        if index != utterance and values and are_labels(name, values):
            meant.append(index)
            if index in named:
                both.append(index)
    return both or meant or named


def our_name(name: str) -> str:
    """Return our usual name for a column of this name."""
    return _OURS.get(plain_word(name), name.strip().lower())


def _by_name(header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the columns with one of these names, in the order of the names."""
    plain = [plain_word(name) for name in header]
    return [plain.index(name) for name in names if name in plain]


def _named(table: _Table, name: str) -> int:
    lowered = [known.lower() for known in table.header]
    if name.lower() not in lowered:
        raise AsdfError(
            f"{table.path} has no column {name!r}. Columns and the first value of each: "
            f"{table.describe()}."
        )
    return lowered.index(name.lower())


def _is_recording(cell: str) -> bool:
    return cell[cell.rfind(".") :].lower() in AUDIO_SUFFIXES
