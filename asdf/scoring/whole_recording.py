"""What is reported of a recording, from the network's own scores of its beginning or its windows.

Invariant: a result never looks like that of the whole recording when less was heard:
`seconds_scored` is then below `seconds`, and `remark` says what was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.scoring.scored import MIN_SPEECH_S, SILENCE_DB, Scored, WindowScore


@dataclass(frozen=True)
class Trial:
    """A recording that was heard from its beginning, as one trial.

    Attributes:
        raw: the network's own score.
        speech: samples of speech in the whole recording.
        total: samples of the recording.
        silent: whether what was heard is digital silence.
    """

    raw: float
    speech: int
    total: int
    silent: bool


@dataclass(frozen=True)
class Window:
    """A scored window.

    Attributes:
        start, end: samples `start <= i < end`.
        raw: the network's own score.
        silent: whether the window is digital silence.
    """

    start: int
    end: int
    raw: float
    silent: bool


def is_silent(waveform: np.ndarray) -> bool:
    """Return whether (T,) samples are all equal, or hardly move.

    An offset of the converter is no sound.
    """
    swing = (float(waveform.max()) - float(waveform.min())) / 2
    return swing < 10 ** (SILENCE_DB / 20)


@dataclass(frozen=True)
class Summary:
    """Makes results of scores.

    Attributes:
        calibrate: returns the score that is shown for the network's own; raises an AsdfError for
            one that is not finite.
        max_samples: beyond which a trial is not heard.
    """

    calibrate: Callable[[float], float]
    max_samples: int

    def describe_trial(self, index: int, path: Path | None, trial: Trial) -> Scored:
        """Return the result of a recording that was heard from its beginning."""
        problem = _explain_no_verdict(trial.speech, trial.silent)
        remarks = []
        if problem:
            remarks.append(problem)
        if trial.speech > self.max_samples:
            heard = _to_seconds(self.max_samples)
            remarks.append(f"only the first {heard} s of {_to_seconds(trial.speech)} s are scored")
        return Scored(
            index,
            path,
            self.calibrate(trial.raw),
            trial.raw,
            seconds=trial.total / SAMPLE_RATE,
            seconds_scored=min(trial.speech, self.max_samples) / SAMPLE_RATE,
            windows=1,
            remark="; ".join(remarks),
            judged=not problem,
        )

    def describe_whole(
        self, index: int, path: Path | None, windows: Sequence[Window], total: int | None = None
    ) -> Scored:
        """Return the result of a recording that was heard in windows, from its start to its end.

        Args:
            total: samples of the recording, where the windows are of its speech alone.
        """
        # Of nothing but silence, every window counts: a trial of a list must have a score.
        counted = [window for window in windows if not window.silent] or windows
        raw = float(np.mean([window.raw for window in counted]))
        speech = windows[-1].end
        problem = _explain_no_verdict(speech, all(window.silent for window in windows))
        remark = problem
        if not problem and len(counted) < len(windows):
            silent = len(windows) - len(counted)
            remark = f"{silent} of {len(windows)} windows are digital silence and do not count"
        lowest = None
        if len(windows) > 1:
            lowest = self.describe_window(min(counted, key=_raw_score))
        return Scored(
            index,
            path,
            self.calibrate(raw),
            raw,
            seconds=(speech if total is None else total) / SAMPLE_RATE,
            seconds_scored=_count_samples(counted) / SAMPLE_RATE,
            windows=len(counted),
            lowest=lowest,
            remark=remark,
            judged=not problem,
        )

    def describe_window(self, window: Window) -> WindowScore:
        """Return the result of a window."""
        score = self.calibrate(window.raw)
        return WindowScore(window.start / SAMPLE_RATE, window.end / SAMPLE_RATE, score)


def _raw_score(window: Window) -> float:
    return window.raw


def _explain_no_verdict(samples: int, silent: bool) -> str:
    """Return why a score of `samples` of speech says nothing; '' where it says something."""
    if silent:
        return f"not judged: digital silence (nothing above {SILENCE_DB:g} dB of full scale)"
    if samples < MIN_SPEECH_S * SAMPLE_RATE:
        seconds = _to_seconds(samples)
        return f"not judged: {seconds} s are too short (under {MIN_SPEECH_S:g} s of speech)"
    return ""


def _count_samples(windows: Sequence[Window]) -> int:
    """Count the samples that lie in any of the windows, which are in order and may overlap."""
    covered = 0
    end = 0
    for window in windows:
        covered += window.end - max(end, window.start)
        end = window.end
    return covered


def _to_seconds(samples: int) -> str:
    return f"{samples / SAMPLE_RATE:.2f}"
