"""The score of a recording, and what is known of it.

Invariant: a verdict is made by `decide_verdict` alone, and both kinds of result have the same
fields of `Known`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from asdf.metrics.verbal_scale import describe_llr, log10_llr
from asdf.scoring.panel_agreement import MEMBERS, Agreement
from asdf.scoring.window_threshold import FalseAlarms

MIN_SPEECH_S = 0.5
"""Shorter speech is scored, as every trial must be, but not judged.

A word says little, and repeated it says no more."""

SILENCE_DB = -80.0
"""Samples that stay within this level of full scale are silence: 16 bits and their dither leave
about -85 dB."""

BONA_FIDE = "bona fide"
SPOOF = "spoof"
MIXED = "mixed"
"""The recording as a whole scores as bona fide does, and a part of it as a spoof."""


@dataclass(frozen=True)
class WindowScore:
    """The score of a part of a recording, as of a recording by itself.

    Attributes:
        judged: False where the score says nothing about the part, as of silence.
        unbounded_llr: LLR before the bounds of the calibration, where these cut it off; else None.
        extras: What else the network gives for it, such as its 'sources', by key.

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
        """Value that is compared with thresholds: bounds limit what is claimed, not decisions."""
        return self.score if self.unbounded_llr is None else self.unbounded_llr

    def entry(self) -> dict[str, float]:
        """Return times and score as plain values, for JSON."""
        entry = {"start_s": self.start_s, "end_s": self.end_s, "score": self.score}
        if self.unbounded_llr is not None:
            entry["unbounded_llr"] = self.unbounded_llr
        return entry


@dataclass(frozen=True, kw_only=True)
class Searched:
    """How a recording was searched for parts that sound spoofed.

    Attributes:
        windows: Number of windows that were compared with the threshold.
        window_s, hop_s: Seconds of a window, and from the start of one to that of the next.
        threshold: Score below which a window is in a part.
        false_alarms: How often genuine recordings of as many windows have one below it; None: not
            known, as of a threshold that was not learnt for windows.
    """

    windows: int
    window_s: float
    hop_s: float
    threshold: float
    false_alarms: FalseAlarms | None = None

    def describe(self) -> str:
        """Return in words what the windows were compared with, and how often that errs."""
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
    """What is known of a score.

    Attributes:
        verdict: 'bona fide'; 'mixed', where the score is that of bona fide speech and `parts` are
            not; or 'spoof'. None without a threshold, or where `judged` is False.
        threshold: from which score on the verdict is 'bona fide'; None: no verdicts.
        llr: the score, where it is a natural-log likelihood ratio, as of a calibrated network; else
            None.
        llr_interval: Interval of the LLR, (low, high), from the bootstrap of the calibration's set;
            None where the calibration has none.
        unbounded_llr: LLR of the calibration's map, where it claims more than the set supports and
            `llr` is its bound; else None. Verdicts are by it.
        unlike: Whether the recording is unlike those that the calibration was learnt from, so that
            its LLR does not stand for it; None where the calibration cannot tell, or `judged` is
            False.
        distance: Distance of its embedding from those recordings, where `unlike` is known; it is
            unlike them above 1.
        raw: the network's own score, which a calibrated detector maps to the score; None when the
            recording could not be scored.
        seconds: Seconds of the recording.
        seconds_scored: Seconds of it that the score is of, without what speech activity detection
            leaves out.
        windows: Number of windows that the score is the mean of; 1 when the recording was heard at
            once.
        lowest: the window with the lowest score, where there are several. Its times are those of
            the recording, or of its speech where speech activity detection is on.
        parts: Parts whose windows score below the threshold by themselves, in their order, each
            with its lowest score.
        searched: How parts were searched for; None: they were not.
        windows_scores: Windows in which parts were searched for; empty where they were not, and of
            a stream.
        remark: Sentence that one should know of the score; ''.
        judged: False where the score says nothing about the recording, as of silence; `remark` says
            why.
        extras: What else the network gives, by key: 'embedding', 'frames', 'sources', 'rationale',
            or that of a task of your own.
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
        """LLR in the words of the ENFSI guideline; '' without one, or where it does not stand for
        the recording, as of one that is not judged.
        """
        if self.llr is None or not self.judged or self.unlike:
            return ""
        return describe_llr(self.llr)

    @property
    def embedding(self) -> np.ndarray | None:
        """Embedding, (dimension,) float32, if requested; of several windows the mean."""
        return self.extras.get("embedding")

    @property
    def frames(self) -> Any:
        """Scores of its frames (`FrameScores`), if requested; None otherwise.

        They are of all of the recording, also where the score is of its beginning.
        """
        return self.extras.get("frames")

    @property
    def sources(self) -> Any:
        """Classes with their probabilities (`Sources`), where the network traces sources."""
        return self.extras.get("sources")

    @property
    def rationale(self) -> Any:
        """Text that an audio language model generated (`Rationale`), if requested: no evidence."""
        return self.extras.get("rationale")

    @property
    def agreement(self) -> Agreement | None:
        """What each member of a panel says (`Agreement`); None without one, and where `judged` is
        False.
        """
        return self.extras.get(MEMBERS) if self.judged else None


@dataclass(frozen=True, eq=False)
class Scored(Known):
    """The score of a recording among others, and how much of it was heard.

    Attributes:
        index: Index of the recording among those that were to be scored, from 0.
        path: its file; None for content or an array in memory.
        score: the higher, the more bona fide; None when the recording could not be scored.
        error: why it could not be scored, one line; '' when it could.
        name: its path; or what messages call it.

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

    def entry(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON; what does not apply is null or left out."""
        # These are always there, so that a reader need not ask for each key.
        entry: dict[str, Any] = {
            "path": self.name,
            "score": self.score,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "seconds_scored": self.seconds_scored,
        }
        if self.llr is not None:
            entry |= self._llr_entries(self.llr)
        if self.agreement:
            entry["agreement"] = self.agreement.entry()
        if self.sources:
            entry |= self.sources.entry()
        if self.rationale:
            entry["rationale"] = self.rationale.entry()
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

    def _llr_entries(self, llr: float) -> dict[str, Any]:
        """Return the LLR, to the base of ten too, its words, interval and unbounded value, and
        whether it stands for the recording.
        """
        entries: dict[str, Any] = {"llr": llr, "log10_llr": log10_llr(llr)}
        if self.llr_words:
            entries["llr_words"] = self.llr_words
        if self.llr_interval is not None:
            entries["llr_interval"] = list(self.llr_interval)
        if self.unbounded_llr is not None:
            entries["unbounded_llr"] = self.unbounded_llr
        if self.unlike is not None:
            entries["unlike"] = self.unlike
            entries["distance"] = self.distance
        return entries


class Score(float, Known):
    """The score of a recording as a number, and what is known of it as attributes."""

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
    """Return 'bona fide', 'mixed' or 'spoof'; None where there is no verdict.

    Args:
        has_parts: Whether a part of the recording sounds spoofed by itself.
        unbounded_llr: LLR of which the score is the bound: bounds change no decision.
    """
    if score is None or threshold is None or not judged:
        return None
    decisive = score if unbounded_llr is None else unbounded_llr
    if decisive < threshold:
        return SPOOF
    return MIXED if has_parts else BONA_FIDE
