"""Scoring a list in independent parts on separate processes, and joining the parts.

Invariant: the batches of a part are those of the whole list, which every process plans alike, so
the joined rows equal those of one process to the last bit. Rows are joined only when all parts are
marked as done, and all marks state the same work.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np

from asdf.errors import UsageError
from asdf.runs.divisions import Part, parts_of
from asdf.runs.files import write_text
from asdf.scoring.agreement import ScoringSettings
from asdf.scoring.list_parts import Work, work_of
from asdf.scoring.scorer import Scorer
from asdf.text import and_more
from asdf.trials.trial_list import TrialList

ROWS = "rows"
_SHOWN = 8


def rows_name(part: Part | None) -> str:
    """Return the name of the files with a part's rows; None: the name for the whole list."""
    if part is None:
        return ROWS
    return f"{part.label()}-{ROWS}"


def timed_keys(scorer: Scorer, wanted: Collection[str], part: Part | None) -> list[str]:
    """Return the keys of the extras that follow time.

    Raises:
        UsageError: such extras are wanted, and only a part of the list is scored.
    """
    keys = [key for key in wanted if scorer.extras[key].hop is not None]
    if keys and part is not None:
        raise UsageError(
            f"--part: {', '.join(keys)} follow time, and lists with them have no parts."
        )
    return keys


def mark_part(output: Path | None, part: Part, work: Work) -> None:
    """Mark a part of an output as done.

    Raises:
        AsdfError: it cannot be written.
    """
    assert output is not None  # a part without one would be lost
    write_text(output.with_name(f".{output.name}.{part.label()}.done"), _digest(work))


def take_parts(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: ScoringSettings,
    wanted: Collection[str],
    output: Path,
) -> None:
    """Join the rows of all parts of an output where `score_with_extras` reads them.

    The arguments are those of `score_with_extras`. A call that was killed can be repeated. Remove
    the folder of the output when the output is written, because this function leaves a mark in it.

    Raises:
        UsageError: a part is missing or of other work, or there are parts of two divisions.
    """
    rows = re.compile(re.escape(f".{output.name}.") + rf"part-\d+-of-\d+-({ROWS}-.*)")
    mark = re.compile(re.escape(f".{output.name}.part-") + r"(\d+)-of-(\d+)\.done")
    marks = {}
    for path in sorted(output.parent.glob(f".{output.name}.part-*.done")):
        match = mark.fullmatch(path.name)
        if match is not None:
            marks[Part(int(match[1]), int(match[2]))] = path
    digest = _digest(work_of(scorer, utterances, scorer.plan_batches(lengths), settings, wanted))
    # Rows without this mark could also come from a single process that was stopped.
    begun = output.with_name(f".{output.name}.merging")
    if not begun.is_file() or begun.read_text(encoding="utf-8") != digest:
        _check_marks(marks, digest)
        write_text(begun, digest)
    for path in sorted(output.parent.glob(f".{output.name}.part-*")):
        match = rows.fullmatch(path.name)
        if match is not None:
            path.rename(path.with_name(f".{output.name}.{match[1]}"))
    for path in marks.values():
        path.unlink()


def _check_marks(marks: Mapping[Part, Path], digest: str) -> None:
    """Refuse parts that do not make up the work with this digest.

    Raises:
        UsageError: parts are missing or of other work; the message names them.
    """
    count = _division_of(marks)
    others = []
    for part in sorted(marks, key=lambda part: part.number):
        if marks[part].read_text(encoding="utf-8") != digest:
            others.append(str(part.number))
    if others:
        raise UsageError(
            "parts of another network, list, option or kind of device than this command's: "
            f"{and_more(others, _SHOWN)} of {count}. Do them again with the same "
            f"(--part K/{count})."
        )


def _division_of(marks: Collection[Part]) -> int:
    """Return the number of parts that the work was divided into.

    Raises:
        UsageError: there are no parts, parts are missing, or there are parts of two divisions.
    """
    divisions = sorted({part.of for part in marks})
    if not divisions:
        raise UsageError(
            "--merge: no part is done. The same command with --part 1/N to N/N instead of --merge "
            "does them."
        )
    if len(divisions) > 1:
        raise UsageError(
            f"--merge: there are parts of {' and of '.join(map(str, divisions))}. Remove the files "
            "*part-*-of-N* of all divisions but one."
        )
    missing = [str(part.number) for part in parts_of(divisions[0]) if part not in marks]
    if missing:
        raise UsageError(
            f"--merge: of {divisions[0]} parts {len(missing)} are missing: "
            f"{and_more(missing, _SHOWN)}. Do them first (--part K/{divisions[0]})."
        )
    return divisions[0]


def _digest(work: Work) -> str:
    return hashlib.sha256(json.dumps(work(), sort_keys=True).encode()).hexdigest()
