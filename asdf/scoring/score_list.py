"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one score, finite, in list order; and it is the same to the last bit on
any number of processes that use the same number of threads (see `asdf.data.scoring_plan`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from asdf.data.datasets import WholeUtterances
from asdf.data.decoders import log_fallbacks
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.resources import smallest_gpu
from asdf.distributed.stopping import StopRequest
from asdf.distributed.transfer import fetch_later
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.progress import track
from asdf.scoring.engine import agree_on_engine
from asdf.scoring.list_frames import ListFrames
from asdf.scoring.precision import agree_on_precision
from asdf.scoring.scorer import Computed, Scorer
from asdf.segments import FrameTable
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

_SHOWN = 5


def build_list_scorer(network: nn.Module, settings: Sections, world: World) -> Scorer:
    """Return the scorer that all processes share; they come here together.

    Its batches are those that the smallest GPU holds, and it computes in the precision that all
    devices have, so that a trial's score does not depend on the process that computes it.

    Raises:
        UsageError: a device does not have the requested precision.
    """
    precision = agree_on_precision(settings.computing.scoring_precision, world)
    engine = agree_on_engine(settings.computing.scoring_engine, precision, world)
    return Scorer(network, settings.network, precision, smallest_gpu(world), engine=engine)


class ScoredList(NamedTuple):
    """What a network gives for the trials of a list, in list order.

    Attributes:
        scores: (trials,) float32.
        sources: (trials, classes) float32, logits of the network's classes of sources; None where
            it traces none.
        frames: the scores of the frames of all of each recording; None where none are requested.
    """

    scores: np.ndarray
    sources: np.ndarray | None = None
    frames: FrameTable | None = None


def score_list(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
) -> np.ndarray | None:
    """Score all trials: float32, in list order, on the main rank; None on the others.

    Args and errors are those of `score_and_trace`.
    """
    scored = score_and_trace(scorer, utterances, lengths, settings, world, stop)
    return None if scored is None else scored.scores


def score_and_trace(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: Sections,
    world: World,
    stop: StopRequest,
    frames: bool = False,
) -> ScoredList | None:
    """Score all trials, and trace their sources, on the main rank; None on the others.

    Args:
        scorer: as `build_list_scorer` makes it.
        lengths: of the utterances, in samples (see `asdf.data.lengths`).
        frames: score the frames of all of each recording too.

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not
            fit into the device's memory.
        UsageError: frames are requested of a network that scores none, or that does not hear whole
            recordings.
        Stopped: a stop was requested; no score is returned.
    """
    what = f"scoring {utterances.name}"
    local = scorer.plan_batches(lengths)[world.rank :: world.size]
    dataset = WholeUtterances(utterances, settings.sad)
    loader = BatchLoader(dataset, settings.computing.network_dataloader_workers, world, stop=stop)
    keys = [keys_of(batch) for batch in local]
    list_frames = ListFrames(scorer, utterances, lengths, settings.sad) if frames else None
    tracked = track(
        loader.batches(keys),
        len(local),
        what,
        lines_every=settings.network.scoring_print_interval,
        shown=world.is_main,
        unit="batches",
    )
    scores: list[Tensor] = []
    for waveforms, batch in zip(tracked, local, strict=True):
        computed = scorer.compute(waveforms)
        scores.append(_rows_of(computed))
        if list_frames is not None:
            list_frames.add(batch, computed.frames_BF)
        if stop:
            break
    if list_frames is not None:
        list_frames.add_long(list_frames.long_trials()[world.rank :: world.size], stop)
    world.stop_together(stop, f"while {what}")
    log_fallbacks(what, loader.decoded_by_ffmpeg, utterances, len(utterances), world)
    gathered = world.gather((_trials_of(local), _fetch(scores)))
    # A failure reaches all ranks; the scores stay on the main one, which alone needs them.
    assembled: list[np.ndarray] = []
    world.run_on_main(lambda: assembled.append(_assemble(gathered or [], utterances)))
    table = list_frames.gather(world) if list_frames is not None else None
    return _divide(assembled[0], table) if assembled else None


def _divide(rows: np.ndarray, frames: FrameTable | None) -> ScoredList:
    """Divide rows of a score and what is traced, (trials, 1 + classes)."""
    # Copies: a column of rows would hold all of them, and is not laid out as a vector.
    scores_only = np.ascontiguousarray(rows[:, 0])
    sources = rows[:, 1:].copy() if rows.shape[1] > 1 else None
    return ScoredList(scores_only, sources, frames)


def _rows_of(computed: Computed) -> Tensor:
    """Return a row per trial, (batch, 1 + classes): its score, then what is traced."""
    scores_B1 = computed.scores_B.unsqueeze(1)
    if computed.sources_BK is None:
        return scores_B1
    return torch.cat([scores_B1, computed.sources_BK], dim=1)


def keys_of(batch: ScoringBatch) -> list[tuple[int, int]]:
    """Return the keys of a batch for `WholeUtterances`."""
    return [(trial, batch.samples) for trial in batch.trials.tolist()]


def _trials_of(batches: list[ScoringBatch]) -> np.ndarray:
    """The trials of some batches, in the order of their scores; (0,) for none."""
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(batch.trials for batch in batches)])


def _fetch(scores: list[Tensor]) -> np.ndarray:
    """Bring the rows of all batches to the host, (trials, numbers).

    They stay on the device until here: fetching each batch's would make it wait for the host.
    """
    if not scores:
        return np.zeros((0, 0), np.float32)
    return fetch_later(torch.cat(scores))().numpy()


def _assemble(parts: list[tuple[np.ndarray, np.ndarray]], utterances: TrialList) -> np.ndarray:
    """Put the rows of all ranks, as (trials, rows), into list order, and check them."""
    trials = np.concatenate([trials for trials, _ in parts])
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} scores for {len(utterances)} trials")
    # A rank without trials does not know how many numbers a row has.
    rows = np.concatenate([rows for _, rows in parts if len(rows)])
    scores = np.empty_like(rows)
    scores[trials] = rows
    wrong = np.flatnonzero(~np.isfinite(scores).all(axis=1))
    if len(wrong):
        names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
        raise AsdfError(
            f"{len(wrong)} of the {len(scores)} scores of {utterances.name} are not finite "
            f"numbers, first: {names}. The network has probably diverged: choose an earlier "
            "epoch, or train with a lower learning rate or network.gradient_clip_norm. No score "
            "file has been written."
        )
    return scores
