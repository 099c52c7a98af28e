"""The score of a recording, with further information.

Invariant: only `decide_verdict` makes verdicts, and both kinds of result have the same fields of
`Known`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asdf.metrics.verbal_scale import describe_llr, log10_llr

MIN_SPEECH_S = 0.5
"""Shorter speech is scored, as every trial must be, but not judged.

A word says little, and repeated it says no more."""

SILENCE_DB = -80.0
"""Samples that stay within this level of full scale are silence: 16 bits and their dither leave
about -85 dB."""

BONA_FIDE = "bona fide"
SPOOF = "spoof"
MIXED = "mixed"
"""Verdict if the whole recording scores as bona fide, but a part of it as a spoof."""


@dataclass(frozen=True)
class WindowScore:
    """The score of a part of a recording, computed as for a recording by itself.

    Attributes:
        judged: Whether the score says anything about the part; False for silence, for example.
        unbounded_llr: LLR before clipping to the bounds of the calibration, if it was clipped; else
            None.
        extras: Further outputs of the network for the part, such as its 'sources', by key.

    Examples:
        >>> from asdf import Detector
        >>> detector = Detector("network.pt", device="cpu")
        >>> windows = detector.score_over_time("call.wav", window_s=1, hop_s=0.5)
        >>> [(window.start_s, window.end_s) for window in windows]
        [(0.0, 1.0), (0.5, 1.5), (1.0, 2.0)]
    """

    start_s: float
    end_s: float
    score: float
    extras: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    judged: bool = field(default=True, repr=False, compare=False)
    unbounded_llr: float | None = field(default=None, repr=False, compare=False)

    @property
    def compared(self) -> float:
        """Value that is compared with thresholds: bounds limit claims, not decisions."""
        return self.score if self.unbounded_llr is None else self.unbounded_llr

    def entry(self) -> dict[str, float]:
        """Return times and score as plain values, for JSON."""
        entry = {"start_s": self.start_s, "end_s": self.end_s, "score": self.score}
        if self.unbounded_llr is not None:
            entry["unbounded_llr"] = self.unbounded_llr
        return entry


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


@dataclass(frozen=True, kw_only=True)
class Known:
    """Information about a score.

    Attributes:
        verdict: 'bona fide'; 'mixed' if the score is bona fide but `parts` are not; or 'spoof'.
            None without a threshold, or if `judged` is False.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        llr: Score, if it is a natural-log likelihood ratio, as for a calibrated network; else None.
        llr_interval: Interval of the LLR, (low, high), from the bootstrap of the calibration set;
            None if the calibration has none.
        unbounded_llr: LLR before clipping, if it exceeds what the calibration set supports and
            `llr` is the bound; else None. Verdicts use it.
        unlike: Whether the recording differs from those of the calibration set, so that its LLR is
            not valid for it; None if the calibration cannot determine this, or `judged` is False.
        distance: Distance of its embedding from the calibration set, if `unlike` is known; above 1
            the recording is unlike the set.
        raw: Score of the network before calibration; None if the recording could not be scored.
        seconds: Length of the recording, in seconds.
        seconds_scored: Length of the audio that the score covers, in seconds, excluding what speech
            activity detection removes.
        windows: Number of windows whose scores are averaged; 1 if the recording was heard at once.
        lowest: Window with the lowest score, if there are several. Its times are those of the
            recording, or of its speech if speech activity detection is on.
        parts: Parts whose windows score below the threshold, in their order, each with its lowest
            score.
        searched: Parameters of the search for parts; None: no search.
        windows_scores: Windows that were searched for parts; empty without a search, and for a
            stream.
        remark: Sentence of caution about the score; ''.
        judged: Whether the score says anything about the recording; False for silence, for example.
            `remark` then states the reason.
        extras: Further outputs of the network, by key: 'embedding', 'frames', 'sources', or the key
            of a task of your own.
    """

    verdict: str | None = None
    threshold: float | None = None
    llr: float | None = None
    llr_interval: tuple[float, float] | None = None
    unbounded_llr: float | None = None
    unlike: bool | None = None
    distance: float | None = None
    raw: float | None = None
    seconds: float | None = None
    seconds_scored: float | None = None
    windows: int = 0
    lowest: WindowScore | None = None
    parts: tuple[WindowScore, ...] = ()
    searched: Searched | None = None
    windows_scores: tuple[WindowScore, ...] = field(default=(), repr=False)
    remark: str = ""
    judged: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def llr_words(self) -> str:
        """LLR in the words of the ENFSI guideline; '' without an LLR, or if it is not valid for the
        recording, for example because the recording is not judged.
        """
        if self.llr is None or not self.judged or self.unlike:
            return ""
        return describe_llr(self.llr)

    @property
    def embedding(self) -> np.ndarray | None:
        """Embedding, (dimension,) float32, if requested; the mean over several windows."""
        return self.extras.get("embedding")

    @property
    def frames(self) -> Any:
        """Scores of the frames (`FrameScores`), if requested; None otherwise.

        They cover the whole recording, even if the score covers only its beginning.
        """
        return self.extras.get("frames")

    @property
    def sources(self) -> Any:
        """Classes with their probabilities (`Sources`), if the network traces sources."""
        return self.extras.get("sources")


@dataclass(frozen=True, eq=False)
class Scored(Known):
    """The result of one recording among several, and how much of it was heard.

    Attributes:
        index: Index of the recording in the input, from 0.
        path: Path of the recording; None for contents or arrays in memory.
        score: Score, higher for bona fide speech; None if the recording could not be scored.
        error: Reason why it could not be scored, in one line; '' if it could.
        name: Path, or the name in messages.

    Examples:
        >>> from asdf import Detector
        >>> detector = Detector("network.pt", device="cpu", threshold=-1000)
        >>> [scored] = detector.score_many(["call.wav"])
        >>> scored.index, scored.verdict, scored.seconds
        (0, 'bona fide', 2.0)
        >>> sorted(scored.entry())
        ['path', 'score', 'seconds', 'seconds_scored', 'verdict']
    """

    index: int
    path: Path | None
    score: float | None = None
    error: str = ""
    name: str = ""

    @property
    def compared(self) -> float | None:
        """Value that is compared with thresholds: bounds limit claims, not decisions."""
        return self.score if self.unbounded_llr is None else self.unbounded_llr

    def entry(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON; what does not apply is null or omitted."""
        # These keys are always present, so that a reader need not check for each.
        entry: dict[str, Any] = {
            "path": self.name,
            "score": self.score,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "seconds_scored": self.seconds_scored,
        }
        if self.llr is not None:
            entry |= {"llr": self.llr, "log10_llr": log10_llr(self.llr)}
            if self.llr_words:
                entry["llr_words"] = self.llr_words
            if self.llr_interval is not None:
                entry["llr_interval"] = list(self.llr_interval)
            if self.unbounded_llr is not None:
                entry["unbounded_llr"] = self.unbounded_llr
            if self.unlike is not None:
                entry["unlike"] = self.unlike
                entry["distance"] = self.distance
        if self.sources:
            entry |= self.sources.entry()
        if self.lowest:
            entry["lowest"] = self.lowest.entry()
        if self.searched:
            entry["parts"] = [part.entry() for part in self.parts]
            entry["searched"] = self.searched.entry()
        if self.remark:
            entry["remark"] = self.remark
        if self.error:
            entry["error"] = self.error
        return entry


class Score(float, Known):
    """The score of a recording as a float, with further information as attributes."""

    def __new__(cls, score: float, **known: Any) -> Score:
        return float.__new__(cls, score)

    def __init__(self, score: float, **known: Any) -> None:
        Known.__init__(self, **known)


def decide_verdict(
    score: float | None,
    threshold: float | None,
    judged: bool,
    has_parts: bool = False,
    unbounded_llr: float | None = None,
) -> str | None:
    """Return 'bona fide', 'mixed' or 'spoof'; None if there is no verdict.

    Args:
        has_parts: Whether a part of the recording sounds spoofed by itself.
        unbounded_llr: LLR before clipping to the score: bounds do not change decisions.
    """
    if score is None or threshold is None or not judged:
        return None
    decisive = score if unbounded_llr is None else unbounded_llr
    if decisive < threshold:
        return SPOOF
    return MIXED if has_parts else BONA_FIDE
