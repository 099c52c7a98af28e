"""The score of a recording, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

MIN_SPEECH_S = 0.5
"""Shorter speech is scored, as every trial must be, but not judged.

A word says little, and repeated it says no more."""

SILENCE_DB = -80.0
"""Samples that stay within this level of full scale are silence: 16 bits and their dither leave
about -85 dB."""


@dataclass(frozen=True)
class WindowScore:
    """The score of a part of a recording, as of a recording by itself."""

    start_s: float
    end_s: float
    score: float


@dataclass(frozen=True)
class Scored:
    """The score of a recording, and how much of it was heard.

    Attributes:
        index: of the recording among the paths that were to be scored, from 0.
        path: its file; None for an array.
        score: the higher, the more bona fide; None when the recording could not be scored.
        raw: the network's own score, which a calibrated detector maps to `score`; None as above.
        error: why it could not be scored, one line; '' when it could.
        seconds: of the recording.
        seconds_scored: of it that the score is of, without what speech activity detection leaves
            out.
        windows: how many windows the score is the mean of; 1 when the recording was heard at once.
        lowest: the window with the lowest score, where there are several. Its times are those of
            the recording, or of its speech where speech activity detection is on.
        remark: what one should know of the score; ''.
        judged: False where the score says nothing about the recording, as of silence; `remark` says
            why.
    """

    index: int
    path: Path | None
    score: float | None = None
    raw: float | None = None
    error: str = ""
    seconds: float | None = None
    seconds_scored: float | None = None
    windows: int = 0
    lowest: WindowScore | None = None
    remark: str = ""
    judged: bool = True
