"""Results of a recording, from the network's scores of its beginning or of its windows.

Invariant: a result never looks like that of the whole recording if less was heard: `seconds_scored`
is then below `seconds`, and `remark` states what was left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from asdf.errors import AsdfError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.calibration import Calibration
from asdf.metrics.home import Home
from asdf.networks.attached import EMBEDDING, Extra
from asdf.scoring.recordings import Recording
from asdf.scoring.scored import (
    MIN_SPEECH_S,
    SILENCE_DB,
    Known,
    Score,
    Scored,
    WindowScore,
    decide_verdict,
)
from asdf.scoring.scorer import Outcome
from asdf.scoring.windows import PartSearch


@dataclass(frozen=True)
class Trial:
    """A recording whose beginning is heard as one trial.

    Attributes:
        speech: Samples of speech in the whole recording.
        total: Samples of the recording.
        silent: Whether the heard part is digital silence.
        has_speech: Whether the heard part contains speech; True if it was not checked.
    """

    speech: int
    total: int
    silent: bool
    has_speech: bool = True


@dataclass(frozen=True)
class Window:
    """A scored window.

    Attributes:
        start, end: Samples `start <= i < end`.
        silent: Whether the window is digital silence.
        outcome: Outputs of the network for the window.
        has_speech: Whether the window contains speech; True if it was not checked.
    """

    start: int
    end: int
    silent: bool
    outcome: Outcome
    has_speech: bool = True

    @property
    def raw(self) -> float:
        return self.outcome.raw


def is_silent(waveform: np.ndarray) -> bool:
    """Return whether (T,) samples are all equal, or nearly so.

    A constant offset of the converter is silence too.
    """
    swing = (float(waveform.max()) - float(waveform.min())) / 2
    return swing < 10 ** (SILENCE_DB / 20)


@dataclass(frozen=True)
class Tally:
    """Statistics of the windows of a recording, so that the windows need not be held.

    Attributes:
        raw: Mean of the network's scores of the windows that count.
        end: Sample at which the last window ends.
        windows: Number of windows.
        silent: Number of windows of digital silence. These do not count, unless all are silent.
        covered: Samples that lie in a window that counts.
        lowest: Window with the lowest score among those that count.
        extras: Means of the extras' rows over the windows that count, by key.
        has_speech: Whether any window contains speech.
    """

    raw: float
    end: int
    windows: int
    silent: int
    covered: int
    lowest: Window
    extras: Mapping[str, np.ndarray] = field(default_factory=dict)
    has_speech: bool = True

    @property
    def all_silent(self) -> bool:
        return self.silent == self.windows


def tally_windows(windows: Sequence[Window]) -> Tally:
    """Compute the statistics of the windows of a recording, one or more, in their order."""
    # If all windows are silent, every window counts: a trial of a list must have a score.
    counted = [window for window in windows if not window.silent] or windows
    means = {}
    for key in counted[0].outcome.extras:
        rows = np.stack([window.outcome.extras[key] for window in counted])
        means[key] = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    covered = end = 0
    for window in counted:
        # Samples that overlapping windows share count once.
        covered += window.end - max(end, window.start)
        end = window.end
    return Tally(
        raw=float(np.mean([window.raw for window in counted])),
        end=windows[-1].end,
        windows=len(windows),
        silent=sum(window.silent for window in windows),
        covered=covered,
        lowest=min(counted, key=lambda window: window.raw),
        extras=means,
        has_speech=any(window.has_speech for window in windows),
    )


@dataclass(frozen=True)
class Summary:
    """Turns scores into results.

    Attributes:
        calibration: Map from the network's score to the reported score; None: they are equal.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        max_samples: Number of samples of a trial that are heard.
        extras: Further outputs besides scores, by key.
        search: Rules of the search for parts of long recordings; None: no search.
        home: Model of the recordings of the calibration set; None: unknown.
        hidden: Keys of extras that are computed only for `home`, and are not in results.
        sample_rate: Sampling rate of the samples, in Hz.
    """

    calibration: Calibration | None
    threshold: float | None
    max_samples: int
    extras: Mapping[str, Extra]
    search: PartSearch | None = None
    home: Home | None = None
    hidden: tuple[str, ...] = ()
    sample_rate: int = SAMPLE_RATE

    def score_of(self, raw: float, **known: Any) -> Score:
        """Return the reported score for the network's score, with the `known` attributes.

        Raises:
            AsdfError: the score is not a finite number.
        """
        if not np.isfinite(raw):
            raise AsdfError(
                "the network gives a score that is not a finite number: it has probably diverged."
            )
        score = float(raw)
        if self.calibration is not None:
            known = self._describe_llr(raw, known)
            score = known["llr"]
        verdict = decide_verdict(
            score,
            self.threshold,
            known.get("judged", True),
            bool(known.get("parts")),
            known.get("unbounded_llr"),
        )
        return Score(score, verdict=verdict, threshold=self.threshold, raw=raw, **known)

    def _describe_llr(self, raw: float, known: Mapping[str, Any]) -> dict[str, Any]:
        """Return the LLR attributes of a score: LLR, interval, and whether it is bounded."""
        assert self.calibration is not None
        llr = float(self.calibration.llr(raw))
        unbounded: float | None = float(self.calibration.unbounded_llr(raw))
        if unbounded == llr:
            unbounded = None
        unlike = ""
        if known.get("unlike"):
            assert self.home is not None
            unlike = self.home.describe_unlike(known["distance"])
        # If the score is not judged, the limit of the calibration does not matter.
        limit = self.calibration.describe_limit(raw) if known.get("judged", True) else ""
        remarks = [known.get("remark", ""), unlike, limit]
        return {
            **known,
            "llr": llr,
            "llr_interval": self.calibration.interval(raw),
            "unbounded_llr": unbounded,
            "remark": "; ".join(filter(None, remarks)),
        }

    def describe_trial(
        self,
        trial: Trial,
        outcome: Outcome,
        over_time: Mapping[str, Any] | None = None,
        searched: Sequence[Window] = (),
    ) -> Score:
        """Return the score of a recording whose beginning was heard.

        Args:
            over_time: Extras that follow the time of the whole recording, if they are not those of
                the outcome.
            searched: Windows that were searched for parts.

        Raises:
            AsdfError: as `score_of`.
        """
        problem = self._explain_no_verdict(trial.speech, trial.silent, trial.has_speech)
        remarks = []
        if problem:
            remarks.append(problem)
        if trial.speech > self.max_samples:
            heard = self._to_seconds(self.max_samples)
            remarks.append(
                f"only the first {heard} s of {self._to_seconds(trial.speech)} s are scored"
            )
        return self.score_of(
            outcome.raw,
            seconds=trial.total / self.sample_rate,
            seconds_scored=min(trial.speech, self.max_samples) / self.sample_rate,
            windows=1,
            remark="; ".join(remarks),
            judged=not problem,
            extras={**self.describe_extras(outcome.extras, trial.speech), **(over_time or {})},
            **self.describe_parts(searched),
            **self.compare_with_home(outcome.extras, judged=not problem),
        )

    def describe_whole(
        self,
        tally: Tally,
        total: int | None = None,
        over_time: Mapping[str, Any] | None = None,
        parts: Mapping[str, Any] | None = None,
    ) -> Score:
        """Return the score of a recording that was heard in windows, from start to end.

        Args:
            total: Samples of the recording, if the windows cover only its speech.
            over_time: Extras that follow the time of the whole recording.
            parts: Fields about its parts, as returned by `describe_parts`.

        Raises:
            AsdfError: as `score_of`.
        """
        problem = self._explain_no_verdict(tally.end, tally.all_silent, tally.has_speech)
        remark = problem
        counted = tally.windows
        if not tally.all_silent:
            counted -= tally.silent
        if not problem and counted < tally.windows:
            remark = (
                f"{tally.silent} of {tally.windows} windows are digital silence and do not count"
            )
        return self.score_of(
            tally.raw,
            seconds=(tally.end if total is None else total) / self.sample_rate,
            seconds_scored=tally.covered / self.sample_rate,
            windows=counted,
            lowest=self.describe_window(tally.lowest) if tally.windows > 1 else None,
            remark=remark,
            judged=not problem,
            extras={**self.describe_extras(tally.extras, tally.end), **(over_time or {})},
            **(parts or {}),
            **self.compare_with_home(tally.extras, judged=not problem),
        )

    def compare_with_home(self, rows: Mapping[str, np.ndarray], judged: bool) -> dict[str, Any]:
        """Return the fields of `Known` about the calibration set, from the rows of extras."""
        if self.home is None or not judged:
            return {}
        distance = self.home.distance(rows[EMBEDDING])
        # Not `distance > 1`, so that NaN counts as unlike.
        return {"distance": distance, "unlike": not distance <= 1}

    def describe_parts(self, windows: Sequence[Window]) -> dict[str, Any]:
        """Return the fields of `Known` about parts, from the windows that were searched."""
        if self.search is None or not windows:
            return {}
        scores = tuple(map(self.describe_window, windows))
        return self.search.describe(scores)

    def describe_extras(self, rows: Mapping[str, np.ndarray], samples: int) -> dict[str, Any]:
        """Return the extras of `samples` samples in the form that results have."""
        described = {}
        for key, row in rows.items():
            if key in self.hidden:
                continue
            extra = self.extras[key]
            described[key] = extra.describe(extra.fit(row, samples), samples)
        return described

    def describe_window(self, window: Window) -> WindowScore:
        """Return the result of a window."""
        score = self.score_of(window.raw)
        unbounded = score.unbounded_llr
        return WindowScore(
            window.start / self.sample_rate,
            window.end / self.sample_rate,
            float(score),
            self.describe_extras(window.outcome.extras, window.end - window.start),
            judged=window.has_speech and not window.silent,
            unbounded_llr=None if unbounded == float(score) else unbounded,
        )

    def _explain_no_verdict(self, samples: int, silent: bool, has_speech: bool) -> str:
        """Return why a score of `samples` of speech is not meaningful; '' if it is."""
        if silent:
            return f"not judged: digital silence (nothing above {SILENCE_DB:g} dB of full scale)"
        if samples < MIN_SPEECH_S * self.sample_rate:
            seconds = self._to_seconds(samples)
            return f"not judged: {seconds} s are too short (under {MIN_SPEECH_S:g} s of speech)"
        if not has_speech:
            return "not judged: no speech found"
        return ""

    def _to_seconds(self, samples: int) -> str:
        return f"{samples / self.sample_rate:.2f}"


def as_result(recording: Recording, score: Score) -> Scored:
    """Return a score as the result of a recording among others."""
    return name_result(score, recording.name, recording.index, recording.path)


def name_result(score: Score, name: str, index: int = 0, path: Path | None = None) -> Scored:
    """Return a score as the result of a recording of that name."""
    known = {field.name: getattr(score, field.name) for field in fields(Known)}
    return Scored(index, path, float(score), name=name, **known)
