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
from asdf.metrics.calibration import Calibration
from asdf.metrics.intervals import beta_quantile
from asdf.scoring.columns import UNDECIDED, Heard, Request, ScoreColumn, four_digits
from asdf.scoring.scored import BONA_FIDE, MIXED, WindowScore
from asdf.text import and_more, clock, count_of
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


_WINDOWS_ANSWER = {
    "window_s": (float, "Seconds of a window."),
    "hop_s": (float, "Seconds from the start of a window to that of the next."),
    "threshold": (float, "Score below which a window is in a part."),
}
_ALARMS_ANSWER = {
    "rate": (float | None, "Proportion of the recordings counted; null where none was as long."),
    "at_most": (float, "Upper bound of the rate, one-sided, at 95 %."),
    "recordings": (int, "Number of genuine recordings counted."),
}
_SEARCHED_ANSWER = {
    "windows": (int, "Number of windows that were compared with the threshold."),
    **_WINDOWS_ANSWER,
    "false_alarms": (
        _ALARMS_ANSWER,
        "How often genuine recordings have such a window; null where the threshold was not "
        "estimated for windows.",
    ),
    "expected": (
        float | None,
        "Number of windows below the threshold to expect in genuine speech of this length; absent "
        "if unknown.",
    ),
}


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
        expected: Number of windows below the threshold to expect in genuine speech of this length,
            if windows err as often as the recordings of the calibration's set; None if unknown.
    """

    windows: int
    window_s: float
    hop_s: float
    threshold: float
    false_alarms: FalseAlarms | None = None
    expected: float | None = None

    def describe(self) -> str:
        """Return in words the threshold of the windows, and its error rate."""
        windows = f"{self.windows} windows of {self.window_s:.4g} s"
        compared = f"{windows} were compared with {self.threshold:.4g}"
        if self.false_alarms is not None:
            return f"{compared}: {self.false_alarms.describe()} below it"
        alarms = self.describe_alarms() or "each is one more chance of a false alarm"
        return f"{compared}: {alarms}"

    def describe_alarms(self) -> str:
        """Return in words how many false alarms to expect; '' if unknown."""
        if self.false_alarms is not None:
            return self.false_alarms.describe()
        if self.expected is None:
            return ""
        return (
            f"about {self.expected:.2g} of {self.windows:,} windows of genuine speech would be "
            "below it"
        )

    def entry(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        entry = asdict(self)
        if self.expected is None:
            del entry["expected"]
        return entry


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
        error_rate: Proportion of genuine recordings below the threshold; None if unknown.
        calibration: Calibration of the scores; None without one.
    """

    window: int
    hop: int
    threshold: float
    learnt: WindowThreshold | None = None
    sample_rate: int = SAMPLE_RATE
    error_rate: float | None = None
    calibration: Calibration | None = None

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

    def find_parts(self, windows: Iterable[WindowScore]) -> Parts:
        """Return the parts among the windows of a recording, which are in their order."""
        scores = tuple(windows)
        finder = PartFinder(self)
        for window in scores:
            finder.add(window)
        return replace(finder.result(), windows_scores=scores)

    def searched(self, windows: int) -> Searched:
        """Return the description of a search in `windows` judged windows."""
        learnt = self.learnt if windows else None
        expected = None
        if learnt is None and self.error_rate is not None:
            expected = windows * self.error_rate
        return Searched(
            windows=windows,
            window_s=self.window / self.sample_rate,
            hop_s=self.hop / self.sample_rate,
            threshold=self.threshold,
            false_alarms=None if learnt is None else learnt.false_alarms(windows),
            expected=expected,
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


class PartFinder:
    """Finds the parts of a recording whose windows arrive in their order.

    Two windows in a row below the threshold, which overlap, make a part: one alone is more often an
    error than a splice.
    """

    def __init__(self, search: PartSearch) -> None:
        self.search = search
        self._judged = 0
        self._continues = False
        # Consecutive windows below the threshold, joined, and their number.
        self._runs: list[tuple[WindowScore, int]] = []

    def add(self, window: WindowScore) -> None:
        """Take the next window; one that is not judged belongs to no part."""
        self._judged += window.judged
        is_below = self.search.is_below(window)
        if is_below and self._continues:
            known, count = self._runs[-1]
            lowest = min(known, window, key=lambda each: each.compared)
            joined = replace(lowest, start_s=known.start_s, end_s=window.end_s, extras={})
            self._runs[-1] = (joined, count + 1)
        elif is_below:
            # Extras describe the window, and a part may grow beyond it.
            self._runs.append((replace(window, extras={}), 1))
        self._continues = is_below

    def result(self) -> Parts:
        """Return what was found so far."""
        parts = tuple(run for run, count in self._runs if count > 1)
        single = tuple(run for run, count in self._runs if count == 1)
        calibration = self.search.calibration
        is_clear = calibration is None or any(calibration.is_clear(part.score) for part in parts)
        return Parts(parts, single, self.search.searched(self._judged), is_clear=is_clear)


@dataclass(frozen=True)
class Parts:
    """What the search of a recording found.

    Attributes:
        parts: Parts whose windows score below the threshold, in their order, each with its lowest
            score.
        single: Windows below the threshold that are no part, since none beside them is.
        searched: Parameters of the search.
        windows_scores: Windows that were searched; empty for a stream.
        is_clear: Whether a part is clearly spoofed: its likelihood ratio tells, or the scores are
            none.
    """

    parts: tuple[WindowScore, ...]
    single: tuple[WindowScore, ...]
    searched: Searched
    windows_scores: tuple[WindowScore, ...] = ()
    is_clear: bool = True


def worst_first(windows: Iterable[WindowScore]) -> list[WindowScore]:
    """Return windows or parts from the lowest score on."""
    return sorted(windows, key=lambda window: window.compared)


def _span(window: WindowScore) -> str:
    return f"{clock(window.start_s)}-{clock(window.end_s)} (lowest {window.compared:.4f})"


class PartColumn(ScoreColumn):
    """Parts of a long recording that sound spoofed by themselves."""

    key = "parts"
    attributes: ClassVar[dict[str, Any]] = {
        "parts": (),
        "single": (),
        "searched": None,
        "windows_scores": (),
    }
    cells = ("parts", "windows_searched")
    place = (20, 60)
    of_trials = False
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "parts": (
            list[WindowScore],
            "Parts that sound spoofed by themselves, each with its lowest score; only for "
            "recordings that were searched for them.",
        ),
        "searched": (_SEARCHED_ANSWER, "How parts were searched for; absent where they were not."),
    }
    answer_heading: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "part_search": (
            {
                **_WINDOWS_ANSWER,
                "note": (str, "Effect of the number of windows on the rate of false alarms."),
            },
            "How long recordings are searched for parts; absent where they are not.",
        )
    }

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
        if search is None:
            return None
        # The rate at which genuine recordings are below it, at the threshold of the EER.
        of_eer = calibration if calibration and calibration.spoof_prior is None else None
        if of_eer is not None and search.threshold == of_eer.threshold:
            search = replace(search, error_rate=of_eer.eer)
        return cls(replace(search, calibration=calibration))

    def add(self, heard: Heard) -> Parts | None:
        return self.search.find_parts(heard.windows) if heard.windows else None

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
        if not value.parts and not value.single:
            return ""
        spans = [_span(part) for part in worst_first(value.parts)]
        below = f"below {value.searched.threshold:.4g}"
        sounds = below
        if value.is_clear:
            sounds = "sounds spoofed" if len(spans) == 1 else "sound spoofed"
        sentences = []
        if spans:
            shown = and_more(spans, _PARTS_SHOWN)
            sentences.append(f"{count_of(len(spans), 'part')} {sounds}: {shown}")
        if value.single:
            single = count_of(len(value.single), "single window")
            lowest = _span(worst_first(value.single)[0])
            sentences.append(f"{single} {below}: {lowest}")
        alarms = value.searched.describe_alarms()
        return "; ".join([*sentences, alarms] if alarms else sentences)

    @classmethod
    def facts(cls, value: Parts, threshold: float | None) -> dict[str, str]:
        own = value.searched.threshold
        return {} if own == threshold else {"Threshold of windows": four_digits(own)}

    @classmethod
    def veto(cls, value: Parts, verdict: str) -> str | None:
        if verdict not in (BONA_FIDE, UNDECIDED) or not value.parts:
            return None
        return MIXED if value.is_clear else UNDECIDED

    @classmethod
    def moved(cls, value: Parts, move: Callable[[WindowScore], WindowScore]) -> Parts:
        moved: dict[str, Any] = {}
        for name in ("parts", "single", "windows_scores"):
            moved[name] = tuple(map(move, getattr(value, name)))
        return replace(value, **moved)

    def saved(self, value: Parts) -> list[dict[str, Any]]:
        return [{**window.entry(), "judged": window.judged} for window in value.windows_scores]

    def restored(self, saved: Sequence[Mapping[str, Any]]) -> Parts:
        return self.search.find_parts(WindowScore(**window) for window in saved)


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
