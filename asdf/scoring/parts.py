"""Parts of a recording that sound spoofed by themselves, found in the scores of short windows.

Invariant: parts follow from the windows' scores and a threshold alone, so that whoever has these
finds the same. The score of the recording is never changed by them: they change its verdict.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from asdf.facts import SAMPLE_RATE
from asdf.scoring.scored import Searched, WindowScore
from asdf.scoring.window_threshold import WindowThreshold
from asdf.trials.how_scored import ScoredLength

_WINDOW_S = 4.0
# Of fewer windows the recording's own score says as much.
_MIN_WINDOWS = 2

OWN_THRESHOLD = (
    "windows are compared with the threshold of whole recordings: each is one more chance of a "
    "false alarm, and `calibrate --windows` learns a threshold for them"
)


def part_window(length: ScoredLength, window_samples: int) -> int:
    """Return the samples of a window in which parts are searched for.

    4 s, or what the network repeats shorter recordings to, as of a network of one length; and no
    more than it hears at once.

    Args:
        length: Part of a recording that a trial score is of.
        window_samples: Longest window that the network hears whole.
    """
    wanted = max(round(_WINDOW_S * length.sample_rate), length.min_samples)
    return min(wanted, window_samples)


@dataclass(frozen=True)
class PartSearch:
    """How parts are searched for.

    Attributes:
        window: Samples of a window.
        hop: Samples from the start of a window to that of the next.
        threshold: Score below which a window is in a part.
        learnt: Threshold for such windows that it is; None: it is that of whole recordings.
        sample_rate: Sampling rate of the samples, in Hz.
    """

    window: int
    hop: int
    threshold: float
    learnt: WindowThreshold | None = None
    sample_rate: int = SAMPLE_RATE

    def applies(self, samples: int) -> bool:
        """Return whether a recording of `samples` is long enough to be searched."""
        return samples > _MIN_WINDOWS * self.window

    def with_windows(self, window: int, hop: int) -> PartSearch:
        """Return the search in other windows, in samples.

        A learnt threshold is retained; rates of false alarms, of other windows, are not.
        """
        learnt = self.learnt if (window, hop) == (self.window, self.hop) else None
        return replace(self, window=window, hop=hop, learnt=learnt)

    def is_below(self, window: WindowScore) -> bool:
        """Return whether a window sounds spoofed; one that is not judged does not."""
        return window.judged and window.compared < self.threshold

    def find(self, windows: Iterable[WindowScore]) -> tuple[WindowScore, ...]:
        """Join windows below the threshold that overlap or touch.

        Args:
            windows: Windows in their order; those that are not judged are in no part.

        Returns:
            Parts from the first sample to the last of joined windows, with the lowest score.
        """
        parts: list[WindowScore] = []
        for window in windows:
            if self.is_below(window):
                add_to_parts(parts, window)
        return tuple(parts)

    def describe(self, windows: Sequence[WindowScore]) -> dict[str, Any]:
        """Return the fields of `Known` on the parts of a recording; {} without windows."""
        if not windows:
            return {}
        judged = sum(window.judged for window in windows)
        return {
            "parts": self.find(windows),
            "searched": self.searched(judged),
            "windows_scores": tuple(windows),
        }

    def searched(self, windows: int) -> Searched:
        """Return what is said of a search in so many windows that are judged."""
        false_alarms = None
        if self.learnt is not None and windows:
            false_alarms = self.learnt.false_alarms(windows)
        return Searched(
            windows=windows,
            window_s=self.window / self.sample_rate,
            hop_s=self.hop / self.sample_rate,
            threshold=self.threshold,
            false_alarms=false_alarms,
        )

    def describe_search(self) -> str:
        """Return in words which recordings are searched, and how."""
        window_s = self.window / self.sample_rate
        return (
            f"recordings longer than {_MIN_WINDOWS * window_s:.4g} s are searched for parts below "
            f"{self.threshold:.4g}, in windows of {window_s:.4g} s, half a window apart"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values for JSON: how all recordings were searched."""
        return {
            "window_s": self.window / self.sample_rate,
            "hop_s": self.hop / self.sample_rate,
            "threshold": self.threshold,
            "note": OWN_THRESHOLD if self.learnt is None else self.learnt.describe(),
        }


def add_to_parts(parts: list[WindowScore], window: WindowScore) -> None:
    """Join a window to the last of `parts` if they overlap or touch; else it is a new part."""
    last = parts[-1] if parts else None
    if last is None or window.start_s > last.end_s:
        parts.append(replace(window, extras={}))
        return
    parts[-1] = WindowScore(last.start_s, window.end_s, min(last.score, window.score))


def make_search(
    length: ScoredLength,
    window_samples: int,
    threshold: float | None,
    learnt: WindowThreshold | None = None,
) -> PartSearch | None:
    """Return how a detector searches for parts; None without a threshold, or without verdicts.

    Args:
        length, window_samples: as of `part_window`.
        threshold: Threshold of whole recordings.
        learnt: Threshold for windows that goes with it; one of other windows is not used.
    """
    if threshold is None:
        return None
    window = part_window(length, window_samples)
    hop = max(1, window // 2)
    if learnt is None or (learnt.window, learnt.hop) != (window, hop):
        return PartSearch(window, hop, threshold, None, length.sample_rate)
    return PartSearch(window, hop, learnt.threshold, learnt, length.sample_rate)
