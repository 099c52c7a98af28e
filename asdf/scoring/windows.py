"""Windows of a recording: how it is cut, and which of them sound spoofed.

Invariant: every sample is in a window, and every window has its full length; only a recording
shorter than a window is one short window. Spoofed parts depend only on the scores of the windows
and a threshold, so they can be recomputed from these; they never change the score of a recording,
only its verdict.

A threshold for windows is learnt from genuine recordings. Its false alarm rate is per recording,
not per window: of genuine recordings like those of the training set, at most `rate` have any window
below the threshold, for any number of windows. The threshold is a rank of the lowest windows, so
this holds for any distribution (Vovk, Gammerman and Shafer, Algorithmic Learning in a Random World,
Springer, 2005).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from asdf.errors import AsdfError, UsageError
from asdf.facts import SAMPLE_RATE
from asdf.metrics.intervals import beta_quantile
from asdf.scoring.scored import FalseAlarms, Searched, WindowScore
from asdf.trials.how_scored import ScoredLength

# Longer than any recording.
_MAX_SAMPLES = 2**62
_MAX_RECORDINGS = 10**6
_LEVEL = 0.95
_PART_S = 4.0
# For fewer windows, the recording's own score says as much.
_MIN_WINDOWS = 2

OWN_THRESHOLD = (
    "windows are compared with the threshold of whole recordings: each is one more chance of a "
    "false alarm, and `calibrate --windows` learns a threshold for them"
)


class Cut(NamedTuple):
    """A window of a recording: its first sample, and its waveform (T,)."""

    start: int
    waveform: np.ndarray


def in_samples(
    window_s: float, hop_s: float, max_samples: int | None = None, rate: int = SAMPLE_RATE
) -> tuple[int, int]:
    """Return the window and the hop in samples.

    Args:
        max_samples: Maximum number of samples of a window that the network hears; None: any number.
        rate: Sampling rate of what the network hears, in Hz.

    Raises:
        UsageError: one of them is not a positive number, the hop leaves gaps, or the network does
            not hear windows whole.
    """
    window = hop = 0
    if 0 < hop_s <= window_s < math.inf:
        # A finite number of seconds may be an infinite number of samples.
        window = round(min(window_s * rate, _MAX_SAMPLES))
        hop = round(min(hop_s * rate, _MAX_SAMPLES))
    if hop < 1:
        raise UsageError(
            f"windows of {window_s:g} s every {hop_s:g} s: both must be positive, and the hop at "
            "most the window, or parts of the recording would be in no window."
        )

    if max_samples is not None and window > max_samples:
        raise UsageError(
            f"windows of {window_s:g} s: this network hears the first {max_samples:,} samples "
            f"({max_samples / rate:.4g} s) of each, and the rest would be ignored. Take windows "
            "of that length or less."
        )
    return window, hop


def count_windows(samples: int, window: int, hop: int) -> int:
    """Return the number of windows that `cut_windows` cuts from a recording of `samples`."""
    return 1 + max(0, math.ceil((samples - window) / hop))


class WindowCutter:
    """Windows of a recording that arrives in blocks; holds at most a window and a block.

    Windows start at 0, hop, 2 hop, ...; one last window ends where the recording ends.
    """

    def __init__(self, window: int, hop: int) -> None:
        """Cut windows of `window` samples every `hop`, which is at most `window`."""
        self._window = window
        self._hop = hop
        self._held = np.zeros(0, np.float32)
        self._held_from = 0
        self._start = 0

    def add(self, block: np.ndarray) -> Iterator[Cut]:
        """Yield the windows that end in the next block (T,) of the recording."""
        # A recording that is whole in memory is not copied.
        self._held = np.concatenate([self._held, block]) if len(self._held) else block
        end = self._held_from + len(self._held)
        while self._start + self._window <= end:
            offset = self._start - self._held_from
            yield Cut(self._start, self._held[offset : offset + self._window])
            self._start += self._hop
        # A full window is held, since the last one ends where the recording ends.
        retained_from = max(self._held_from, end - self._window)
        self._held = self._held[retained_from - self._held_from :]
        self._held_from = retained_from

    def finish(self) -> Iterator[Cut]:
        """Yield the last window, unless another window ends where the recording ends."""
        end = self._held_from + len(self._held)
        last_end = self._start - self._hop + self._window
        if len(self._held) and (self._start == 0 or last_end < end):
            yield Cut(self._held_from, self._held)


def cut_windows(blocks: Iterable[np.ndarray], window: int, hop: int) -> Iterator[Cut]:
    """Yield the windows of a recording that arrives in blocks, see `WindowCutter`."""
    cutter = WindowCutter(window, hop)
    for block in blocks:
        yield from cutter.add(block)
    yield from cutter.finish()


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


def learn_window_threshold(
    scores: Sequence[Sequence[float]],
    rate: float,
    window: int,
    hop: int,
    highest: float,
    sample_rate: int = SAMPLE_RATE,
) -> WindowThreshold:
    """Learn a threshold from the windows of genuine recordings.

    It is the r-th smallest of the lowest windows, r = floor(rate (n + 1)): the lowest window of
    another recording of the same kind is below it with a probability of at most r / (n + 1).

    Args:
        scores: Reported scores of the windows of each recording.
        window, hop: Length of a window and of the hop, in samples.
        highest: Threshold of recordings, which the learnt threshold does not exceed.
        sample_rate: Sampling rate of the samples, in Hz.

    Raises:
        AsdfError: there are too few recordings for the rate.
    """
    searched = [row for row in scores if len(row)]
    rank = math.floor(rate * (len(searched) + 1))
    if rank < 1:
        needed = math.ceil(1 / rate) - 1
        raise AsdfError(
            f"only {len(searched)} genuine recordings have windows of {window / sample_rate:.3g} "
            f"s with speech: a threshold that {100 * rate:g} % of them fall below needs at least "
            f"{needed}. Name more recordings that are longer than two windows, or a higher rate."
        )
    lowest = sorted(min(row) for row in searched)
    threshold = min(lowest[rank - 1], highest)
    first_below = []
    for row in searched:
        below = [index for index, score in enumerate(row) if score < threshold]
        first_below.append(below[0] if below else -1)
    counts = tuple(len(row) for row in searched)
    return WindowThreshold(threshold, rate, window, hop, counts, tuple(first_below))


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
