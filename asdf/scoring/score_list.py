"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one score, finite, in list order; and it is the same to the last bit on
any number of processes that use the same number of threads (see `asdf.data.scoring_plan`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
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
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG
from asdf.runs.parts import Columns, join_columns
from asdf.runs.progress import track
from asdf.scoring.engine import agree_on_engine
from asdf.scoring.list_frames import ListFrames
from asdf.scoring.list_parts import ROWS, TRIALS, ListRows, open_parts, work_of
from asdf.scoring.precision import agree_on_precision
from asdf.scoring.scorer import Computed, Scorer, TrialLoss
from asdf.segments import FrameTable
from asdf.settings.sections import Sections
from asdf.trials.trial_list import TrialList

_SHOWN = 5


def build_list_scorer(
    network: nn.Module, settings: Sections, world: World, loss: TrialLoss | None = None
) -> Scorer:
    """Return the scorer that all processes share; they come here together.

    Its batches are those that the smallest GPU holds, and it computes in the precision that all
    devices have, so that a trial's score does not depend on the process that computes it.

    Args:
        loss: is computed of each trial too; None: scores alone.

    Raises:
        UsageError: a device does not have the requested precision.
    """
    precision = agree_on_precision(settings.computing.scoring_precision, world)
    engine = agree_on_engine(settings.computing.scoring_engine, precision, world)
    scorer = Scorer(network, settings.network, precision, smallest_gpu(world), engine=engine)
    scorer.trial_loss = loss
    return scorer


class ScoredList(NamedTuple):
    """What a network gives for the trials of a list, in list order.

    Attributes:
        scores: (trials,) float32.
        sources: (trials, classes) float32, logits of the network's classes of sources; None where
            it traces none.
        frames: the scores of the frames of all of each recording; None where none are requested.
        losses: (trials,) float32, of the scorer's loss; None where it has none.
    """

    scores: np.ndarray
    sources: np.ndarray | None = None
    frames: FrameTable | None = None
    losses: np.ndarray | None = None


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
    output: Path | None = None,
) -> ScoredList | None:
    """Score all trials, and trace their sources, on the main rank; None on the others.

    Args:
        scorer: as `build_list_scorer` makes it.
        lengths: Lengths of the utterances, in samples (see `asdf.data.lengths`).
        frames: score the frames of all of each recording too.
        output: the file that the scores are for: what has been scored is saved next to it from time
            to time, and a later call goes on from that (`asdf.scoring.list_parts.remove_parts` once
            the file is written); None: nothing is saved.

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not
            fit into the device's memory.
        UsageError: frames are requested of a network that scores none, or that does not hear whole
            recordings.
        Stopped: a stop was requested; what was scored is saved next to `output`.
    """
    what = f"scoring {utterances.name}"
    batches = scorer.plan_batches(lengths)
    work = work_of(scorer, utterances, batches, settings, frames)
    rows = ListRows(open_parts(output, "rows", work))
    parts = open_parts(output, "frames", work)
    of_frames = ListFrames(scorer, utterances, lengths, settings.sad, parts) if frames else None
    remaining = _take_up(rows, of_frames, batches, world, what)
    local = remaining[world.rank :: world.size]
    workers = settings.computing.network_dataloader_workers
    loader = BatchLoader(WholeUtterances(utterances, settings.sad), workers, world, stop=stop)
    tracked = _track_batches(loader, local, settings, world, what)
    with _saving(rows, of_frames):
        for waveforms, batch in zip(tracked, local, strict=True):
            computed = scorer.compute(waveforms)
            rows.add(batch.trials, _rows_of(computed, scorer.trial_loss, utterances, batch.trials))
            if of_frames is not None:
                of_frames.add(batch, computed.frames_BF)
            if stop:
                break
        if of_frames is not None:
            of_frames.add_long(of_frames.remaining_long_trials(world), stop)
        world.stop_together(stop, f"while {what}")
    log_fallbacks(what, loader.decoded_by_ffmpeg, utterances, len(utterances), world)
    gathered = world.gather(rows.of_all())
    # A failure reaches all ranks; the scores stay on the main one, which alone needs them.
    assembled: list[np.ndarray] = []
    world.run_on_main(lambda: assembled.append(_assemble(gathered or [], utterances, scorer)))
    rows.save_the_rest()
    table = of_frames.gather(world) if of_frames is not None else None
    return _divide(assembled[0], table, scorer) if assembled else None


def _track_batches(
    loader: BatchLoader, batches: list[ScoringBatch], settings: Sections, world: World, what: str
) -> Iterator[Tensor]:
    """Read the waveforms of batches, and show how far they are."""
    return track(
        loader.batches(list(map(keys_of, batches))),
        len(batches),
        what,
        lines_every=settings.network.scoring_print_interval,
        shown=world.is_main,
        unit="batches",
    )


def _take_up(
    rows: ListRows,
    frames: ListFrames | None,
    batches: list[ScoringBatch],
    world: World,
    what: str,
) -> list[ScoringBatch]:
    """Take what earlier starts have saved, on the main rank; return the batches that remain."""
    count = sum(len(batch.trials) for batch in batches)
    known = world.run_on_main(lambda: rows.take_up(what, count))
    if frames is not None:
        known &= frames.take_up(what, world)
    remaining = [batch for batch in batches if not known[batch.trials].all()]
    if not known.any():
        return remaining
    known[_trials_of(remaining)] = False
    rows.leave_out(~known)
    LOG.info("%s goes on: %d of %d trials were scored before", what, known.sum(), count)
    return remaining


@contextmanager
def _saving(rows: ListRows, frames: ListFrames | None) -> Iterator[None]:
    """Save what was scored if the block ends with an error, or a stop."""
    try:
        yield
    except BaseException:
        # Whatever it was: when it is mended, the same command goes on from here.
        rows.save()
        if frames is not None:
            frames.save()
        raise


def _divide(rows: np.ndarray, frames: FrameTable | None, scorer: Scorer) -> ScoredList:
    """Divide rows of a score, what is traced, and the loss, (trials, 1 + classes + losses)."""
    # Copies: a column of rows would hold all of them, and is not laid out as a vector.
    scores_only = np.ascontiguousarray(rows[:, 0])
    losses = None
    traced = rows[:, 1:]
    if scorer.trial_loss is not None:
        losses = np.ascontiguousarray(rows[:, -1])
        traced = rows[:, 1:-1]
    sources = traced.copy() if traced.shape[1] else None
    return ScoredList(scores_only, sources, frames, losses)


def _rows_of(
    computed: Computed, loss: TrialLoss | None, utterances: TrialList, trials: np.ndarray
) -> Tensor:
    """Return a row per trial, (batch, 1 + classes + losses): score, what is traced, the loss."""
    columns = [computed.scores_B.unsqueeze(1)]
    if computed.sources_BK is not None:
        columns.append(computed.sources_BK)
    if loss is not None:
        columns.append(loss.of_trials(computed, utterances, trials).unsqueeze(1))
    return torch.cat(columns, dim=1) if len(columns) > 1 else columns[0]


def keys_of(batch: ScoringBatch) -> list[tuple[int, int]]:
    """Return the keys of a batch for `WholeUtterances`."""
    return [(trial, batch.samples) for trial in batch.trials.tolist()]


def _trials_of(batches: list[ScoringBatch]) -> np.ndarray:
    """The trials of some batches, in the order of their scores; (0,) for none."""
    none = np.zeros(0, np.int64)
    return np.concatenate([none, *(batch.trials for batch in batches)])


def _assemble(parts: list[list[Columns]], utterances: TrialList, scorer: Scorer) -> np.ndarray:
    """Put the rows of all ranks into list order, and check them."""
    # A rank without trials does not know how many numbers a row has.
    joined = join_columns([columns for part in parts for columns in part if len(columns[TRIALS])])
    trials, rows = joined[TRIALS], joined[ROWS]
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} scores for {len(utterances)} trials")
    scores = np.empty_like(rows)
    scores[trials] = rows
    # A loss that is no number spoils no score.
    counted = scores if scorer.trial_loss is None else scores[:, :-1]
    wrong = np.flatnonzero(~np.isfinite(counted).all(axis=1))
    if len(wrong):
        names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
        raise AsdfError(
            f"{len(wrong)} of the {len(scores)} scores of {utterances.name} are not finite "
            f"numbers, first: {names}. The network has probably diverged: choose an earlier "
            "epoch, or train with a lower learning rate or network.gradient_clip_norm. No score "
            "file has been written."
        )
    return scores
