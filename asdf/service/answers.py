"""The answers of a service as its OpenAPI description has them.

The description is of what `python -m asdf score --json` writes, with one recording in it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class WindowAnswer(_Part):
    """The score of a part of a recording."""

    start_s: float
    end_s: float
    score: float


class RecordingAnswer(_Part):
    """The score of a recording; the higher, the more bona fide."""

    path: str = Field(description="The name of the uploaded file; '-' where it has none.")
    score: float
    verdict: str | None = Field(description="'bona fide', 'spoof', or null.")
    seconds: float = Field(description="Seconds of the recording.")
    seconds_scored: float = Field(description="Seconds of it that the score is of.")
    lowest: WindowAnswer | None = Field(None, description="The lowest window of the score.")
    remark: str | None = Field(None, description="What one should know of the score.")
    windows: list[WindowAnswer] | None = Field(None, description="Scores over time, if requested.")


class OutlineAnswer(_Part):
    """The lowest and highest sample of equal parts of the recording."""

    low: list[float]
    high: list[float]


class ScoreAnswer(_Part):
    """What `python -m asdf score --json` writes, with one recording."""

    scores: str = Field(description="What the scores are of, in words.")
    network: str
    kind: str = Field(description="'llr' (natural log-likelihood ratio) or 'score'.")
    threshold: float | None = Field(description="Bona fide from this score on.")
    decision: str = Field(description="The threshold in words.")
    precision: str
    recordings: list[RecordingAnswer] = Field(min_length=1, max_length=1)
    complete: bool
    outline: OutlineAnswer | None = Field(None, description="For a picture, if requested.")


class RefusalAnswer(BaseModel):
    """Why there is no score."""

    error: str


class HealthAnswer(BaseModel):
    """Whether the service takes recordings."""

    ready: bool
    problem: str = Field(description="Why it does not; ''.")
