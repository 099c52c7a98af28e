"""Parts of a recording that sound spoofed by themselves: the search, its threshold, its column.

Invariant: parts depend only on the scores of the windows and a threshold, so they can be recomputed
from these; they never change the score of a recording, only its verdict.

A threshold for windows may be learnt from genuine recordings. Its false alarm rate is per
recording, not per window: of genuine recordings like those that it was learnt from, at most `rate`
have any window below the threshold, for any number of windows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, ClassVar

import numpy as np

from asdf.facts import SAMPLE_RATE
from asdf.metrics.intervals import beta_quantile
from asdf.scoring.columns import Heard, Request, ScoreColumn
from asdf.scoring.scored import BONA_FIDE, MIXED, WindowScore
from asdf.text import and_more, clock
from asdf.trials.how_scored import ScoredLength

_MAX_RECORDINGS = 10**6
_LEVEL = 0.95
_PART_S = 4.0
# For fewer windows, the recording's own score says as much.
_MIN_WINDOWS = 2
_PARTS_SHOWN = 8

OWN_THRESHOLD = (
    "windows are compared with the threshold of whole recordings: each is one more chance of a "
    "false alarm, and `calibrate --windows` learns a threshold for them"
)


@dataclass(frozen=True)
class FalseAlarms:
    """Rate at which a genuine recording of a given number of windows has one below the threshold.

    Attributes:
        rate: Proportion among the counted recordings; None if none was long enough.
        at_most: One-sided upper bound at 95 % (Clopper and Pearson).
        recordings: Number of genuine recordings that were counted.
    """

    rate: float | None
    at_most: float
    recordings: int

    def describe(self) -> str:
        """Return the rate in words, with its bound."""
        bound = f"at most {100 * self.at_most:.2g} %"
        if self.rate is None:
            return (
                f"of genuine recordings of this length, {bound} (95 % bound from shorter ones) "
                "have one"
            )
        return (
            f"of {self.recordings:,} genuine recordings of this length, {100 * self.rate:.2g} % "
            f"have one (95 % bound: {bound})"
        )


@dataclass(frozen=True, kw_only=True)
class Searched:
    """Parameters of the search of a recording for spoofed parts.

    Attributes:
        windows: Number of windows that were compared with the threshold.
        window_s, hop_s: Length of a window and distance between window starts, in seconds.
        threshold: Score below which a window belongs to a part.
        false_alarms: Rate of genuine recordings with as many windows that have one below the
            threshold; None if unknown, as for a threshold that was not learnt for windows.
    """

    windows: int
    window_s: float
    hop_s: float
    threshold: float
    false_alarms: FalseAlarms | None = None

    def describe(self) -> str:
        """Return in words the threshold of the windows, and its error rate."""
        windows = f"{self.windows} windows of {self.window_s:.4g} s"
        compared = f"{windows} were compared with {self.threshold:.4g}"
        if self.false_alarms is None:
            return f"{compared}: each is one more chance of a false alarm"
        return f"{compared}: {self.false_alarms.describe()} below it"

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


@dataclass(frozen=True)
class WindowThreshold:
    """A threshold for windows, and the data it was learnt from.

    Attributes:
        threshold: Reported score below which a window belongs to a part.
        rate: Proportion of genuine recordings that may have a window below it.
        window, hop: Length of a window, and distance between window starts, in samples.
        counts: Number of windows of each genuine recording.
        first_below: Index of the first window below the threshold of each recording; -1 if none.
    """

    threshold: float
    rate: float
    window: int
    hop: int
    counts: tuple[int, ...]
    first_below: tuple[int, ...]

    def false_alarms(self, windows: int) -> FalseAlarms:
        """Return the rate of genuine recordings with so many windows that have one below it.

        It is counted in the first windows of recordings that have as many. If there are none, the
        rate is that of the longest recordings, and the bound is scaled by the ratio of the lengths:
        the probability of any of several events is at most the sum of their probabilities.
        """
        counts = np.array(self.counts)
        counted = min(windows, int(counts.max()))
        first = np.array(self.first_below)[counts >= counted]
        below = int(((first >= 0) & (first < counted)).sum())
        times = math.ceil(windows / counted)
        bound = 1.0
        if below < len(first):
            bound = min(1.0, times * beta_quantile(_LEVEL, below + 1, len(first) - below))
        rate = below / len(first) if times == 1 else None
        return FalseAlarms(rate, bound, len(first))

    def describe(self) -> str:
        """Return in words the data it was learnt from."""
        fewest, most = min(self.counts), max(self.counts)
        windows = f"{most}" if fewest == most else f"{fewest} to {most}"
        return (
            f"windows are compared with {self.threshold:.4g}: at most {100 * self.rate:g} % of "
            f"genuine recordings of {windows} windows, like the {len(self.counts):,} that it was "
            "learnt from, have one below it"
        )

    def content(self) -> dict[str, Any]:
        """Return plain values for a network file."""
        entry = asdict(self)
        return {**entry, "counts": list(self.counts), "first_below": list(self.first_below)}


def read_window_threshold(entry: Any) -> WindowThreshold | None:
    """Return the threshold of an entry of `WindowThreshold.content`; None if it is not valid."""
    if not isinstance(entry, Mapping):
        return None
    try:
        threshold, rate = float(entry["threshold"]), float(entry["rate"])
        window, hop = int(entry["window"]), int(entry["hop"])
        counts = tuple(map(int, entry["counts"]))
        learnt = WindowThreshold(
            threshold, rate, window, hop, counts, tuple(map(int, entry["first_below"]))
        )
    except (KeyError, TypeError, ValueError):
        return None
    is_sound = (
        math.isfinite(threshold)
        and 0 < rate < 1
        and 0 < hop <= window
        and 0 < len(counts) == len(learnt.first_below) <= _MAX_RECORDINGS
        and min(counts) > 0
    )
    return learnt if is_sound else None


def part_window(length: ScoredLength, window_samples: int) -> int:
    """Return the window length in samples for the search for parts.

    It is 4 s, or the minimum input length of the network if that is longer, and at most the maximum
    input length.

    Args:
        length: Part of a recording that a trial score is of.
        window_samples: Longest window that the network hears whole.
    """
    wanted = max(round(_PART_S * length.sample_rate), length.min_samples)
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

    def describe(self, windows: Iterable[WindowScore]) -> Parts:
        """Return the parts among the windows of a recording."""
        scores = tuple(windows)
        judged = sum(window.judged for window in scores)
        return Parts(self.find(scores), self.searched(judged), scores)

    def searched(self, windows: int) -> Searched:
        """Return the description of a search in `windows` judged windows."""
        learnt = self.learnt if windows else None
        return Searched(
            windows=windows,
            window_s=self.window / self.sample_rate,
            hop_s=self.hop / self.sample_rate,
            threshold=self.threshold,
            false_alarms=None if learnt is None else learnt.false_alarms(windows),
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


@dataclass(frozen=True)
class Parts:
    """What the search of a recording found.

    Attributes:
        parts: Parts whose windows score below the threshold, in their order, each with its lowest
            score.
        searched: Parameters of the search.
        windows_scores: Windows that were searched; empty for a stream.
    """

    parts: tuple[WindowScore, ...]
    searched: Searched
    windows_scores: tuple[WindowScore, ...] = ()


class PartColumn(ScoreColumn):
    """Parts of a long recording that sound spoofed by themselves."""

    key = "parts"
    attributes: ClassVar[dict[str, Any]] = {"parts": (), "searched": None, "windows_scores": ()}
    cells = ("parts", "windows_searched")
    place = (20, 60)
    of_trials = False

    def __init__(self, search: PartSearch) -> None:
        self.search = search

    @classmethod
    def wanted(cls, request: Request) -> PartColumn | None:
        if not request.parts:
            return None
        learnt = None
        calibration = request.calibration
        # The learnt window threshold belongs to the calibration's threshold, not to the user's.
        if calibration is not None and request.threshold == calibration.threshold:
            learnt = read_window_threshold(calibration.windows)
        search = make_search(request.length, request.window_samples, request.threshold, learnt)
        return None if search is None else cls(search)

    def add(self, heard: Heard) -> Parts | None:
        return self.search.describe(heard.windows) if heard.windows else None

    def heading(self) -> dict[str, Any]:
        return {"part_search": self.search.entry()}

    def describe(self) -> str:
        return self.search.describe_search()

    def work(self) -> list[int]:
        # The effect of a threshold on windows is not saved.
        return [self.search.window, self.search.hop]

    @classmethod
    def row(cls, value: Parts) -> tuple[Any, ...]:
        parts = [f"{part.start_s} {part.end_s} {part.score}" for part in value.parts]
        return "; ".join(parts), value.searched.windows

    @classmethod
    def entry(cls, value: Parts) -> dict[str, Any]:
        parts = [part.entry() for part in value.parts]
        return {"parts": parts, "searched": value.searched.entry()}

    @classmethod
    def words(cls, value: Parts) -> str:
        if not value.parts:
            return ""
        spans = []
        for part in value.parts:
            span = f"{clock(part.start_s)}-{clock(part.end_s)}"
            spans.append(f"{span} (lowest {part.score:.4f})")
        noun = "part sounds" if len(spans) == 1 else "parts sound"
        words = f"{len(spans)} {noun} spoofed: {and_more(spans, _PARTS_SHOWN)}"
        alarms = value.searched.false_alarms
        return words if alarms is None else f"{words}; {alarms.describe()}"

    @classmethod
    def veto(cls, value: Parts, verdict: str) -> str | None:
        return MIXED if verdict == BONA_FIDE and value.parts else None

    @classmethod
    def moved(cls, value: Parts, move: Callable[[WindowScore], WindowScore]) -> Parts:
        parts, windows = map(move, value.parts), map(move, value.windows_scores)
        return replace(value, parts=tuple(parts), windows_scores=tuple(windows))

    def saved(self, value: Parts) -> list[dict[str, Any]]:
        return [{**window.entry(), "judged": window.judged} for window in value.windows_scores]

    def restored(self, saved: Sequence[Mapping[str, Any]]) -> Parts:
        return self.search.describe(WindowScore(**window) for window in saved)


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
