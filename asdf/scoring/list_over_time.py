"""An extra that follows time, for the trials of a list, on any number of processes.

Invariant: the frames of a trial are those it has by itself (`asdf.scoring.over_time`), identical to
the last bit on any number of processes. Frames leave the device one batch after they are computed,
so the device need not wait for the host.

Shapes: B trials of a batch, F frames.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor

from asdf.audio.streaming import read_blocks
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.gpus import fetch_later
from asdf.distributed.stopping import StopRequest
from asdf.distributed.world import World
from asdf.runs.parts import Parts
from asdf.scoring.over_time import OverTime, Timed, check_whole_time
from asdf.scoring.scorer import Scorer
from asdf.segments import FrameTable, frame_table
from asdf.settings.sections import SpeechActivity
from asdf.trials.trial_list import TrialList

_Pending = tuple[ScoringBatch, Callable[[], Tensor]]
# Minimum number of seconds of a file that are read at a time.
_BLOCK_S = 30
_TRIALS, _COUNTS, _SCORES, _DURATIONS = "trials", "counts", "scores", "durations_s"


class ListOverTime:
    """An extra for this rank's trials, added batch by batch.

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
        max_samples = scorer.length.max_samples
        assert max_samples is not None  # settings always have a limit
        self._over_time = OverTime(scorer, key, max_samples)
        self._audio = scorer.audio
        self._utterances = utterances
        self._lengths = lengths
        self._pending: list[_Pending] = []
        self._scores: dict[int, np.ndarray] = {}
        self._durations_s: dict[int, float] = {}
        self._parts = parts
        self._unsaved: list[int] = []
        self._known = np.zeros(len(utterances), bool)

    def take_up(self, what: str, world: World) -> np.ndarray:
        """Restore the frames of earlier runs on the main rank; return a mask of these trials.

        The mask includes trials that are longer than the input of the network; their batches need
        not be computed for the frames.
        """
        self._known = world.run_on_main(lambda: self._read(what))
        is_long = np.zeros_like(self._known)
        is_long[self.long_trials()] = True
        return self._known | is_long

    def _read(self, what: str) -> np.ndarray:
        known = np.zeros(len(self._utterances), bool)
        for part in self._parts.read(what) if self._parts is not None else []:
            ends = np.cumsum(part[_COUNTS])[:-1]
            rows = np.split(part[_SCORES], ends)
            known[part[_TRIALS]] = True
            self._scores.update(zip(part[_TRIALS].tolist(), rows, strict=True))
            self._durations_s.update(
                zip(part[_TRIALS].tolist(), part[_DURATIONS].tolist(), strict=True)
            )
        return known

    def save(self) -> None:
        """Save the frames that have reached the host and are not saved yet.

        Raises:
            AsdfError: they cannot be written.
        """
        if self._parts is None:
            return
        for trial in self._unsaved:
            scores = self._scores[trial]
            self._parts.add(
                {
                    _TRIALS: np.array([trial], np.int64),
                    _COUNTS: np.array([len(scores)], np.int64),
                    _SCORES: scores,
                    _DURATIONS: np.array([self._durations_s[trial]], np.float64),
                }
            )
        self._unsaved = []
        self._parts.save()

    def add(self, batch: ScoringBatch, frames_BF: Tensor) -> None:
        """Add the frames of a batch, which are still on the device."""
        self._pending.append((batch, fetch_later(frames_BF)))
        # A batch later, so that its copy arrives while the device computes the next one.
        if len(self._pending) > 1:
            self._take(self._pending.pop(0))

    def add_long(self, trials: np.ndarray, stop: StopRequest) -> None:
        """Add the frames of trials that are longer than the input of the network.

        Raises:
            AsdfError: a recording cannot be read.
        """
        block = max(self._over_time.window, _BLOCK_S * self._audio.sample_rate)
        for trial in trials.tolist():
            if stop:
                return
            path = self._utterances.path(trial)
            self._note(trial, self._over_time.of_blocks(read_blocks(path, block, self._audio)))

    def long_trials(self) -> np.ndarray:
        """Return the trials, on all ranks, that are longer than the input of the network."""
        return np.flatnonzero(self._lengths > self._over_time.max_samples)

    def remaining_long_trials(self, world: World) -> np.ndarray:
        """Return this rank's share of the long trials that are not saved yet."""
        trials = self.long_trials()
        remaining: np.ndarray = trials[~self._known[trials]]
        return remaining[world.rank :: world.size]

    def local_scores(self) -> dict[int, np.ndarray]:
        """Return the scores of the trials that were added, (frames,) each."""
        for pending in self._pending:
            self._take(pending)
        self._pending = []
        if self._parts is not None and (self._parts.saved or self._parts.due):
            self.save()
        return self._scores

    def gather(self, world: World) -> FrameTable | None:
        """Return the frames of all trials, on the main rank; None on the others.

        All ranks call this together.
        """
        parts = world.gather((self.local_scores(), self._durations_s))
        if not world.is_main:
            return None
        scores: dict[int, np.ndarray] = {}
        durations_s: dict[int, float] = {}
        for local_scores, local_durations_s in parts or []:
            scores.update(local_scores)
            durations_s.update(local_durations_s)
        trials = range(len(self._utterances))
        return frame_table(
            self._utterances.ids,
            [scores[trial] for trial in trials],
            self._over_time.hop / self._audio.sample_rate,
            np.array([durations_s[trial] for trial in trials], np.float64),
        )

    def _take(self, pending: _Pending) -> None:
        """Store the frames of a batch once they have reached the host."""
        batch, fetch = pending
        for trial, row in zip(batch.trials.tolist(), fetch().numpy(), strict=True):
            samples = int(self._lengths[trial])
            # Longer recordings are scored in windows.
            if samples <= self._over_time.max_samples:
                self._note(trial, Timed(self._over_time.extra.fit(row, samples), samples))

    def _note(self, trial: int, timed: Timed) -> None:
        self._scores[trial] = timed.row
        self._durations_s[trial] = timed.samples / self._audio.sample_rate
        self._unsaved.append(trial)
        if self._parts is not None and self._parts.due:
            self.save()
