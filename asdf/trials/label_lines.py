"""The lines of a label file, whose format is detected from its content, as trials.

Invariant: attack and vocoder are `-` exactly for bona fide trials, although some files state
`bonafide` or `a00`, and each trial occurs once in the file.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from asdf.errors import AsdfError
from asdf.trials.any_table import OUR_PATHS, is_our_csv
from asdf.trials.label_words import label_of
from asdf.trials.table import TrialCollector
from asdf.trials.text_lines import NumberedLines, peek
from asdf.trials.trial_list import TrialList

# In-the-Wild writes bona-fide; 1 and 0 are the labels of ASDF's own lists.
LABELS = {"bonafide": 1, "bona-fide": 1, "spoof": 0, "1": 1, "0": 0}
_LABELS_OF_AT_ADD = {"real": 1, "fake": 0}
# For tables that users make for their own corpora.
_LABELS_OF_LISTS = {**LABELS, **_LABELS_OF_AT_ADD, "bona fide": 1, "genuine": 1}

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
_OF_SPOOFS = {"attack", "vocoder"}

_KNOWN_FILES = (
    "a protocol of ASVspoof 2019, a trial_metadata.txt of ASVspoof 2021, a tsv of ASVspoof 5, a "
    "meta.csv of In-the-Wild, a csv of SpoofCeleb or AT-ADD or with the columns path,label or "
    "file_name,label, a table of trials, or lines "
    "'UTTERANCE KEY' with a key bonafide, spoof, 1 or 0"
)


def parse_protocol(
    lines: NumberedLines, path: Path, layout: Sequence[str] | None = None
) -> TrialList:
    """Read the lines of a label file that is no table of trials.

    Args:
        layout: Columns, one of `ASVSPOOF`, if no other file is acceptable.

    Raises:
        AsdfError: as in `asdf.corpora.protocols.read_protocol`.
    """
    first, lines = peek(lines)
    if not first:
        raise AsdfError(f"{path}: no trials found. Was it copied completely?")
    if layout is not None:
        trials = _read_columns(lines, path, layout, advice=f" It should be {_shape(layout)}.")
    else:
        header = [name.lower() for name in _cells_of_csv(first)]
        if "file" in header or {"name", "label"}.issubset(header) or is_csv_list(first):
            trials = _read_csv(lines, path, header)
        else:
            trials = _read_columns(lines, path, _find_layout(first))
    columns = {}
    for name, values in trials.columns.items():
        # A column of only '-' is uninformative, such as the third one of ASVspoof 2019 LA. Attacks
        # are kept, since readers rely on them, although they are all '-' in a list of bona fide
        # trials.
        if name == "attack" or set(values) != {"-"}:
            columns[name] = values
    return replace(trials, columns=columns)


def is_csv_list(first_line: str) -> bool:
    """Whether a file that begins with this line is a csv with the columns of a list.

    Its columns include `path,label` or `file_name,label`, in any order.
    """
    return is_our_csv(_cells_of_csv(first_line))


@dataclass(frozen=True)
class _Layout:
    """The positions of a trial's values in a line.

    Attributes:
        utterance, key: Positions of the utterance and of the value that gives its label.
        columns: Names and positions of the other columns.
    """

    utterance: int
    key: int
    columns: dict[str, int]

    @classmethod
    def of(cls, names: Sequence[str], utterance: str, key: str) -> _Layout:
        columns = {}
        for position, name in enumerate(names):
            if name not in _NOT_COLUMNS and name != utterance:
                columns[name] = position
        return cls(names.index(utterance), names.index(key), columns)

    def values(self, cells: Sequence[str], label: int) -> list[str]:
        """Return the values of the columns."""
        values = []
        for name, position in self.columns.items():
            if label == 1 and name in _OF_SPOOFS:
                values.append("-")
            else:
                values.append(cells[position])
        return values


def _read_csv(lines: NumberedLines, path: Path, header: list[str]) -> TrialList:
    """Read a csv with a column of files; its header is the first line."""
    if "label" in header:
        key = "label"
    elif "attack" in header:
        key = "attack"
    else:
        raise AsdfError(
            f"{path}, line 1: a csv with a column 'file' also needs 'label' (In-the-Wild) or "
            f"'attack' (SpoofCeleb), it has {', '.join(header)}."
        )
    # Only AT-ADD calls a file a name.
    utterance = next(name for name in ("file", *OUR_PATHS, "name") if name in header)
    words = {"file": LABELS, "name": _LABELS_OF_AT_ADD}.get(utterance, _LABELS_OF_LISTS)
    layout = _Layout.of(header, utterance, key)
    collector = TrialCollector(path, list(layout.columns))
    # `peek` has put the header back in front of the lines.
    next(lines)
    for number, line in lines:
        cells = _cells_of_csv(line)
        label = None
        if len(cells) == len(header) and cells[layout.utterance]:
            cell = cells[layout.key]
            # SpoofCeleb numbers its attacks, with bona fide as the first number.
            label = words.get(cell.lower()) if key == "label" else int(cell == "a00")
            if label is None and words is _LABELS_OF_LISTS:
                label = label_of(cell)
        if label is None:
            known = ", ".join(words) if key == "label" else "a00 (bona fide) and other attacks"
            raise AsdfError(
                f"{path}, line {number}: expected {','.join(header)}, found "
                f"{line.strip()[:120]!r}. Labels are {known}."
            )
        collector.add(number, cells[layout.utterance], label, layout.values(cells, label))
    return collector.trials()


def _cells_of_csv(line: str) -> list[str]:
    # Not split at commas, since a quoted name may contain one.
    cells = next(csv.reader([line.strip()]))
    return [cell.strip() for cell in cells]


def _find_layout(first: str) -> Sequence[str]:
    """Return the columns of a file that begins with this line."""
    cells = first.split()
    names = ASVSPOOF.get(len(cells))
    # The number of words alone is not decisive: in two columns, a name may contain spaces.
    if names is None or cells[names.index("key")] not in ("bonafide", "spoof"):
        return _TWO_COLUMNS
    return names


def _read_columns(
    lines: NumberedLines, path: Path, names: Sequence[str], advice: str = ""
) -> TrialList:
    """Read lines with columns `names`, separated by white space.

    Args:
        advice: End of the message about a line that does not fit.
    """
    layout = _Layout.of(names, "utterance", "key")
    collector = TrialCollector(path, list(layout.columns))
    first_number = None
    for number, line in lines:
        if first_number is None:
            first_number = number
        # With two columns, an utterance may contain spaces; names of ASVspoof do not.
        cells = line.split()
        if names is _TWO_COLUMNS:
            cells = line.strip().rsplit(None, 1)
        label = None
        if len(cells) == len(names):
            label = LABELS.get(cells[layout.key].lower())
        if label is None:
            # If the first line fails, the file may be of another kind; later, the line is at fault.
            if number == first_number and not advice:
                advice = f" It should be {_KNOWN_FILES}."
            raise AsdfError(
                f"{path}, line {number}: expected {_shape(names)}, KEY being bonafide or spoof, "
                f"found {line.strip()[:120]!r}.{advice}"
            )
        collector.add(number, cells[layout.utterance], label, layout.values(cells, label))
    return collector.trials()


def _shape(names: Sequence[str]) -> str:
    return "'" + " ".join(name.upper() or "-" for name in names) + "'"
