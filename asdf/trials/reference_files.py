"""The distinct reference recordings of a list, and checks that they exist.

Invariant: however many trials name a reference, it is one recording here, which is looked for,
measured and embedded once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from asdf.errors import AsdfError
from asdf.text import lines_and_more
from asdf.trials.lists import names_in
from asdf.trials.packed_names import Names
from asdf.trials.references import REFERENCE
from asdf.trials.trial_list import UNLABELLED, TrialList, same_recording

_SHOWN = 10


@dataclass(frozen=True, eq=False)
class DistinctReferences:
    """The reference recordings of a list, each once, and the references of each trial.

    Attributes:
        recordings: List of the references, in the order of first appearance.
        starts: Offsets into `indices`, (trials + 1,) int64: trial t has `indices[starts[t]:starts[t
            + 1]]`.
        indices: Indices of references in `recordings`.
    """

    recordings: TrialList
    starts: npt.NDArray[np.int64]
    indices: npt.NDArray[np.int64]

    def of(self, trial: int) -> npt.NDArray[np.int64]:
        """Return the indices in `recordings` of the references of a trial."""
        return self.indices[self.starts[trial] : self.starts[trial + 1]]


def distinct_references(utterances: TrialList) -> DistinctReferences:
    """Return the distinct references of a list that has references."""
    assert utterances.references is not None
    known: dict[tuple[int, str], int] = {}
    ids: list[str] = []
    origin = []
    starts = [0]
    indices = []
    for trial in range(len(utterances)):
        where = 0 if utterances.origin is None else int(utterances.origin[trial])
        for path in utterances.references.of(trial):
            key = (where, same_recording(path))
            if key not in known:
                known[key] = len(ids)
                # The name of the trial's part precedes the path, as it precedes ids.
                prefix = utterances.origins[where].prefix if utterances.origins else 0
                ids.append(utterances.ids[trial][:prefix] + path)
                origin.append(where)
            indices.append(known[key])
        starts.append(len(indices))
    # A reference is heard as it is, even by a trial whose recording is vocoded.
    origins = tuple(part._replace(vocoder="") for part in utterances.origins)
    recordings = TrialList(
        Names(ids),
        np.full(len(ids), UNLABELLED, np.int8),
        name=f"{utterances.name} (references)",
        folder=utterances.folder,
        origins=origins,
        origin=None if utterances.origin is None else np.array(origin, np.int16),
    )
    return DistinctReferences(recordings, np.array(starts, np.int64), np.array(indices, np.int64))


def check_references(lists: Iterable[TrialList]) -> None:
    """Raise one AsdfError for all trials without a reference and all missing references.

    This is for networks that take references. Each folder is listed once. For a joined list,
    `lists` must contain its parts.
    """
    problems = []
    for utterances in lists:
        if utterances.origin is None and len(utterances):
            problems += _problems_of(utterances)
    if problems:
        raise AsdfError("references of trials:\n  " + "\n  ".join(problems))


def _problems_of(utterances: TrialList) -> list[str]:
    if utterances.references is None:
        return [
            f"{utterances.name} has no column {REFERENCE!r}, which names the reference recording "
            "of each trial, and the network compares each recording with one. Add it to the list "
            "(docs/pairs.md), or choose another network.network_class."
        ]
    without = []
    missing = []
    present: dict[Path, set[str]] = {}
    for trial in range(len(utterances)):
        references = utterances.references.of(trial)
        if not references:
            without.append(_describe(utterances, trial))
        for path in references:
            folder, name = os.path.split(path)
            whole = utterances.folder / folder
            if whole not in present:
                present[whole] = names_in(whole)
            if name not in present[whole]:
                missing.append(f"{_describe(utterances, trial)}: {path}")
    problems = []
    if without:
        count = f"{len(without)} of {len(utterances)} trials of {utterances.name}"
        problems.append(f"{count} have no reference:{_lines(without)}")
    if missing:
        problems.append(
            f"{len(missing)} references of {utterances.name} are not in {utterances.folder}, nor "
            f"are they a recording or model of the list:{_lines(missing)}"
        )
    return problems


def _describe(utterances: TrialList, trial: int) -> str:
    assert utterances.references is not None
    line = int(utterances.references.lines[trial])
    where = f"line {line}" if line else f"trial {trial + 1}"
    return f"{where}, {utterances.recording(trial)}"


def _lines(found: Sequence[str]) -> str:
    return lines_and_more(found, _SHOWN, indent=" " * 4)
