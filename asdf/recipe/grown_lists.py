"""Training lists that grew during a run: the current epoch ends on the list it began with.

Invariant: an epoch is trained on one list. If a run resumes in the middle of an epoch, and
recordings were appended to its training sets, it finishes that epoch with the original recordings,
identical to the last bit to a run whose list did not grow; the next epoch is the first with all of
them. The record of each start states its list, and its first epoch. After any other change of a
list, the epoch restarts (`asdf.training.training_progress`).
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
    """Record the list that is used for training from `epoch` on, counted from 1.

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
    """Return the rows of the list that the current epoch began with, if the list has grown.

    The result is None if no epoch is in progress, its list is the same, or it is not the beginning
    of this list. All ranks call this together.
    """
    parts = run.world.run_on_main(partial(_find_begun_parts, run, utterances))
    if parts is None:
        return None
    return _first_rows(utterances, parts)


def _find_begun_parts(run: Run, utterances: TrialList) -> list[list[Any]] | None:
    """Return the parts of the list that the current epoch began with; None as above."""
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
        # The names are compared too: a record may be damaged, or a list may have grown in the
        # middle.
        if rows is not None and utterances.select(rows).digest() == begun:
            return parts
    return None


def _parts(utterances: TrialList) -> list[list[Any]]:
    """Return the name and the number of utterances of each part of a joined list."""
    assert utterances.origin is not None  # training lists are joined
    counts = np.bincount(utterances.origin, minlength=len(utterances.origins)).tolist()
    return [
        [origin.corpus, count] for origin, count in zip(utterances.origins, counts, strict=True)
    ]


def _first_rows(utterances: TrialList, parts: Sequence[Any]) -> np.ndarray | None:
    """Return the rows of the first utterances of each part; None if the parts differ."""
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
