"""Detection of spoofed parts of a recording from the scores of short windows.

Invariant: the parts depend only on the scores of the windows and a threshold, so they can be
recomputed from these. They never change the score of the recording, only its verdict.
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
# For fewer windows, the recording's own score says as much.
_MIN_WINDOWS = 2

OWN_THRESHOLD = (
    "windows are compared with the threshold of whole recordings: each is one more chance of a "
    "false alarm, and `calibrate --windows` learns a threshold for them"
)


def part_window(length: ScoredLength, window_samples: int) -> int:
    """Return the window length in samples for the search for parts.

    It is 4 s, or the minimum input length of the network if that is longer, and at most the maximum
    input length.

    Args:
        length: Part of a recording that a trial score is of.
        window_samples: Longest window that the network hears whole.
    """
    wanted = max(round(_WINDOW_S * length.sample_rate), length.min_samples)
    return min(wanted, window_samples)


@dataclass(frozen=True)
class PartSearch:
    """Rules of the search for parts.

    Attributes:
        window: Samples of a window.
        hop: Samples from the start of one window to the start of the next.
        threshold: Score below which a window belongs to a part.
        learnt: Learnt threshold for such windows that is used; None: the threshold of whole
            recordings.
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
        """Return the same search with other windows, in samples.

        A learnt threshold is kept; false alarm rates are not, because they are of other windows.
        """
        learnt = self.learnt if (window, hop) == (self.window, self.hop) else None
        return replace(self, window=window, hop=hop, learnt=learnt)

    def is_below(self, window: WindowScore) -> bool:
        """Return whether a window sounds spoofed; a window that is not judged does not."""
        return window.judged and window.compared < self.threshold

    def find(self, windows: Iterable[WindowScore]) -> tuple[WindowScore, ...]:
        """Join windows below the threshold that overlap or touch.

        Args:
            windows: Windows in their order; those that are not judged belong to no part.

        Returns:
            Parts, from the first to the last sample of the joined windows, with the lowest score.
        """
        parts: list[WindowScore] = []
        for window in windows:
            if self.is_below(window):
                add_to_parts(parts, window)
        return tuple(parts)

    def describe(self, windows: Sequence[WindowScore]) -> dict[str, Any]:
        """Return the fields of `Known` about parts; {} without windows."""
        if not windows:
            return {}
        judged = sum(window.judged for window in windows)
        return {
            "parts": self.find(windows),
            "searched": self.searched(judged),
            "windows_scores": tuple(windows),
        }

    def searched(self, windows: int) -> Searched:
        """Return the description of a search in `windows` judged windows."""
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
        """Return plain values for JSON: the rules of the search for all recordings."""
        return {
            "window_s": self.window / self.sample_rate,
            "hop_s": self.hop / self.sample_rate,
            "threshold": self.threshold,
            "note": OWN_THRESHOLD if self.learnt is None else self.learnt.describe(),
        }


def add_to_parts(parts: list[WindowScore], window: WindowScore) -> None:
    """Merge a window into the last of `parts` if they overlap or touch; else start a new part."""
    last = parts[-1] if parts else None
    if last is None or window.start_s > last.end_s:
        # Extras describe the window, and a part may grow beyond it.
        parts.append(replace(window, extras={}))
        return
    parts[-1] = WindowScore(last.start_s, window.end_s, min(last.score, window.score))


def make_search(
    length: ScoredLength,
    window_samples: int,
    threshold: float | None,
    learnt: WindowThreshold | None = None,
) -> PartSearch | None:
    """Return a detector's search for parts; None without a threshold or verdicts.

    Args:
        length, window_samples: Scored part and longest window, as in `part_window`.
        threshold: Threshold of whole recordings.
        learnt: Threshold for windows that belongs to `threshold`; ignored if it is for other
            windows.
    """
    if threshold is None:
        return None
    window = part_window(length, window_samples)
    hop = max(1, window // 2)
    if learnt is None or (learnt.window, learnt.hop) != (window, hop):
        return PartSearch(window, hop, threshold, None, length.sample_rate)
    return PartSearch(window, hop, learnt.threshold, learnt, length.sample_rate)
