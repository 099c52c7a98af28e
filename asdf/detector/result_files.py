"""Scores as CSV and JSON, and pictures beside them.

Invariant: a number in a file is the very number that `Detector.score` returns; reading it back loses nothing.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from asdf.detector.detector import WindowScore
from asdf.detector.pictures import svg_plot
from asdf.runs.files import atomic_write, write_text


@dataclass(frozen=True)
class Line:
    """What there is to say of a recording; `windows` is empty where none were asked for."""

    path: str
    label: int | None
    score: float | None
    verdict: str
    error: str
    windows: Sequence[WindowScore] = ()


@dataclass(frozen=True)
class Heading:
    """What the scores are: 'score' or 'llr', of which network, decided how (`threshold` None: not at all)."""

    network: str
    kind: str
    threshold: float | None
    decision: str


def write_csv(path: Path, heading: Heading, lines: Sequence[Line]) -> None:
    """One row a recording, and one more a window, which alone has start_s and end_s; the score's column is named by
    its kind."""
    with atomic_write(path) as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["path", "start_s", "end_s", heading.kind, "verdict", "label", "error"])
        for line in lines:
            label = "" if line.label is None else line.label
            score = "" if line.score is None else repr(line.score)
            rows.writerow([line.path, "", "", score, line.verdict, label, line.error])
            for window in line.windows:
                rows.writerow([line.path, window.start_s, window.end_s, repr(window.score), "", "", ""])


def write_json(path: Path, heading: Heading, lines: Sequence[Line]) -> None:
    """The heading's entries and `recordings`; what does not apply is null or left out."""
    write_text(path, json.dumps({**asdict(heading), "recordings": [_entry(line) for line in lines]}, indent=2) + "\n")


def write_pictures(beside: Path, heading: Heading, lines: Sequence[Line]) -> list[Path]:
    """An SVG of each recording that has windows, named `<beside> - <recording>.svg` in the folder of `beside`."""
    written: list[Path] = []
    names: set[str] = set()
    for line in lines:
        if not line.windows:
            continue
        name = first = f"{beside.stem} - {Path(line.path).stem}"
        number = 1
        while name in names:
            number += 1
            name = f"{first} ({number})"
        names.add(name)
        path = beside.parent / f"{name}.svg"
        kind = {"llr": "LLR"}.get(heading.kind, heading.kind)
        write_text(path, svg_plot(line.windows, line.path, kind, heading.threshold))
        written.append(path)
    return written


def _entry(line: Line) -> dict[str, Any]:
    entry: dict[str, Any] = {"path": line.path, "score": line.score, "verdict": line.verdict or None}
    if line.label is not None:
        entry["label"] = line.label
    if line.error:
        entry["error"] = line.error
    if line.windows:
        entry["windows"] = [asdict(window) for window in line.windows]
    return entry
