"""Label files and tables of recordings, whose format is detected from their content, as trials.

Invariant: attack and vocoder are `-` exactly for bona fide trials, although some files state
`bonafide` or `a00`, and each trial occurs once in the file.

A table with any header has cells separated by commas, semicolons, bars or TABs. Its columns of
paths and labels are detected, by name or content, only if a single column can be meant. Otherwise
the message lists the columns with a value of each, and the option that names them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asdf.errors import AsdfError
from asdf.facts import AUDIO_SUFFIXES
from asdf.text import shorten
from asdf.trials.label_words import (
    LABEL_NAMES,
    Columns,
    are_labels,
    check_label,
    label_of,
    labels_of_values,
    plain_word,
)
from asdf.trials.table import TrialCollector
from asdf.trials.text_lines import NumberedLines, blocks_of, peek
from asdf.trials.trial_list import LABELS, TrialList

# In-the-Wild writes bona-fide; 1 and 0 are the labels of ASDF's own lists.
_WORDS = {"bonafide": 1, "bona-fide": 1, "spoof": 0, **LABELS}
_WORDS_OF_AT_ADD = {"real": 1, "fake": 0}
# For tables that users make for their own corpora.
_WORDS_OF_LISTS = {**_WORDS, **_WORDS_OF_AT_ADD, "bona fide": 1, "genuine": 1}

# The columns of ASVspoof's files, by their number; 'key' is the label, and '' is unused.
ASVSPOOF = {
    5: ("speaker", "utterance", "environment", "attack", "key"),
    8: ("speaker", "utterance", "codec", "transmission", "attack", "key", "trim", "subset"),
    10: (
        *("speaker", "utterance", "gender", "codec", "codec_q", "codec_seed"),
        *("attack_tag", "attack", "key", ""),
    ),
    # PA of 2021: the first three are about the room with the speaker verification, the others about
    # the attacker's, '-' for bona fide.
    12: (
        *("speaker", "utterance", "asv_room", "asv_mic", "to_asv"),
        *("attacker_room", "attacker_mic", "replay_device", "to_talker"),
        *("key", "trim", "subset"),
    ),
    13: (
        *("speaker", "utterance", "compression", "source", "attack", "key", "trim", "subset"),
        *("vocoder", "task", "team", "gender", "language"),
    ),
}
_TWO_COLUMNS = ("utterance", "key")
# Columns that are not columns of a trial list: they are ids and labels, or unused.
_NOT_COLUMNS = {"", "utterance", "file", "name", "key", "label"}
OF_SPOOFS = ("attack", "vocoder")
"""Columns that are '-' for bona fide speech."""

_KNOWN_FILES = (
    "a protocol of ASVspoof 2019, a trial_metadata.txt of ASVspoof 2021, a tsv of ASVspoof 5, a "
    "csv of In-the-Wild, SpoofCeleb or AT-ADD or with the columns path,label or file_name,label, a "
    "table of trials, or lines 'UTTERANCE KEY' with a key bonafide, spoof, 1 or 0"
)

OUR_PATHS = ("path", "file_name")
"""Names of columns of paths in our own csv files, and in the `metadata.csv` of audio folders."""

PATHS = (
    *("path", "filename", "file", "filepath", "audio", "audiopath", "audiofile", "audiofilepath"),
    *("wav", "wavpath", "wavfile", "recording", "clip", "relativepath", "location", "uri"),
    *("utterance", "utteranceid", "utt", "id", "name", "fname"),
)
"""Usual names of columns of paths, the likeliest first; in lower case, without separators."""

_SPEAKERS = ("speaker", "speakerid", "spk", "spkid", "speakername")
_ATTACKS = ("attack", "attackid", "attacktype", "generator", "algorithm", "synthesizer", "tool")
# Our names of columns; all others keep their names.
_OURS = {**dict.fromkeys(_SPEAKERS, "speaker"), **dict.fromkeys(_ATTACKS, "attack")}
_DELIMITERS = (",", "\t", ";", "|")
# Number of rows examined to find out what a column holds.
_LOOKED_AT = 200


_Rows = tuple[list[int], list[list[str]], list[int]]
"""Some rows: their lines' numbers, their cells, and their labels."""


def parse_protocol(
    lines: NumberedLines, path: Path, layout: Sequence[str] | None = None
) -> TrialList:
    """Read the lines of a label file that is no table of trials.

    Args:
        layout: Columns, one of `ASVSPOOF`, if no other file is acceptable.

    Raises:
        AsdfError: as in `asdf.corpora.label_lists.read_protocol`.
    """
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path}: no trials found. Was it copied completely?")
    names: Sequence[str] = [name.lower() for name in _cells(first.strip(), ",")]
    utterance = "utterance"
    # Only AT-ADD calls a file a name.
    of_files = {"file", "name"} if "label" in names else {"file"}
    if layout is None and (not of_files.isdisjoint(names) or _is_our_csv(names)):
        utterance = next(name for name in ("file", *OUR_PATHS, "name") if name in names)
        blocks = _rows_of_csv(lines, path, names, utterance)
    else:
        names = layout or _columns_of(first)
        blocks = _rows_of_columns(lines, path, names, first if layout is None else "")
    positions = {
        name: position
        for position, name in enumerate(names)
        if name not in _NOT_COLUMNS and name != utterance
    }
    identifies = names.index(utterance)
    collector = TrialCollector(path, list(positions), listed=True)
    for numbers, rows, labels in blocks:
        columns: list[Sequence[str]] = list(zip(*rows, strict=True))
        for name in OF_SPOOFS:
            if name in positions:
                pairs = zip(columns[positions[name]], labels, strict=True)
                columns[positions[name]] = ["-" if label else value for value, label in pairs]
        chosen = [columns[position] for position in positions.values()]
        collector.extend(numbers, columns[identifies], labels, chosen)
    trials = collector.trials()
    # A column of only '-' is uninformative, such as the third one of ASVspoof 2019 LA. Attacks are
    # kept, since readers rely on them, although they are all '-' in a list of bona fide trials.
    informative = {
        name: values
        for name, values in trials.columns.items()
        if name == "attack" or set(values) != {"-"}
    }
    return replace(trials, columns=informative)


def _rows_of_csv(
    lines: NumberedLines, path: Path, header: Sequence[str], utterance: str
) -> Iterator[_Rows]:
    """Yield the rows of a csv with a column of files; the header comes first."""
    key = "label" if "label" in header else "attack"
    if key not in header:
        raise AsdfError(
            f"{path}, line 1: a csv with a column 'file' also needs 'label' (In-the-Wild) or "
            f"'attack' (SpoofCeleb), it has {', '.join(header)}."
        )
    if header.count(key) > 1:
        raise AsdfError(f"{path}, line 1: {header.count(key)} columns are called {key!r}.")
    words = {"file": _WORDS, "name": _WORDS_OF_AT_ADD}.get(utterance, _WORDS_OF_LISTS)
    # `peek` has put the header back in front of the lines.
    next(lines)
    for numbers, texts in blocks_of(lines):
        rows = []
        labels = []
        for number, line in zip(numbers, texts, strict=True):
            cells = _cells(line.strip(), ",")
            label = None
            if len(cells) == len(header) and cells[header.index(utterance)]:
                cell = cells[header.index(key)]
                # SpoofCeleb numbers its attacks, with bona fide as the first number.
                label = words.get(cell.lower()) if key == "label" else int(cell == "a00")
                if label is None and words is _WORDS_OF_LISTS:
                    label = label_of(cell)
            if label is None:
                known = ", ".join(words) if key == "label" else "a00 (bona fide) and other attacks"
                raise AsdfError(
                    f"{path}, line {number}: expected {','.join(header)}, found "
                    f"{line.strip()[:120]!r}. Labels are {known}."
                )
            check_label(label, dict(zip(header, cells, strict=True)), path, number)
            rows.append(cells)
            labels.append(label)
        yield numbers, rows, labels


def _columns_of(first: str) -> Sequence[str]:
    """Return the columns of a file of lines of words with this first line."""
    cells = first.split()
    names = ASVSPOOF.get(len(cells), _TWO_COLUMNS)
    # The number of words alone is not decisive: in two columns, a name may contain spaces.
    is_known = names is _TWO_COLUMNS or cells[names.index("key")] in ("bonafide", "spoof")
    return names if is_known else _TWO_COLUMNS


def _rows_of_columns(
    lines: NumberedLines, path: Path, names: Sequence[str], first: str
) -> Iterator[_Rows]:
    """Yield the rows of lines with these columns.

    Args:
        first: First line, which may show that the file is of another kind; '' if it is known.
    """
    key = names.index("key")
    for numbers, texts in blocks_of(lines):
        rows = [_words(line, names) for line in texts]
        labels = [
            _WORDS.get(cells[key].lower(), -1) if len(cells) == len(names) else -1 for cells in rows
        ]
        if -1 in labels:
            line = texts[labels.index(-1)]
            advice = f" It should be {_KNOWN_FILES}." if line == first else ""
            raise AsdfError(
                f"{path}, line {numbers[labels.index(-1)]}: expected {_shape(names)}, KEY being "
                f"bonafide or spoof, found {line.strip()[:120]!r}.{advice}"
            )
        yield numbers, rows, labels


def _words(line: str, names: Sequence[str]) -> list[str]:
    # With two columns, an utterance may contain spaces; names of ASVspoof do not.
    return line.strip().rsplit(None, 1) if len(names) == 2 else line.split()


def _shape(names: Sequence[str]) -> str:
    return "'" + " ".join(name.upper() or "-" for name in names) + "'"


def named_rows(
    lines: NumberedLines, path: Path, columns: Sequence[str] | Mapping[str, str]
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the values of each line of a file whose columns are known, by our names.

    Args:
        columns: Our names of the columns in order, separated by white space; '' for unused ones. Or
            our names by those in the header of a csv, where several may stand for one of ours.

    Raises:
        AsdfError: a line has too few or too many columns, the header lacks one, or a quote has no
            end.
    """
    if not isinstance(columns, Mapping):
        for number, line in lines:
            cells = _words(line, columns)
            if len(cells) != len(columns):
                raise AsdfError(
                    f"{path}, line {number}: expected {_shape(columns)}, found "
                    f"{line.strip()[:120]!r}."
                )
            yield number, dict(zip(columns, cells, strict=True))
        return
    header: list[str] = []
    positions: dict[str, int] = {}
    for number, cells in _csv_rows(lines, path):
        if not header:
            header = [cell.strip().lower() for cell in cells]
            for theirs, ours in columns.items():
                if theirs.lower() in header:
                    positions[ours] = header.index(theirs.lower())
            if missing := [theirs for theirs, ours in columns.items() if ours not in positions]:
                raise AsdfError(
                    f"{path}, line {number}: it has no column {', '.join(missing)}, but "
                    f"{', '.join(cells)}."
                )
        elif len(cells) != len(header):
            raise AsdfError(other_width(path, number, cells, header))
        else:
            yield number, {name: cells[position].strip() for name, position in positions.items()}


def cells_of_trial(label: int, names: Iterable[str], cells: Iterable[str]) -> list[str]:
    """Return a trial's cells; bona fide speech has no attack, whatever its file states."""
    pairs = zip(names, cells, strict=True)
    return ["-" if label == 1 and name in OF_SPOOFS else cell for name, cell in pairs]


def other_width(path: Path, number: int, cells: Sequence[str], first: Sequence[str]) -> str:
    """Return the message about a row that has not as many cells as the first one."""
    return (
        f"{path}, line {number}: it has {len(cells)} cells, but the first line has {len(first)}. A "
        "cell that holds a delimiter needs double quotes around it."
    )


def _csv_rows(lines: NumberedLines, path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the cells of each row; a quoted cell may continue in the next line."""
    last = 0

    def texts() -> Iterator[str]:
        nonlocal last
        for number, line in lines:
            last = number
            yield f"{line}\n"

    try:
        # Strict, since a quote without an end would swallow lines, up to the end of the file.
        for cells in csv.reader(texts(), strict=True):
            yield last, cells
    except csv.Error as error:
        raise AsdfError(
            f"{path}: a quoted value is not closed by line {last} ({error}). Is a quote missing "
            "above?"
        ) from None


def is_csv_list(first_line: str) -> bool:
    """Whether a file that begins with this line is a csv with the columns of a list.

    Its columns include `path,label` or `file_name,label`, in any order; in it, 1 is bona fide.
    """
    return _is_our_csv(_cells(first_line.strip(), ","))


def _is_our_csv(header: Sequence[str]) -> bool:
    names = [name.lower() for name in header]
    return "label" in names and any(name in names for name in OUR_PATHS)


def _cells(line: str, delimiter: str) -> list[str]:
    # Not split at the delimiter, since a quoted name may contain one.
    return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]


def delimiter_of(first_line: str) -> str:
    """Return the delimiter of a table with this first line; '' if there is none."""
    best = max(_DELIMITERS, key=lambda delimiter: len(_cells(first_line, delimiter)))
    return best if len(_cells(first_line, best)) > 1 else ""


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

    def first_values(self, index: int) -> list[str]:
        """Return the values of the first rows that are not empty."""
        values = (row[index] for row in self.rows[:_LOOKED_AT])
        return [value for value in values if value]

    def our_names(self, columns: Columns) -> list[str]:
        """Return our name of each column."""
        theirs = {name: ours for ours, name in columns.names.items()}
        return [theirs.get(name, our_name(name)) for name in self.header]

    def named(self, name: str) -> int:
        """Return the index of the column that a user names."""
        lowered = [known.lower() for known in self.header]
        if name.lower() not in lowered:
            raise AsdfError(f"{self.path} has no column {name!r}. {self._describe()}.")
        return lowered.index(name.lower())

    def unclear(self, problem: str, column: str, more: str = "") -> AsdfError:
        """Return the error that asks which column is 'path' or 'label'."""
        return AsdfError(
            f"{self.path}: {problem}. {self._describe()}. Name the right one: python -m asdf lists "
            f"FILE --columns {column}=NAME, or Corpus(..., columns={{'{column}': 'NAME'}}) in "
            f"run.py{more}."
        )

    def _describe(self) -> str:
        firsts = [
            next(iter(self.first_values(index)), "empty") for index in range(len(self.header))
        ]
        pairs = zip(self.header, firsts, strict=True)
        shown = ", ".join(f"{name} ({shorten(value, 40)})" for name, value in pairs)
        return f"Columns and the first value of each: {shown}"


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
    words = [row[label] for row in table.rows]
    bona_fide = columns.bona_fide_values
    is_ours = _is_our_csv(table.header) and table.header[label].lower() == "label"
    if not bona_fide and is_ours and set(words) <= {"0", "1"}:
        bona_fide = frozenset("1")
    labels = labels_of_values(table.header[label], words, str(path), bona_fide)
    others: dict[str, int] = {}
    for index, ours in enumerate(table.our_names(columns)):
        # Several columns may have one of our names; the first is taken.
        is_free = ours not in ("", "utterance", "label", *others)
        if is_free and index not in (utterance, label):
            others[ours] = index
    collector = TrialCollector(path, list(others), listed=True)
    for number, row, value in zip(table.numbers, table.rows, labels, strict=True):
        # TABs would break tables of trials.
        cells = [" ".join(row[index].split()) for index in others.values()]
        if not row[utterance]:
            raise AsdfError(f"{path}, line {number}: the {table.header[utterance]} is empty.")
        collector.add(number, row[utterance], value, cells_of_trial(value, others, cells))
    return collector.trials()


def parse_columns(lines: NumberedLines, path: Path) -> dict[str, dict[str, str]]:
    """Return the values of each recording in a table, by path; labels are words.

    Raises:
        AsdfError: the column of paths cannot be determined, or a row is malformed.
    """
    table = _read(lines, path)
    utterance = _find_paths(table, Columns())
    names = table.our_names(Columns())
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
        AsdfError: there is no row, or rows differ in length.
    """
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path}: no trials found. Was it copied completely?")
    delimiter = delimiter_of(first)
    numbers: list[int] = []
    rows: list[list[str]] = []
    for number, line in lines:
        cells = _cells(line, delimiter) if delimiter else [line.strip()]
        if rows and len(cells) != len(rows[0]):
            raise AsdfError(other_width(path, number, cells, rows[0]))
        numbers.append(number)
        rows.append(cells)
    header = rows[0]
    # Names of columns are distinct, and neither recordings nor numbers.
    has_values = any(_is_recording(cell) or cell in ("0", "1") for cell in header)
    if not has_values and len({cell.lower() for cell in header}) == len(header):
        return _Table(path, header, rows[1:], numbers[1:])
    return _Table(path, [str(index + 1) for index in range(len(header))], rows, numbers)


def _find_paths(table: _Table, columns: Columns) -> int:
    """Return the index of the column of paths."""
    if "path" in columns.names:
        return table.named(columns.names["path"])
    columns_of_values = map(table.first_values, range(len(table.header)))
    holding = [
        index
        for index, values in enumerate(columns_of_values)
        if values and all(map(_is_recording, values))
    ]
    for index in _by_name(table.header, PATHS):
        # The first by name, since a table of paths often has file names as well.
        if index in holding or not holding:
            return index
    if len(holding) == 1:
        return holding[0]
    problem = "several columns hold recordings" if holding else "no column holds recordings"
    raise table.unclear(problem, "path")


def _find_labels(table: _Table, columns: Columns, utterance: int) -> int:
    """Return the index of the column of labels."""
    if "label" in columns.names:
        return table.named(columns.names["label"])
    values = [table.first_values(index) for index in range(len(table.header))]
    likely = likely_labels(table.header, values, utterance)
    if len(likely) == 1:
        return likely[0]
    problem = "no column holds labels of the two classes"
    if likely:
        names = ", ".join(map(table.header.__getitem__, likely))
        problem = f"several columns may be the label ({names})"
    raise table.unclear(problem, "label", "; --bona-fide VALUE says which value is bona fide")


def likely_labels(
    header: Sequence[str], first_values: Sequence[Sequence[str]], utterance: int = -1
) -> list[int]:
    """Return the indices of columns that may hold labels, by their names and values.

    Args:
        first_values: First values of each column that are not empty.
        utterance: Index of the column of paths, which holds no labels.
    """
    named = [index for index in _by_name(header, LABEL_NAMES) if index != utterance]
    meant = [
        index
        for index, (name, values) in enumerate(zip(header, first_values, strict=True))
        if index != utterance and values and are_labels(name, values)
    ]
    return [index for index in meant if index in named] or meant or named


def our_name(name: str) -> str:
    """Return our usual name for a column of this name."""
    return _OURS.get(plain_word(name), name.strip().lower())


def _by_name(header: Sequence[str], names: Sequence[str]) -> list[int]:
    """Return the columns with one of these names, in the order of the names."""
    plain = [plain_word(name) for name in header]
    return [plain.index(name) for name in names if name in plain]


def _is_recording(cell: str) -> bool:
    return cell[cell.rfind(".") :].lower() in AUDIO_SUFFIXES
