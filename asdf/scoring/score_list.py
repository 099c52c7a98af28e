"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one finite score, in list order, identical to the last bit on any number
of processes with the same number of threads (see `asdf.data.scoring_plan`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import repeat
from pathlib import Path
from typing import NamedTuple

import numpy as np
from torch import Tensor, nn

from asdf.data.datasets import References, WholeUtterances
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG, track
from asdf.runs.parts import Columns, join_columns
from asdf.scoring.agreement import ScoringSettings, agree_on_engine, agree_on_precision
from asdf.scoring.list_over_time import ListOverTime
from asdf.scoring.list_parts import LOSSES, SCORES, TRIALS, ListRows, open_parts, work_of
from asdf.scoring.scorer import Computed, Scorer, TrialLoss
from asdf.segments import FrameTable
from asdf.settings.sections import Network
from asdf.trials.trial_list import TrialList

_SHOWN = 5


def build_list_scorer(
    network: nn.Module, settings: ScoringSettings, world: World, loss: TrialLoss | None = None
) -> Scorer:
    """Return the scorer that all processes share; all processes call this together.

    Batches fit into the smallest GPU, and the precision is one that all devices have, so a trial's
    score does not depend on the process that computes it.

    Args:
        loss: Loss to compute for each trial too; None: scores alone.

    Raises:
        UsageError: a device does not have the requested precision.
    """
    precision = agree_on_precision(settings.computing.scoring_precision, world)
    engine = agree_on_engine(settings.computing.scoring_engine, precision, world)
    scorer = Scorer(
        network,
        settings.network,
        precision,
        world.smallest_gpu(),
        engine=engine,
        audio=settings.audio,
    )
    scorer.trial_loss = loss
    return scorer


class ScoredList(NamedTuple):
    """The outputs of a network for the trials of a list, in list order.

    Attributes:
        scores: Scores of the trials, (trials,) float32.
        extras: Rows of extras, (trials, numbers) float32, by key.
        over_time: Tables of the extras that follow the time of each whole recording, by key.
        losses: Losses of the trials, (trials,) float32; None if the scorer has no loss.
    """

    scores: np.ndarray
    extras: Mapping[str, np.ndarray]
    over_time: Mapping[str, FrameTable]
    losses: np.ndarray | None = None


def score_list(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: ScoringSettings,
    world: World,
    stop: StopRequest,
) -> np.ndarray | None:
    """Score all trials: float32, in list order, on the main rank; None on the others.

    Arguments and errors are those of `score_with_extras`.
    """
    scored = score_with_extras(scorer, utterances, lengths, settings, world, stop)
    return None if scored is None else scored.scores


def score_with_extras(
    scorer: Scorer,
    utterances: TrialList,
    lengths: np.ndarray,
    settings: ScoringSettings,
    world: World,
    stop: StopRequest,
    wanted: Collection[str] = (),
    output: Path | None = None,
) -> ScoredList | None:
    """Score all trials, with extras, on the main rank; return None on the others.

    Args:
        scorer: Scorer of `build_list_scorer`.
        lengths: Lengths of the utterances, in samples (see `asdf.data.lengths`).
        wanted: Keys of the extras to compute on request.
        output: Path of the file for the scores. Intermediate results are saved next to it from time
            to time, and a later call resumes from them (`asdf.scoring.list_parts.remove_parts` once
            the file is written); None: nothing is saved.

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not
            fit into the device's memory.
        UsageError: the network gives no such extra, or does not hear whole recordings, and an extra
            follows their time.
        Stopped: a stop was requested; what was scored is saved next to `output`.
    """
    scorer.require(wanted)
    what = f"scoring {utterances.name}"
    batches = scorer.plan_batches(lengths)
    work = work_of(scorer, utterances, batches, settings, wanted)
    over_time = {}
    for key in wanted:
        if scorer.extras[key].hop is None:
            continue
        parts = open_parts(output, key, work)
        over_time[key] = ListOverTime(scorer, key, utterances, lengths, settings.sad, parts)
    progress = _Progress(ListRows(open_parts(output, "rows", work)), over_time)
    remaining = progress.take_up(batches, world, what)
    # In turn, since batches come from the longest to the shortest: all ranks get both.
    local = remaining[world.rank :: world.size]
    heard = (utterances, settings.sad, settings.audio, scorer.channels)
    workers = settings.computing.network_dataloader_workers
    loader = BatchLoader(WholeUtterances(*heard), workers, world, stop=stop)
    references: Iterable[Tensor | None] = repeat(None, len(local))
    if scorer.takes_references:
        beside = BatchLoader(References(*heard), workers, world, stop=stop)
        references = beside.batches(list(map(keys_of, local)))
    tracked = _track_batches(loader, local, settings.network, world, what)
    with progress.saved_after_failures():
        for waveforms, reference, batch in zip(tracked, references, local, strict=True):
            progress.add(batch, scorer.compute(waveforms, wanted, reference), scorer, utterances)
            if stop:
                break
        progress.add_long(world, stop)
        world.stop_together(stop, f"while {what}")
    return progress.gather(world, utterances)


@dataclass(frozen=True)
class _Progress:
    """The results so far of a list that is being scored.

    Attributes:
        rows: Columns of numbers per trial.
        over_time: Extras that follow time, by key.
    """

    rows: ListRows
    over_time: dict[str, ListOverTime]

    def take_up(self, batches: list[ScoringBatch], world: World, what: str) -> list[ScoringBatch]:
        """Restore what earlier runs saved, on the main rank; return the remaining batches."""
        count = sum(len(batch.trials) for batch in batches)
        known = world.run_on_main(lambda: self.rows.take_up(what, count))
        for timed in self.over_time.values():
            # A trial is done only if all of its outputs are saved.
            known &= timed.take_up(what, world)
        remaining = [batch for batch in batches if not known[batch.trials].all()]
        if not known.any():
            return remaining
        # Last digits depend on the batch, which is therefore computed as a whole.
        for batch in remaining:
            known[batch.trials] = False
        self.rows.leave_out(~known)
        LOG.info("%s resumes: %d of %d trials are scored already", what, known.sum(), count)
        return remaining

    def add(
        self, batch: ScoringBatch, computed: Computed, scorer: Scorer, utterances: TrialList
    ) -> None:
        """Add the outputs of a batch, and the scorer's loss."""
        columns = {SCORES: computed.scores_B}
        if scorer.trial_loss is not None:
            columns[LOSSES] = scorer.trial_loss.of_trials(computed, utterances, batch.trials)
        for key, values in computed.extras.items():
            if key in self.over_time:
                self.over_time[key].add(batch, values)
            else:
                columns[key] = values
        self.rows.add(batch.trials, columns)

    def add_long(self, world: World, stop: StopRequest) -> None:
        """Add the extras that follow time, for recordings longer than the network's input."""
        for timed in self.over_time.values():
            timed.add_long(timed.remaining_long_trials(world), stop)

    def gather(self, world: World, utterances: TrialList) -> ScoredList | None:
        """Return the results of all trials on the main rank; None on the others.

        All ranks call this together.

        Raises:
            AsdfError: a score is not a finite number.
        """
        gathered = world.gather(self.rows.of_all())
        # A failure reaches all ranks; the scores stay on the main one, the only one that needs
        # them.
        assembled: list[Columns] = []
        world.run_on_main(lambda: assembled.append(_assemble(gathered or [], utterances)))
        self.rows.save_the_rest()
        tables = {key: timed.gather(world) for key, timed in self.over_time.items()}
        if not assembled:
            return None
        extras = assembled[0]
        scores, losses_N = extras.pop(SCORES), extras.pop(LOSSES, None)
        found = {key: table for key, table in tables.items() if table is not None}
        return ScoredList(scores, extras, found, losses_N)

    @contextmanager
    def saved_after_failures(self) -> Iterator[None]:
        """Save what has been scored if the block ends with an error, or a stop."""
        try:
            yield
        except BaseException:
            # Once the cause of the error is fixed, the same command resumes from here.
            self.rows.save()
            for timed in self.over_time.values():
                timed.save()
            raise


def _track_batches(
    loader: BatchLoader, batches: list[ScoringBatch], settings: Network, world: World, what: str
) -> Iterator[Tensor]:
    """Read the waveforms of the batches, and show the progress."""
    return track(
        loader.batches(list(map(keys_of, batches))),
        len(batches),
        what,
        lines_every=settings.scoring_print_interval,
        shown=world.is_main,
        unit="batches",
    )


def keys_of(batch: ScoringBatch) -> list[tuple[int, int]]:
    """Return the keys of a batch for `WholeUtterances`."""
    return [(trial, batch.samples) for trial in batch.trials.tolist()]


def _assemble(parts: list[list[Columns]], utterances: TrialList) -> Columns:
    """Put the columns of all ranks into list order, and check them."""
    # A rank without trials has no columns.
    joined = join_columns([columns for part in parts for columns in part if len(columns[TRIALS])])
    trials = joined.pop(TRIALS)
    if not np.array_equal(np.sort(trials), np.arange(len(utterances))):
        raise RuntimeError(f"{utterances.name}: {len(trials)} scores for {len(utterances)} trials")
    ordered = {}
    for name, column in joined.items():
        ordered[name] = np.empty_like(column)
        ordered[name][trials] = column
        # A loss that is not finite does not invalidate the score.
        if name != LOSSES:
            _check_finite(name, ordered[name], utterances)
    return ordered


def _check_finite(what: str, column: np.ndarray, utterances: TrialList) -> None:
    rows = column.reshape(len(column), -1)
    wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
    if not len(wrong):
        return
    names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
    raise AsdfError(
        f"{len(wrong)} of the {len(rows)} {what} of {utterances.name} are not finite numbers, "
        f"first: {names}. The network has probably diverged: choose an earlier epoch, or train "
        "with a lower learning rate or network.gradient_clip_norm. No file has been written."
    )
