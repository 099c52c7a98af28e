"""Spoofed parts of recordings from any supported file.

Invariant: a reference is a list of trials with the column `spoofed_s`, so that recordings are found
by path or by bare name, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from asdf.errors import AsdfError
from asdf.segments.label_arrays import read_label_arrays
from asdf.segments.part_files import Timed, parse_rttm, parse_text
from asdf.segments.spoofed_seconds import COLUMN, format_spoofed
from asdf.text import AnyPath
from asdf.trials.table import is_trials_file, parse_table
from asdf.trials.text_lines import numbered_lines, peek
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True, eq=False)
class Reference:
    """Trials with their spoofed parts.

    Attributes:
        durations_s: Length of each trial in seconds, if the file states it.
    """

    trials: TrialList
    durations_s: Mapping[str, float] = field(default_factory=dict)


def read_reference(path: AnyPath) -> Reference:
    """Read a table of trials, an RTTM, a text of parts (`read_text`), or PartialSpoof's npy.

    Raises:
        AsdfError: the file cannot be read or is malformed.
    """
    path = Path(path)
    if path.suffix == ".npy":
        return _of_recordings(read_label_arrays(path), path)
    # Only line ends are removed: in a table, a TAB at the end of a line is an empty column.
    first, lines = peek(numbered_lines(path, "\r\n"))
    if is_trials_file(first):
        return Reference(parse_table(lines, path))
    # An RTTM may begin with comments, which ';;' marks.
    if first.split()[:1] == ["SPEAKER"] or first.startswith(";;"):
        return _of_recordings(parse_rttm(lines, path), path)
    return _of_recordings(parse_text(lines, path), path)


def _of_recordings(recordings: dict[str, Timed], path: Path) -> Reference:
    if not recordings:
        raise AsdfError(f"{path}: no recordings found. Was it copied completely?")
    labels = []
    values = []
    durations_s = {}
    for name, timed in recordings.items():
        labels.append(int(not timed.spoofed))
        values.append(format_spoofed(timed.spoofed))
        durations_s[name] = timed.end_s
    trials = TrialList(list(recordings), np.array(labels, np.int8), columns={COLUMN: values})
    return Reference(trials, durations_s)
