"""Rows of a list that is being scored, from earlier runs and from this process.

Invariant: rows of an earlier run count only if everything they depend on is unchanged (`work_of`)
and their whole batch is known. A list thus ends with the same bytes however often it was stopped,
on any number of processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from asdf.audio.speech import identity
from asdf.data.lengths import sampled_sizes
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.gpus import fetch_later
from asdf.runs.parts import Columns, Parts, join_columns
from asdf.scoring.agreement import ScoringSettings
from asdf.scoring.scorer import Scorer
from asdf.trials.trial_list import REFERENCE, TrialList
from asdf.version import VERSION

TRIALS, SCORES, LOSSES = "trials", "scores", "losses"
Work = Callable[[], dict[str, Any]]


def work_of(
    scorer: Scorer,
    utterances: TrialList,
    batches: list[ScoringBatch],
    settings: ScoringSettings,
    wanted: Collection[str],
) -> Work:
    """Return a function that describes everything scores depend on, computed once."""

    @cache
    def describe() -> dict[str, Any]:
        division = hashlib.sha256()
        for batch in batches:
            # A trial's last digits depend on the batch that it is in.
            division.update(batch.trials.tobytes() + b"%d " % batch.samples)
        described: dict[str, Any] = {}
        if scorer.takes_references:
            named = "\n".join(utterances.columns.get(REFERENCE, ()))
            described["references"] = hashlib.sha256(named.encode()).hexdigest()
        return {
            **described,
            # Another version may compute other last digits, which must not mix within a list.
            "version": f"{VERSION}, torch {torch.__version__}",
            "network": scorer.network_state(),
            "list": [utterances.name, utterances.digest()],
            "set of recordings": sampled_sizes(utterances),
            "division into batches": division.hexdigest(),
            # Rows with the loss of their trial differ from rows without.
            "loss": None if scorer.trial_loss is None else dict(scorer.trial_loss.depends_on),
            "way of scoring": {
                **asdict(scorer.how_scored),
                "length": scorer.length.record(),
                "score": settings.network.score,
                "speech": identity(settings.sad, settings.audio),
                # Sums on another device, or over other threads, differ in the last digits.
                "device": scorer.device.type,
                "threads": settings.computing.threads,
                "extras": sorted(wanted),
            },
        }

    if not scorer.keeps_network:
        # Before the first batch, which replaces layers of the network by packed ones.
        describe()
    return describe


def open_parts(output: Path | None, what: str, work: Work) -> Parts | None:
    """Return the parts next to an output, named after `what`; None if nothing is to be saved."""
    return None if output is None else Parts(output.parent, f".{output.name}.{what}-", work)


def remove_parts(output: Path) -> None:
    """Remove all parts next to an output that is complete."""
    Parts(output.parent, f".{output.name}.", dict).remove()


class ListRows:
    """Columns of numbers per trial, on the device until they are saved or needed.

    Args:
        parts: Parts in which rows are saved from time to time; None: rows are not saved.
    """

    def __init__(self, parts: Parts | None) -> None:
        self._parts = parts
        self._on_device: list[tuple[np.ndarray, dict[str, Tensor]]] = []
        self._on_host: list[Columns] = []

    def take_up(self, what: str, count: int) -> np.ndarray:
        """Restore the rows of earlier runs on the main process; return a mask of their trials.

        Args:
            count: Number of trials of the list.
        """
        known = np.zeros(count, bool)
        saved = self._parts.read(what) if self._parts is not None else []
        if saved:
            joined = join_columns(saved)
            # A batch whose frames were not saved may have been computed twice.
            trials, first = np.unique(joined[TRIALS], return_index=True)
            known[trials] = True
            self._on_host = [{name: column[first] for name, column in joined.items()}]
        return known

    def leave_out(self, computed: np.ndarray) -> None:
        """Drop the rows of trials that are computed again (a mask over all trials)."""
        for columns in self._on_host:
            stays = ~computed[columns[TRIALS]]
            columns.update({name: column[stays] for name, column in columns.items()})

    def add(self, trials: np.ndarray, columns: dict[str, Tensor]) -> None:
        """Add the columns of a batch, (batch, ...), which are still on the device."""
        self._on_device.append((trials, columns))
        if self._parts is not None and self._parts.due:
            self.save()

    def save(self) -> None:
        """Save the rows that were added since the last save.

        Raises:
            AsdfError: the rows cannot be written.
        """
        fetched = self._fetch()
        if self._parts is not None:
            for columns in fetched:
                self._parts.add(columns)
            self._parts.save()

    def save_the_rest(self) -> None:
        """Save the remaining rows if scoring took long enough that repeating it would be costly."""
        if self._parts is not None and (self._parts.saved or self._parts.due):
            self.save()

    def of_all(self) -> list[Columns]:
        """Return all rows that this process knows."""
        self._fetch()
        return self._on_host

    def _fetch(self) -> list[Columns]:
        """Copy the rows of all batches to the host at once.

        Copying them batch by batch would make the device wait for the host.
        """
        if not self._on_device:
            return []
        fetched_columns = {TRIALS: np.concatenate([trials for trials, _ in self._on_device])}
        for name in self._on_device[0][1]:
            joined = torch.cat([columns[name] for _, columns in self._on_device])
            fetched_columns[name] = fetch_later(joined)().numpy()
        self._on_device = []
        fetched = [fetched_columns]
        self._on_host += fetched
        return fetched
