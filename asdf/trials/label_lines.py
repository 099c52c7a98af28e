"""The lines of a label file, known by what stands in them, as trials.

Invariant: a trial has `-` for its attack and vocoder exactly where it is bona fide, although some files say `bonafide`
or `a00` there, and stands in the file once.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.trials.trial_list import TrialList

LABELS = {"bonafide": 1, "bona-fide": 1, "spoof": 0, "1": 1, "0": 0}

# The columns of the files of ASVspoof, by how many there are; 'key' is the label, and '' holds nothing.
ASVSPOOF = {
    5: ("speaker", "utterance", "environment", "attack", "key"),
    8: ("speaker", "utterance", "codec", "transmission", "attack", "key", "trim", "subset"),
    10: (
        *(
            "speaker",
            "utterance",
            "gender",
            "codec",
            "codec_q",
            "codec_seed",
            "attack_tag",
            "attack",
            "key",
        ),
        "",
    ),
    13: (
        *("speaker", "utterance", "compression", "source", "attack", "key", "trim", "subset"),
        *("vocoder", "task", "team", "gender", "language"),
    ),
}

_KNOWN = (
    "a protocol of ASVspoof 2019, a trial_metadata.txt of ASVspoof 2021, a tsv of ASVspoof 5, a meta.csv of "
    "In-the-Wild, a csv of SpoofCeleb, a table of trials, or lines 'UTTERANCE KEY' with a key bonafide, spoof, 1 or 0"
)


def parse_protocol(lines: Iterable[tuple[int, str]], path: Path) -> TrialList:
    """The trials in the numbered lines of a label file `path` that is no table of trials.

    Raises:
        AsdfError: see `asdf.corpora.protocols.read_protocol`.
    """
    rows = ((number, line.strip()) for number, line in lines)
    number, first = next(rows, (1, ""))
    if not first:
        raise AsdfError(f"{path}: no trial in it. Was it copied whole?")
    found = _Collected(path)
    header = [name.strip().lower() for name in next(csv.reader([first]))]
    if "file" in header:
        _read_csv(rows, header, found)
    else:
        _read_columns(first, number, rows, found)
    return found.trials()


@dataclass
class _Collected:
    """What was read so far, each line checked against those before it.

    Attributes:
        names: of the columns, '' for one that holds nothing.
        places: where the columns that are kept stand in a row.
        same: one string for all cells that say the same: a cell of its own for each would take gigabytes.
    """

    path: Path
    names: Sequence[str] = ()
    ids: list[str] = field(default_factory=list)
    labels: list[int] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    same: dict[str, str] = field(default_factory=dict)
    first: dict[str, int] = field(default_factory=dict)

    def begin(self, names: Sequence[str]) -> None:
        self.names = names
        not_kept = ("", "utterance", "file", "key", "label")
        self.places = {name: place for place, name in enumerate(names) if name not in not_kept}
        self.columns = {name: [] for name in self.places}

    def add(self, number: int, utterance: str, label: int, row: Sequence[str]) -> None:
        if self.first.setdefault(utterance, number) != number:
            raise AsdfError(
                f"{self.path}, line {number}: {utterance!r} stands already in line {self.first[utterance]}. "
                "Every trial counts once: remove the repeated lines."
            )
        self.ids.append(utterance)
        self.labels.append(label)
        for name, place in self.places.items():
            value = "-" if label and name in ("attack", "vocoder") else row[place]
            self.columns[name].append(self.same.setdefault(value, value))

    def trials(self) -> TrialList:
        # A column of '-' alone says nothing, such as the third one of ASVspoof 2019 LA.
        columns = {
            name: values
            for name, values in self.columns.items()
            if name == "attack" or set(values) != {"-"}
        }
        return TrialList(self.ids, np.array(self.labels, np.int8), columns=columns)


def _read_csv(rows: Iterator[tuple[int, str]], header: list[str], found: _Collected) -> None:
    if "label" not in header and "attack" not in header:
        raise AsdfError(
            f"{found.path}, line 1: a csv with a column 'file' also needs 'label' (In-the-Wild) or 'attack' "
            f"(SpoofCeleb), it has {', '.join(header)}."
        )
    found.begin(header)
    file, key = header.index("file"), header.index("label" if "label" in header else "attack")
    for number, line in rows:
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        whole = len(cells) == len(header) and cells[file]
        if whole and header[key] == "label":
            label = LABELS.get(cells[key].lower())
        else:
            label = int(cells[key] == "a00") if whole else None
        if label is None:
            raise AsdfError(
                f"{found.path}, line {number}: expected {','.join(header)}, found {line[:120]!r}."
            )
        found.add(number, cells[file], label, cells)


def _read_columns(
    first: str, number: int, rows: Iterator[tuple[int, str]], found: _Collected
) -> None:
    names = ASVSPOOF.get(len(first.split()), ())
    if names and first.split()[names.index("key")] not in ("bonafide", "spoof"):
        names = ()
    shape = " ".join(name.upper() or "-" for name in names) or "UTTERANCE KEY"
    found.begin(names or ("utterance", "key"))
    utterance, key, size = (
        found.names.index("utterance"),
        found.names.index("key"),
        len(found.names),
    )
    for place, line in chain([(number, first)], rows):
        # An utterance of two columns may hold spaces; the names of ASVspoof do not.
        cells = line.split() if names else line.rsplit(None, 1)
        label = LABELS.get(cells[key].lower()) if len(cells) == size else None
        if label is None:
            known = f" It should be {_KNOWN}." if place == number else ""
            raise AsdfError(
                f"{found.path}, line {place}: expected '{shape}', KEY being bonafide or spoof, found "
                f"{line[:120]!r}.{known}"
            )
        found.add(place, cells[utterance], label, cells)
