"""What is said of a recording, from the network's own scores of its beginning or of its windows.

Invariant: a result never looks like that of the whole recording when less was heard:
`seconds_scored` is then below `seconds`, and `remark` says what was left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from asdf.audio.resampling import SAMPLE_RATE
from asdf.scoring.scored import MIN_SPEECH_S, SILENCE_DB, Scored, WindowScore


@dataclass(frozen=True)
class Window:
    """A scored window: samples `start <= i < end`, the network's own score, and whether it is digital silence."""

    start: int
    end: int
    raw: float
    silent: bool


def is_silent(waveform: np.ndarray) -> bool:
    """Whether (T,) samples are all equal, or hardly move: an offset of the converter is no sound."""
    swing = (float(waveform.max()) - float(waveform.min())) / 2
    return swing < 10 ** (SILENCE_DB / 20)


@dataclass(frozen=True)
class Summary:
    """Makes results of scores.

    Attributes:
        final: the score that is shown for the network's own; raises an AsdfError for one that is
            not finite.
        most: samples beyond which a trial is not heard.
    """

    final: Callable[[float], float]
    most: int

    def trial(
        self, place: int, path: Path | None, raw: float, speech: int, total: int, silent: bool
    ) -> Scored:
        """The result of a recording that was heard from its beginning.

        Args:
            speech: samples of speech in the whole recording.
            total: samples of the recording.
            silent: whether what was heard is digital silence.
        """
        problem = _why_not_judged(speech, silent)
        remarks = [problem] if problem else []
        if speech > self.most:
            remarks.append(
                f"only the first {_seconds(self.most)} s of {_seconds(speech)} s are scored"
            )
        return Scored(
            place,
            path,
            self.final(raw),
            raw,
            seconds=total / SAMPLE_RATE,
            seconds_scored=min(speech, self.most) / SAMPLE_RATE,
            windows=1,
            remark="; ".join(remarks),
            judged=not problem,
        )

    def whole(
        self, place: int, path: Path | None, windows: Sequence[Window], total: int | None = None
    ) -> Scored:
        """The result of a recording that was heard in windows, from its start to its end.

        Args:
            total: samples of the recording, where the windows are of its speech alone.
        """
        counted = [window for window in windows if not window.silent] or windows
        raw = float(np.mean([window.raw for window in counted]))
        speech = windows[-1].end
        problem = _why_not_judged(speech, all(window.silent for window in windows))
        remark = problem
        if not problem and len(counted) < len(windows):
            silent = len(windows) - len(counted)
            remark = f"{silent} of {len(windows)} windows are digital silence and do not count"
        lowest = min(counted, key=lambda window: window.raw)
        return Scored(
            place,
            path,
            self.final(raw),
            raw,
            seconds=(speech if total is None else total) / SAMPLE_RATE,
            seconds_scored=_samples_in(counted) / SAMPLE_RATE,
            windows=len(counted),
            lowest=self.window(lowest) if len(windows) > 1 else None,
            remark=remark,
            judged=not problem,
        )

    def window(self, window: Window) -> WindowScore:
        """The result of a window."""
        return WindowScore(
            window.start / SAMPLE_RATE, window.end / SAMPLE_RATE, self.final(window.raw)
        )


def _why_not_judged(samples: int, silent: bool) -> str:
    """Why a score of so many samples of speech says nothing; '' where it says something."""
    if silent:
        return f"not judged: digital silence (nothing above {SILENCE_DB:g} dB of full scale)"
    if samples < MIN_SPEECH_S * SAMPLE_RATE:
        return (
            f"not judged: {_seconds(samples)} s are too short (under {MIN_SPEECH_S:g} s of speech)"
        )
    return ""


def _samples_in(windows: Sequence[Window]) -> int:
    """How many samples lie in any of the windows, which are in order and may overlap."""
    covered = end = 0
    for window in windows:
        covered += window.end - max(end, window.start)
        end = window.end
    return covered


def _seconds(samples: int) -> str:
    return f"{samples / SAMPLE_RATE:.2f}"
