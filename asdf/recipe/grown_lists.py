"""Training lists that grew since a run began: the epoch under way ends on the list it began with.

Invariant: an epoch is trained on one list. A run that goes on in the middle of an epoch, with more
recordings at the ends of the lists of its training sets, finishes that epoch with the recordings
that it began with, to the last bit of a run whose list did not grow; the next epoch is the first
with all of them. The record of each start says which list it trains on, and from which epoch.
Whatever else becomes of a list, the epoch begins anew (`asdf.training.training_progress`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from asdf.recipe.run import Run
from asdf.runs.start_records import read_starts, update_record
from asdf.trials.trial_list import TrialList

_KEY = "training_list"


def record_training_list(run: Run, utterances: TrialList, epoch: int) -> None:
    """Record the list that is trained on from `epoch` on, counted from 1.

    All ranks call this together.
    """

    def record() -> None:
        values = {
            "digest": utterances.digest(),
            "utterances": len(utterances),
            "parts": _parts(utterances),
            "from_epoch": epoch,
        }
        update_record(run.folders.layout.environment, {_KEY: values})

    run.world.run_on_main(record)


def find_begun_rows(run: Run, utterances: TrialList) -> np.ndarray | None:
    """Return the rows of the list that the epoch under way began with, if it grew since then.

    None where no epoch is under way, or its list is this one, or is not the beginning of it. All
    ranks call this together.
    """
    parts = run.world.run_on_main(partial(_find_begun_parts, run, utterances))
    if parts is None:
        return None
    return _first_rows(utterances, parts)


def _find_begun_parts(run: Run, utterances: TrialList) -> list[list[Any]] | None:
    """Return the parts of the list that the epoch under way began with; None as above."""
    from asdf.training.checkpoints import newest_checkpoint, progress_in, read_checkpoint

    path = newest_checkpoint(run.folders.networks)
    progress = (
        None if path is None else progress_in(read_checkpoint(path, mapped=True, whole=False))
    )
    if progress is None or not progress.position:
        return None
    begun = progress.list_digest
    if begun == utterances.digest():
        return None
    for start in reversed(read_starts(run.folders.layout.environment)):
        record = start.get(_KEY)
        if not isinstance(record, Mapping) or record.get("digest") != begun:
            continue
        parts = record.get("parts")
        rows = _first_rows(utterances, parts) if isinstance(parts, list) else None
        # By the names themselves: a record may be damaged, and a list have grown in its middle.
        if rows is not None and utterances.select(rows).digest() == begun:
            return parts
    return None


def _parts(utterances: TrialList) -> list[list[Any]]:
    """Return the name and the number of the utterances of each part of a joined list."""
    assert utterances.origin is not None  # training lists are joined
    counts = np.bincount(utterances.origin, minlength=len(utterances.origins)).tolist()
    return [
        [origin.corpus, count] for origin, count in zip(utterances.origins, counts, strict=True)
    ]


def _first_rows(utterances: TrialList, parts: Sequence[Any]) -> np.ndarray | None:
    """Return the rows of the first utterances of each part; None where the parts are others."""
    known = _parts(utterances)
    if len(parts) != len(known):
        return None
    rows = []
    for number, (part, (corpus, count)) in enumerate(zip(parts, known, strict=True)):
        is_part = isinstance(part, list) and len(part) == 2 and part[0] == corpus
        if not is_part or type(part[1]) is not int or not 0 <= part[1] <= count:
            return None
        rows.append(np.flatnonzero(utterances.origin == number)[: part[1]])
    return np.sort(np.concatenate(rows))
