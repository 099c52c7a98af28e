"""Score a trial list exactly once, on any number of processes.

Invariant: each trial gets one finite score, in list order, identical to the last bit on any number
of processes with the same number of threads (see `asdf.data.scoring_plan`). Rows of an earlier run
count only if everything they depend on is unchanged (`work_of`) and their whole batch is known. A
list thus ends with the same bytes however often it was stopped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from asdf.audio.reading import read_blocks
from asdf.audio.speech import identity
from asdf.data.datasets import References, WholeUtterances
from asdf.data.lengths import sampled_sizes
from asdf.data.loaders import BatchLoader
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.gpus import fetch_later
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.errors import AsdfError
from asdf.runs.log import LOG, track
from asdf.runs.parts import Columns, Parts, join_columns
from asdf.scoring.computing import agree_on_engine, agree_on_precision
from asdf.scoring.scorer import Computed, Scorer, TrialLoss
from asdf.scoring.waveform_scorer import OverTime, check_whole_time
from asdf.segments import FrameTable, frame_table
from asdf.settings.sections import Sections, SpeechActivity
from asdf.trials.trial_list import REFERENCE, TrialList
from asdf.version import VERSION

TRIALS, SCORES, LOSSES = "trials", "scores", "losses"
_COUNTS = "counts"
Work = Callable[[], dict[str, Any]]

_SHOWN = 5
# Minimum number of seconds of a file that are read at a time.
_BLOCK_S = 30


def work_of(
    scorer: Scorer,
    utterances: TrialList,
    batches: list[ScoringBatch],
    settings: Sections,
    wanted: Collection[str],
) -> Work:
    """Return a function that describes everything scores depend on, computed once."""

    @cache
    def work() -> dict[str, Any]:
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
        work()
    return work


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

    def restore(self, what: str, count: int) -> np.ndarray:
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

    def drop(self, computed: np.ndarray) -> None:
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


class ListOverTime:
    """The frames of an extra for this rank's trials, added batch by batch.

    Args:
        key: Key of the extra, which has a hop.
        lengths: Lengths of all trials, in samples.
        parts: Parts in which frames are saved from time to time; None: frames are not saved.

    Raises:
        UsageError: the network gives no such extra, or does not hear whole recordings.
    """

    def __init__(
        self,
        scorer: Scorer,
        key: str,
        utterances: TrialList,
        lengths: np.ndarray,
        sad: SpeechActivity,
        parts: Parts | None = None,
    ) -> None:
        check_whole_time(key, sad)
        self._over_time = OverTime(scorer, key, scorer.window_samples)
        self._audio = scorer.audio
        self._utterances = utterances
        self._lengths = lengths
        self._pending: list[tuple[ScoringBatch, Callable[[], Tensor]]] = []
        self._rows: dict[int, np.ndarray] = {}
        self._parts = parts
        self._unsaved: list[int] = []
        self._known = np.zeros(len(utterances), bool)

    def restore(self, what: str, world: World) -> np.ndarray:
        """Restore the frames of earlier runs on the main rank; return a mask of these trials.

        The mask includes trials that are longer than the input of the network; their batches need
        not be computed for the frames.
        """

        def read() -> np.ndarray:
            known = np.zeros(len(self._utterances), bool)
            for part in self._parts.read(what) if self._parts is not None else []:
                rows = np.split(part[SCORES], np.cumsum(part[_COUNTS])[:-1])
                known[part[TRIALS]] = True
                self._rows.update(zip(part[TRIALS].tolist(), rows, strict=True))
            return known

        self._known = world.run_on_main(read)
        done: np.ndarray = self._known | (self._lengths > self._over_time.max_samples)
        return done

    def save(self) -> None:
        """Save the frames that have reached the host and are not saved yet.

        Raises:
            AsdfError: they cannot be written.
        """
        if self._parts is None:
            return
        for trial in self._unsaved:
            row = self._rows[trial]
            counts = np.array([len(row)], np.int64)
            self._parts.add({TRIALS: np.array([trial]), _COUNTS: counts, SCORES: row})
        self._unsaved = []
        self._parts.save()

    def add(self, batch: ScoringBatch, frames_BF: Tensor) -> None:
        """Add the frames of a batch, which are still on the device."""
        self._pending.append((batch, fetch_later(frames_BF)))
        # A batch later, so that its copy arrives while the device computes the next one.
        if len(self._pending) > 1:
            self._take()

    def add_long(self, trials: np.ndarray, stop: StopRequest) -> None:
        """Add the frames of trials that are longer than the input of the network.

        Raises:
            AsdfError: a recording cannot be read.
        """
        block = max(self._over_time.window, _BLOCK_S * self._audio.sample_rate)
        for trial in trials.tolist():
            if stop:
                return
            blocks = read_blocks(self._utterances.path(trial), block, self._audio)
            row, _ = self._over_time.of_blocks(blocks)
            self._note(trial, row)

    def long_trials(self) -> np.ndarray:
        """Return the trials, on all ranks, that are too long for the network and not saved yet."""
        trials: np.ndarray = np.arange(len(self._lengths))
        return trials[(self._lengths > self._over_time.max_samples) & ~self._known]

    def local_rows(self) -> dict[int, np.ndarray]:
        """Return the frames of the trials that were added, (frames,) each."""
        while self._pending:
            self._take()
        if self._parts is not None and (self._parts.saved or self._parts.due):
            self.save()
        return self._rows

    def gather(self, world: World) -> FrameTable | None:
        """Return the frames of all trials, on the main rank; None on the others.

        All ranks call this together.
        """
        gathered = world.gather(self.local_rows())
        if gathered is None:
            return None
        rows = {trial: row for part in gathered for trial, row in part.items()}
        rate = self._audio.sample_rate
        return frame_table(
            self._utterances.ids,
            [rows[trial] for trial in range(len(rows))],
            self._over_time.hop / rate,
            np.asarray(self._lengths, np.float64) / rate,
        )

    def _take(self) -> None:
        """Store the frames of the oldest batch once they have reached the host."""
        batch, fetch = self._pending.pop(0)
        for trial, row in zip(batch.trials.tolist(), fetch().numpy(), strict=True):
            samples = int(self._lengths[trial])
            # Longer recordings are scored in windows.
            if samples <= self._over_time.max_samples:
                self._note(trial, self._over_time.extra.fit(row, samples))

    def _note(self, trial: int, row: np.ndarray) -> None:
        self._rows[trial] = row
        self._unsaved.append(trial)
        if self._parts is not None and self._parts.due:
            self.save()


def build_list_scorer(
    network: nn.Module,
    settings: Sections,
    world: World,
    loss: TrialLoss | None = None,
    owns_network: bool = False,
) -> Scorer:
    """Return the scorer that all processes share; all processes call this together.

    Batches fit into the smallest GPU, and the precision is one that all devices have, so a trial's
    score does not depend on the process that computes it.

    Args:
        loss: Loss to compute for each trial too; None: scores alone.
        owns_network: Whether only this scorer uses the network, as in `Scorer`.

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
        owns_network=owns_network,
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
    settings: Sections,
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
    settings: Sections,
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
            to time, and a later call resumes from them (`asdf.scoring.score_list.remove_parts` once
            the file is written); None: nothing is saved.

    Raises:
        AsdfError: a recording cannot be read, a score is not a finite number, or a batch does not
            fit into the device's memory.
        UsageError: the network gives no such extra, or does not hear whole recordings, and an extra
            follows their time.
        Stopped: a stop was requested; what was scored is saved next to `output`.
    """
    for key in wanted:
        scorer.require(key)
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
    remaining = progress.restore(batches, world, what)
    # In turn, since batches come from the longest to the shortest: all ranks get both.
    local = remaining[world.rank :: world.size]
    heard = (utterances, settings.sad, settings.audio, scorer.channels)
    workers = settings.computing.network_dataloader_workers
    loader = BatchLoader(WholeUtterances(*heard), workers, world, stop=stop)
    references: Iterable[Tensor | None] = repeat(None, len(local))
    if scorer.takes_references:
        beside = BatchLoader(References(*heard), workers, world, stop=stop)
        references = beside.batches(list(map(keys_of, local)))
    tracked = track(
        loader.batches(list(map(keys_of, local))),
        len(local),
        what,
        lines_every=settings.network.scoring_print_interval,
        shown=world.is_main,
        unit="batches",
    )
    try:
        for waveforms, reference, batch in zip(tracked, references, local, strict=True):
            progress.add(batch, scorer.compute(waveforms, wanted, reference), scorer, utterances)
            if stop:
                break
        for timed in over_time.values():
            timed.add_long(timed.long_trials()[world.rank :: world.size], stop)
        world.stop_together(stop, f"while {what}")
    except BaseException:
        # Once the cause of the error is fixed, the same command resumes from here.
        progress.rows.save()
        for timed in over_time.values():
            timed.save()
        raise
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

    def restore(self, batches: list[ScoringBatch], world: World, what: str) -> list[ScoringBatch]:
        """Restore what earlier runs saved, on the main rank; return the remaining batches."""
        count = sum(len(batch.trials) for batch in batches)
        known = world.run_on_main(lambda: self.rows.restore(what, count))
        for timed in self.over_time.values():
            # A trial is done only if all of its outputs are saved.
            known &= timed.restore(what, world)
        remaining = [batch for batch in batches if not known[batch.trials].all()]
        if not known.any():
            return remaining
        # Last digits depend on the batch, which is therefore computed as a whole.
        for batch in remaining:
            known[batch.trials] = False
        self.rows.drop(~known)
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
        rows = ordered[name].reshape(len(column), -1)
        wrong = np.flatnonzero(~np.isfinite(rows).all(axis=1))
        # A loss that is not finite does not invalidate the score.
        if len(wrong) and name != LOSSES:
            names = ", ".join(utterances.ids[index] for index in wrong[:_SHOWN])
            raise AsdfError(
                f"{len(wrong)} of the {len(rows)} {name} of {utterances.name} are not finite "
                f"numbers, first: {names}. The network has probably diverged: choose an earlier "
                "epoch, or train with a lower learning rate."
            )
    return ordered
