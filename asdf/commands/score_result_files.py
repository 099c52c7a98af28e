"""Scores as CSV and JSON, and plots next to them.

Invariant: a number in a file is exactly the one that `Detector` gives, without loss when read back.
Recordings are written one at a time, so that a list may have any length.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import IO, Any

from asdf.commands.score_pictures import svg_plot
from asdf.metrics.verbal_scale import log10_llr
from asdf.runs.files import write_text
from asdf.scoring.document import Heading
from asdf.scoring.scored import Scored, WindowScore
from asdf.scoring.speakers import speaker_entry
from asdf.segments import Segment, Speaker
from asdf.text import csv_text, printable

_COLUMNS_BEFORE = ("path", "start_s", "end_s")
_COLUMNS_AFTER = (
    "verdict",
    "label",
    "error",
    "seconds",
    "seconds_scored",
    "remark",
    "lowest",
    "lowest_start_s",
    "lowest_end_s",
    "precision",
)
# At the end, for networks that trace sources, and for searches for parts.
_COLUMNS_OF_SOURCES = ("source", "source_probability")
_COLUMNS_OF_PARTS = ("parts", "windows_searched")
# After these, for calibrated networks.
_COLUMNS_OF_LLRS = ("log10_llr", "llr_low", "llr_high", "unbounded_llr", "llr_words")
# After these, if the calibration detects recordings unlike its set.
_COLUMNS_OF_HOMES = ("unlike", "distance")
# After these, for conversations.
_COLUMNS_OF_SPEAKERS = ("speaker", "overlapped_s")


@dataclass(frozen=True)
class Line:
    """All results of one recording; `windows` and `spoofed` are empty if not requested.

    Attributes:
        spoofed: Parts marked by the scores of frames.
        sha256: Digest of the recording's file; None if not requested or not readable.
        speaker: Speaker of the result; None: the result is of the whole recording.
    """

    label: int | None
    result: Scored
    windows: Sequence[WindowScore] = ()
    spoofed: Sequence[Segment] = ()
    sha256: str | None = None
    speaker: Speaker | None = None

    @property
    def shown(self) -> str:
        """Name of the recording, with that of the speaker."""
        if self.speaker is None:
            return self.result.name
        return f"{self.result.name} [{printable(self.speaker.name, one_line=True)}]"


class CsvTable:
    """A row per recording, and one per window, which alone has start_s and end_s.

    The score's column is named after its kind. Text in cells is not a formula, see `csv_text`.
    """

    def __init__(self, file: IO[str], heading: Heading) -> None:
        """Write the first row."""
        self._rows = csv.writer(file, lineterminator="\n")
        self._precision = heading.precision
        self._has_sources = bool(heading.source_column)
        self._has_parts = heading.part_search is not None
        self._has_llrs = heading.kind == "llr"
        self._has_home = "home" in (heading.calibration or {})
        columns = [*_COLUMNS_BEFORE, heading.kind, *_COLUMNS_AFTER]
        if self._has_sources:
            columns += _COLUMNS_OF_SOURCES
        if self._has_parts:
            columns += _COLUMNS_OF_PARTS
        if self._has_llrs:
            columns += _COLUMNS_OF_LLRS
        if self._has_home:
            columns += _COLUMNS_OF_HOMES
        if heading.of_speakers:
            columns += _COLUMNS_OF_SPEAKERS
        self._width = len(columns)
        self._rows.writerow(columns)

    def add(self, line: Line) -> None:
        """Write the rows of a recording."""
        result = line.result
        lowest: list[float | str] = ["", "", ""]
        if result.lowest:
            lowest = [result.lowest.score, result.lowest.start_s, result.lowest.end_s]
        after = [
            result.verdict or "",
            _cell(line.label),
            csv_text(result.error),
            _cell(result.seconds),
            _cell(result.seconds_scored),
            csv_text(result.remark),
            *lowest,
            self._precision,
        ]
        path = csv_text(result.name)
        if self._has_sources:
            after += _source_cells(result)
        if self._has_parts:
            after += _part_cells(result)
        if self._has_llrs:
            after += _llr_cells(result)
        if self._has_home:
            after += ["" if result.unlike is None else str(result.unlike).lower()]
            after += [_cell(result.distance)]
        if line.speaker is not None:
            after += [csv_text(line.speaker.name), _cell(line.speaker.overlapped_s)]
        self._rows.writerow([path, "", "", _cell(result.score), *after])
        for window in line.windows:
            row = [path, window.start_s, window.end_s, window.score]
            # The last of these columns, the precision, applies to windows too.
            row += [""] * (len(_COLUMNS_AFTER) - 1) + [self._precision]
            row += [""] * (self._width - len(row))
            self._rows.writerow(row)

    def end(self, complete: bool) -> None:
        """Do nothing, because a CSV table cannot state what is missing."""


class JsonTable:
    """The heading's entries, `recordings`, and whether they are `complete`.

    Values that do not apply to a recording are null or omitted.
    """

    def __init__(self, file: IO[str], heading: Heading) -> None:
        """Write the heading."""
        self._file = file
        self._between = "\n"
        # The object is left open: entries are written as they arrive, in any number.
        opened = json.dumps(heading.entries(), indent=2).removesuffix("\n}")
        file.write(opened + ',\n  "recordings": [')

    def add(self, line: Line) -> None:
        """Write the entry of a recording."""
        self._file.write(self._between + indent(json.dumps(_entry(line), indent=2), " " * 4))
        self._between = ",\n"

    def end(self, complete: bool) -> None:
        """Write the end of the file; `complete`: no recording is missing."""
        self._file.write(f'\n  ],\n  "complete": {json.dumps(complete)}\n}}\n')


def write_pictures(table: Path, heading: Heading, lines: Iterable[Line]) -> int:
    """Write an SVG of each recording that has windows, next to a table.

    A plot is named `<table> - <recording>.svg`, with a number if two would have the same name.

    Returns:
        Number of plots.
    """
    kind = "LLR" if heading.kind == "llr" else heading.kind
    names: set[str] = set()
    for line in lines:
        if not line.windows:
            continue
        name = picture_name(table.stem, line, names)
        picture = svg_plot(line.windows, line.result.name, kind, heading.threshold)
        write_text(table.parent / f"{name}.svg", picture)
    return len(names)


def picture_name(output: str, line: Line, names: set[str]) -> str:
    """Return the name of a recording's plot without its suffix, and add it to `names`."""
    first = f"{output} - {Path(line.result.name).stem}"
    name = first
    number = 1
    # Recordings in two folders may have the same name, but need different plots.
    while name in names:
        number += 1
        name = f"{first} ({number})"
    names.add(name)
    return name


def _source_cells(result: Scored) -> list[str]:
    """Return the most probable class of sources and its probability."""
    if result.sources is None:
        return ["", ""]
    best = result.sources.best
    return [csv_text(best), _cell(result.sources.probabilities[best])]


def _part_cells(result: Scored) -> list[str]:
    """Return the parts as 'start_s end_s score; ...', and the number of searched windows."""
    if result.searched is None:
        return ["", ""]
    parts = [f"{part.start_s} {part.end_s} {part.score}" for part in result.parts]
    return ["; ".join(parts), str(result.searched.windows)]


def _llr_cells(result: Scored) -> list[str]:
    """Return an LLR to the base of ten, its interval, its unbounded value, and its words."""
    if result.llr is None:
        return [""] * len(_COLUMNS_OF_LLRS)
    ends = ["", ""]
    if result.llr_interval is not None:
        ends = list(map(_cell, result.llr_interval))
    unbounded = _cell(result.unbounded_llr)
    return [_cell(log10_llr(result.llr)), *ends, unbounded, result.llr_words]


def _cell(value: float | None) -> str:
    """Return a number in the shortest exact form."""
    return "" if value is None else repr(value)


def _entry(line: Line) -> dict[str, Any]:
    entry = line.result.entry()
    if line.speaker is not None:
        entry = speaker_entry(entry, line.speaker)
    if line.sha256 is not None:
        entry["sha256"] = line.sha256
    if line.label is not None:
        entry["label"] = line.label
    if line.windows:
        entry["windows"] = [window.entry() for window in line.windows]
    if line.result.frames is not None:
        entry["spoofed"] = [list(segment) for segment in line.spoofed]
    return entry
