"""Embeddings of the references of a list, each computed once.

Invariant: batches of references are formed before they are divided among processes, as for trials
(`asdf.data.scoring_plan`), so an embedding, and every score that depends on it, is the same to the
last bit on any number of processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from asdf.data.datasets import WholeUtterances
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.gpus import fetch_later
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.networks.pair_network import no_reference
from asdf.runs.log import LOG
from asdf.runs.progress import track
from asdf.scoring.agreement import ScoringSettings
from asdf.scoring.scorer import Scorer
from asdf.trials.reference_files import DistinctReferences
from asdf.trials.trial_list import TrialList


@dataclass(frozen=True, eq=False)
class ReferenceEmbeddings:
    """The embeddings of the references of a list, (references, ...) float32 on the host."""

    distinct: DistinctReferences
    embeddings: Tensor

    def of(self, trials: np.ndarray) -> Tensor:
        """Return the mean embeddings of the references of each of `trials`, (batch, ...)."""
        means = []
        for trial in trials.tolist():
            rows = torch.from_numpy(self.distinct.of(trial))
            means.append(self.embeddings[rows].mean(dim=0))
        return torch.stack(means)


def load_whole(
    recordings: TrialList,
    scorer: Scorer,
    settings: ScoringSettings,
    world: World,
    stop: StopRequest,
) -> BatchLoader:
    """Return a loader of the beginnings of recordings, as a scorer hears them."""
    whole = WholeUtterances(recordings, settings.sad, settings.audio, scorer.channels)
    workers = settings.computing.network_dataloader_workers
    return BatchLoader(whole, workers, world, stop=stop)


def embed_references(
    scorer: Scorer,
    are_needed: bool,
    settings: ScoringSettings,
    world: World,
    stop: StopRequest,
) -> ReferenceEmbeddings | None:
    """Embed each distinct reference of the scorer's list once, by all processes together.

    A list that was stopped computes them again on resuming; this is cheap next to the list.

    Args:
        are_needed: Whether trials are still to be scored.

    Returns:
        Embeddings of the references; None if they are not needed or the network takes none.

    Raises:
        UsageError: the network takes references, and the list has none.
        AsdfError: a reference cannot be read, its embedding is not finite, or a batch does not fit
            into the device's memory.
        Stopped: a stop was requested.
    """
    references = scorer.list_references
    if not scorer.takes_references:
        return None
    if references is None:
        raise no_reference(scorer.name)
    if not are_needed:
        return None
    recordings = references.distinct.recordings
    what = f"embedding {recordings.name}"
    batches = scorer.plan_batches(references.lengths)
    local = batches[world.rank :: world.size]
    loader = load_whole(recordings, scorer, settings, world, stop)
    keys = []
    for batch in local:
        keys.append([(index, batch.samples) for index in batch.trials.tolist()])
    read = loader.batches(keys)
    tracked = track(read, len(local), what, shown=world.is_main, unit="batches")
    rows = []
    for waveforms, batch in zip(tracked, local, strict=True):
        rows.append((batch, fetch_later(scorer.embed(waveforms))))
        if stop:
            break
    # Only now, so that the device did not wait for the host between batches.
    computed = [(batch, fetch().numpy()) for batch, fetch in rows]
    world.stop_together(stop, f"while {what}")
    gathered = world.gather(computed)
    joined = world.run_on_main(lambda: _join(gathered or [], references.distinct))
    LOG.info("%s: %d recordings, each once", what, len(recordings))
    return ReferenceEmbeddings(references.distinct, torch.from_numpy(joined))


def _join(
    parts: Sequence[Sequence[tuple[ScoringBatch, np.ndarray]]], distinct: DistinctReferences
) -> np.ndarray:
    """Put the embeddings of all processes into the order of the references, and check them."""
    whole: np.ndarray | None = None
    for part in parts:
        for batch, values in part:
            if whole is None:
                whole = np.empty((len(distinct.recordings), *values.shape[1:]), np.float32)
            if values.shape[1:] != whole.shape[1:]:
                raise AsdfError(
                    f"embeddings of references have several shapes, {whole.shape[1:]} and "
                    f"{values.shape[1:]}: the network's embed must return as many numbers for "
                    "recordings of any length."
                )
            whole[batch.trials] = values
    assert whole is not None  # a list has references
    wrong = np.flatnonzero(~np.isfinite(whole.reshape(len(whole), -1)).all(axis=1))
    if len(wrong):
        raise AsdfError(
            f"the embeddings of {len(wrong)} references are not finite numbers, first: "
            f"{distinct.recordings.ids[int(wrong[0])]}. The network has probably diverged."
        )
    return whole
