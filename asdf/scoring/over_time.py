"""Extras that follow the time of a recording, such as the scores of its frames.

Invariant: every sample of a recording is in exactly one frame, and each frame is computed with its
context. A recording longer than a trial is heard in overlapping windows; each frame comes from the
window whose ends are further away. The windows depend only on the recording's length, so the values
are the same in a list and alone, to the last bit, on any number of processes.

Shapes: B trials of a batch, F frames, T samples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from torch import Tensor

from asdf.audio.reading import read_blocks
from asdf.audio.speech import needs_whole_recording
from asdf.data.scoring_plan import ScoringBatch
from asdf.distributed.gpus import fetch_later
from asdf.errors import UsageError
from asdf.networks.attached import Extra
from asdf.scoring.scorer import Scorer, WaveformScorer
from asdf.segments import FrameTable, frame_table
from asdf.settings.sections import SpeechActivity
from asdf.trials.trial_list import TrialList

if TYPE_CHECKING:
    from asdf.distributed.stopping import StopRequest
    from asdf.distributed.world import World
    from asdf.runs.parts import Parts

# Maximum overlap of two windows.
_OVERLAP_S = 4
# Samples of windows in memory together: 64 MiB.
_HELD_SAMPLES = 2**24

_Pending = tuple[ScoringBatch, Callable[[], Tensor]]
# Minimum number of seconds of a file that are read at a time.
_BLOCK_S = 30
_TRIALS, _COUNTS, _SCORES, _DURATIONS = "trials", "counts", "scores", "durations_s"


class Timed(NamedTuple):
    """An extra of a recording: the values of its frames, (F,), and the recording's samples."""

    row: np.ndarray
    samples: int


@dataclass(frozen=True)
class OverTime:
    """Computation of an extra of long recordings.

    Attributes:
        key: Key of the extra, which has a hop.
        max_samples: Maximum number of samples that the network hears at once.
        hop: Samples per frame.
        window: Samples of a window of a longer recording, a multiple of the frame length.
        overlap: Samples that two windows share, an even multiple of the frame length.
    """

    scorer: WaveformScorer
    key: str
    max_samples: int
    hop: int = field(init=False)
    window: int = field(init=False)
    overlap: int = field(init=False)

    def __post_init__(self) -> None:
        self.scorer.require([self.key])
        hop = self.extra.hop
        assert hop is not None  # only such extras come here
        if self.max_samples < hop:
            raise UsageError(
                f"the network hears the first {self.max_samples} samples of a recording, less "
                f"than one of its frames ({hop} samples): raise "
                "network.max_evaluation_utterance_length_in_samples."
            )
        window = self.max_samples - self.max_samples % hop
        overlap = min(window // 2, _OVERLAP_S * self.scorer.audio.sample_rate)
        object.__setattr__(self, "hop", hop)
        object.__setattr__(self, "window", window)
        # Half of the overlap is whole frames: there, one window hands over to the next.
        object.__setattr__(self, "overlap", overlap - overlap % (2 * hop))

    @property
    def extra(self) -> Extra:
        """The extra."""
        return self.scorer.extras[self.key]

    def of_blocks(self, blocks: Iterable[np.ndarray]) -> Timed:
        """Return the extra of a recording that arrives in blocks (T,).

        Raises:
            AsdfError: as `WaveformScorer.score_waveforms`.
        """
        parts: list[np.ndarray] = []
        half = self.overlap // 2 // self.hop
        end = 0
        windows = self._cut(blocks)
        together = max(1, _HELD_SAMPLES // self.window)
        while group := list(islice(windows, together)):
            outcomes = self.scorer.score_waveforms([part for _, part in group], [self.key])
            for (start, waveform), row in zip(group, outcomes.extras[self.key], strict=True):
                values = row
                if parts:
                    # The previous window provides the frames up to the middle of the overlap.
                    parts[-1] = parts[-1][: len(parts[-1]) - half]
                    values = row[half:]
                parts.append(values)
                end = start + len(waveform)
        return Timed(np.concatenate(parts), end)

    def _cut(self, blocks: Iterable[np.ndarray]) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the first sample and waveform of each window; the last ends with the recording."""
        step = self.window - self.overlap
        held = np.zeros(0, np.float32)
        start = 0
        end = 0
        for block in blocks:
            # A recording that is whole in memory is not copied.
            held = np.concatenate([held, block]) if len(held) else block
            while len(held) >= self.window:
                yield start, held[: self.window]
                end = start + self.window
                start += step
                held = held[step:]
        # If nothing follows the last window, everything is scored already.
        if start + len(held) > end:
            yield start, held


def check_whole_time(key: str, sad: SpeechActivity) -> None:
    """Refuse to compute an extra of joined speech, whose times are not known.

    Raises:
        UsageError: speech activity detection is on.
    """
    if needs_whole_recording(sad):
        raise UsageError(
            f"{key} are scored on whole recordings, but sad.mode = {sad.mode!r} leaves parts of "
            f"them out. Train the network with sad.mode = 'off' to score {key} with it."
        )


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
