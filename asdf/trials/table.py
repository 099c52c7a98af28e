"""The table of trials, and the trials of any file, collected line by line and checked as a whole.

Invariant: in every format, a trial occurs once in its file; a repetition is reported with both of
its lines. In a table, it has a label of 0 or 1 and a value in every column, and a written table is
read back unchanged.

The columns are separated by TABs: `utterance`, `label` (1 bona fide, 0 spoof), then the columns of
the corpus, by which results are broken down.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from itertools import product
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.places import Part, part_path, split_part
from asdf.runs.files import atomic_write
from asdf.text import AnyPath
from asdf.trials.label_words import check_label
from asdf.trials.text_lines import NumberedLines, blocks_of, numbered_lines
from asdf.trials.trial_list import TrialList, find_repeated_recordings

_STARTS = ("start", "begin", "onset", "offset")
_LENGTHS = ("duration", "dur")
_STOPS = ("end", "stop", "offset", *_LENGTHS)
# Names of columns of times, and their unit if it is not seconds.
_TIMES = re.compile(
    rf"(?:(?:segment|seg|clip|utterance|utt|time|t)_?)?({'|'.join((*_STARTS, *_STOPS))})(?:_?time)?"
    r"(?:_?(?:s|secs?|seconds?|(ms|msec|milliseconds|samples?|frames?|index|idx)))?"
)
_CHANNEL_NAMES = ("channel", "channel_id", "channel_index", "chan", "ch")
# Words are conditions, such as 'telephone'.
_CHANNEL = re.compile(r"\d+(\.0)?|[ablr]|left|right")
_NONE = frozenset(("", "-", "nan", "none", "null"))
_MAX_S = 10**9


class TrialCollector:
    """The trials of a file, added in the order of its lines.

    Args:
        path: Path of the file, for messages.
        columns: Names of the columns whose values are added with each trial.
        listed: Whether the file is a user's list, whose columns of times and channels name parts of
            recordings; they become a part of the path (`asdf.places.Part`).
    """

    def __init__(self, path: Path, columns: Sequence[str] = (), listed: bool = False) -> None:
        self.names = columns
        self._path = path
        self._listed = listed
        # As Python integers, line numbers of a million trials would take nine times the memory.
        self._lines = array("I")
        self._ids: list[str] = []
        self._labels = array("b")
        self._columns: dict[str, list[str]] = {name: [] for name in columns}
        # Equal values share one string, since a string for each would take gigabytes.
        self._shared: dict[str, str] = {}

    def add(self, line: int, utterance: str, label: int, values: Sequence[str] = ()) -> None:
        """Add the trial of a line, with a value for each column."""
        self._lines.append(line)
        self._ids.append(utterance)
        self._labels.append(label)
        if not self._columns:
            return
        for column, value in zip(self._columns.values(), values, strict=True):
            column.append(self._shared.setdefault(value, value))

    def extend(
        self,
        lines: Iterable[int],
        utterances: Iterable[str],
        labels: Iterable[int],
        columns: Iterable[Sequence[str]] = (),
    ) -> None:
        """Add the trials of some lines, with the values of each column."""
        self._lines.extend(lines)
        self._ids.extend(utterances)
        self._labels.extend(labels)
        for column, values in zip(self._columns.values(), columns, strict=True):
            column.extend(map(self._shared.setdefault, values, values))

    def trials(self) -> TrialList:
        """Return all trials.

        Raises:
            AsdfError: there is none, or one is repeated, maybe in another spelling of its path.
        """
        if not self._ids:
            raise AsdfError(f"{self._path}: no trials found. Was it copied completely?")
        if self._listed:
            self._name_parts()
        # Paths that differ only in spelling are the same recording, which would count twice.
        repeats = find_repeated_recordings(self._ids)
        if repeats:
            index, earlier = repeats[0]
            is_same = self._ids[earlier] == self._ids[index]
            spelling = "" if is_same else f" as {self._ids[earlier]!r}"
            lines = len(repeats)
            differ = any(self._labels[one] != self._labels[other] for one, other in repeats)
            raise AsdfError(
                f"{self._path}, line {self._lines[index]}: {self._ids[index]!r} is already in line "
                f"{self._lines[earlier]}{spelling} ({lines} line{'s' * (lines > 1)} "
                f"repeat{'s' * (lines == 1)} an utterance). Every trial counts once: remove the "
                f"repeated lines.{' Some of them have both labels.' * differ}"
            )
        labels = np.array(self._labels, np.int8)
        return TrialList(self._ids, labels, columns=self._columns)

    def _name_parts(self) -> None:
        """Move the columns that say which part of a recording is meant into the paths.

        Raises:
            AsdfError: a value is no time in seconds or no channel from 0 on, or an end is missing.
        """
        columns = _columns_of_parts(self._columns)
        for index, path in enumerate(self._ids if columns else ()):
            cells = {}
            for kind, name in columns.items():
                cell = self._columns[name][index].strip().lower()
                if cell not in _NONE:
                    cells[kind] = cell
            if not cells or split_part(path)[1] is not None:
                continue
            part = _part_of(cells)
            if part is None:
                stated = ", ".join(f"{columns[kind]} = {cell!r}" for kind, cell in cells.items())
                raise AsdfError(
                    f"{self._path}, line {self._lines[index]}: {stated} is no part of a recording, "
                    f"in seconds and with channels from 0 on. Write it as {path}#t=1.5,4 or "
                    f"{path}#channel=0, or rename the columns if they mean something else."
                )
            self._ids[index] = part_path(path, part)
        for name in columns.values():
            del self._columns[name]


def _columns_of_parts(columns: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the columns that say where parts are: 'start', 'stop' or 'duration', and 'channel'.

    One that cannot be used has another key: other units, channels from 1, a time alone.
    """
    found: dict[str, tuple[str, str]] = {}
    used = {}
    for name, cells in columns.items():
        match = _TIMES.fullmatch(re.sub("[^a-z]+", "_", name.lower()).strip("_"))
        if match is not None:
            found.setdefault(match[1], (name, match[2] or ""))
        elif name.strip().lower() in _CHANNEL_NAMES:
            channels = {cell.strip().lower() for cell in cells}
            if any(map(_CHANNEL.fullmatch, channels)):
                used["channel" if channels & {"0", "0.0"} else "channel from 1"] = name
    pairs = (pair for pair in product(_STARTS, _STOPS) if pair[0] != pair[1])
    start, stop = next((pair for pair in pairs if found.keys() >= {*pair}), ("", ""))
    for word, (name, unit) in found.items():
        if word == start:
            used[f"start{unit}"] = name
        elif word == stop:
            used[("duration" if word in _LENGTHS else "stop") + unit] = name
        elif not start and word not in ("offset", *_LENGTHS):
            # A duration alone is the recording's, and an offset may be the waveform's.
            used[f"{word} alone"] = name
    return used


def _part_of(cells: Mapping[str, str]) -> Part | None:
    """Return the part that the values of a row name; None if they name none."""
    times = {kind: cell for kind, cell in cells.items() if kind != "channel"}
    try:
        # pandas writes whole numbers as floats if one is missing.
        number = int(cells["channel"].removesuffix(".0")) if "channel" in cells else None
        part = Part(channel=number)
        if times:
            # Nanoseconds, as in lhotse's files.
            values = {kind: Decimal(f"{float(cell):.9f}") for kind, cell in times.items()}
            start = values["start"]
            stop = values["stop"] if "stop" in values else start + values["duration"]
            part = part._replace(start=start, stop=stop)
        is_part = part.stop is None or 0 <= part.start < part.stop < _MAX_S
    except (ValueError, KeyError, ArithmeticError):
        return None
    return part if is_part and (number or 0) >= 0 else None


HEADER = ("utterance", "label")


def is_trials_file(first_line: str) -> bool:
    """Whether a file that begins with this line is a table of trials."""
    return tuple(first_line.split("\t")[:2]) == HEADER


def read_trials(path: AnyPath) -> TrialList:
    """Read a table of trials, plain or gzipped.

    Raises:
        AsdfError: a row has too few or too many values, a label is not 0 or 1, or an utterance is
            repeated, with file and line; or the header is missing, or there are no trials.
    """
    # Strip only line ends, since a TAB at the end of a line is an empty last column.
    return parse_table(numbered_lines(path, strip="\r\n"), Path(path))


def parse_table(lines: NumberedLines, path: Path, listed: bool = False) -> TrialList:
    """Read the lines of a table; values at the end of a line may be empty.

    Args:
        listed: Whether it is a user's list, as in `TrialCollector`.

    Raises:
        AsdfError: as in `read_trials`; or another column contradicts the label of a list.
    """
    number, header = next(lines, (1, ""))
    names = header.split("\t")
    if not is_trials_file(header) or len(set(names)) < len(names):
        raise AsdfError(
            f"{path}, line {number}: a table of trials begins with names of columns separated by "
            f"TABs: utterance, label, and others, each once; found '{header[:120]}'."
        )
    collector = TrialCollector(path, names[2:], listed)
    for numbers, texts in blocks_of(lines):
        rows = [line.split("\t") for line in texts]
        for number, line, cells in zip(numbers, texts, rows, strict=True):
            if len(cells) != len(names) or cells[1] not in ("0", "1"):
                raise AsdfError(
                    f"{path}, line {number}: expected {len(names)} values separated by TABs, the "
                    f"second one 1 (bona fide) or 0 (spoof), found '{line[:120]}'."
                )
            if listed:
                check_label(
                    int(cells[1]), dict(zip(names[2:], cells[2:], strict=True)), path, number
                )
        utterances, labels, *columns = zip(*rows, strict=True)
        collector.extend(numbers, utterances, map(int, labels), columns)
    return collector.trials()


def write_trials(path: AnyPath, trials: TrialList) -> None:
    """Write a table of trials atomically.

    Raises:
        ValueError: a value contains a TAB or a line break.
    """
    names = [*HEADER, *trials.columns]
    labels = [str(label) for label in trials.labels.tolist()]
    rows = zip(trials.ids, labels, *trials.columns.values(), strict=True)
    with atomic_write(path) as file:
        file.write("\t".join(names) + "\n")
        for values in rows:
            for value in values:
                if "\t" in value or "\n" in value or "\r" in value:
                    raise ValueError(f"a value of {values} contains a TAB or a line break")
            file.write("\t".join(values) + "\n")
