"""The answers of a service as in its OpenAPI description.

They describe the output of `python -m asdf score --json` for one recording.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Answer(BaseModel):
    # The text below a field is its description. Answers may have more fields than are described.
    model_config = ConfigDict(extra="allow", use_attribute_docstrings=True)


class WindowAnswer(_Answer):
    """The score of a part of a recording."""

    start_s: float
    """Where the part begins, in seconds of the recording."""
    end_s: float
    """Where the part ends, in seconds of the recording."""
    score: float
    """Score of this part by itself: the higher, the more bona fide."""
    unbounded_llr: float | None = None
    """Value of the calibration's map, where the score is one of its bounds."""


class FalseAlarmsAnswer(_Answer):
    """How often a genuine recording of as many windows has one below the threshold."""

    rate: float | None
    """Proportion of the recordings counted; null where none was as long."""
    at_most: float
    """Upper bound of the rate, one-sided, at 95 %."""
    recordings: int
    """Number of genuine recordings counted."""


class SearchedAnswer(_Answer):
    """How a recording was searched for parts that sound spoofed."""

    windows: int
    """Number of windows that were compared with the threshold."""
    window_s: float
    """Seconds of a window."""
    hop_s: float
    """Seconds from the start of a window to that of the next."""
    threshold: float
    """Score below which a window is in a part."""
    false_alarms: FalseAlarmsAnswer | None
    """How often genuine recordings have such a window; null where the threshold was not estimated
    for windows."""
    expected: float | None = None
    """Number of windows below the threshold to expect in genuine speech of this length; absent if
    unknown."""


class RecordingAnswer(_Answer):
    """The score of a recording; the higher, the more bona fide."""

    path: str
    """Name of the uploaded file; '-' where it has none."""
    sha256: str
    """SHA-256 of the uploaded file, as `sha256sum` prints it."""
    score: float
    """The higher, the more bona fide; `kind` states what it is."""
    verdict: str | None
    """'bona fide'; 'spoof'; 'mixed', where one of `parts` is clearly spoofed and the whole is not,
    or `channels` differ; or 'undecided', where neither can be told; null without a threshold, or
    for the reason in `remark`."""
    llr: float | None = None
    """The score, where it is a natural-log likelihood ratio."""
    log10_llr: float | None = None
    """The same to the base of ten."""
    llr_words: str | None = None
    """The same in the words of the ENFSI guideline of 2015; absent where the recording is not
    judged or `unlike`."""
    llr_interval: list[float] | None = Field(None, min_length=2, max_length=2)
    """Its interval at 95 %, from the bootstrap of the calibration set."""
    unbounded_llr: float | None = None
    """Unbounded value of the calibration's map, where its set supports only `llr`."""
    unlike: bool | None = None
    """Whether the recording is unlike the calibration set, so that `llr` does not apply to it;
    absent where the calibration cannot test it."""
    distance: float | None = None
    """Distance of the recording's embedding from the calibration set; unlike above 1."""
    seconds: float
    """Length of the recording."""
    seconds_scored: float
    """Seconds of the recording that were scored."""
    level_dbfs: float | None = None
    """Level of what was heard in dB of full scale, without its constant offset."""
    offset: float | None = None
    """Constant offset of the samples, whose full scale is 1."""
    lowest: WindowAnswer | None = None
    """The window with the lowest score, where the score is the mean of several windows."""
    parts: list[WindowAnswer] | None = None
    """Parts that sound spoofed by themselves, each with its lowest score; only for recordings that
    were searched for them."""
    searched: SearchedAnswer | None = None
    """How parts were searched for; absent where they were not."""
    remark: str | None = None
    """A limitation of this score in words, such as too little speech."""
    channels: list[dict[str, Any]] | None = None
    """Scores of its channels or sound tracks, where these are not the same sound."""
    windows: list[WindowAnswer] | None = None
    """Scores over time, where the query has `window`."""


class SpeakerAnswer(_Answer):
    """The score of a speaker of a conversation; other fields are as of a recording."""

    speaker: str
    """Name of the speaker in the RTTM."""
    score: float | None
    """Score of the speech of this speaker alone; null if there is none."""
    verdict: str | None
    """As for a recording; null for the reason in `remark`."""
    alone: list[tuple[float, float]]
    """Stretches in which nobody else speaks, in seconds."""
    overlapped_s: float
    """Seconds of the speaker's turns with others' speech."""


class OutlineAnswer(_Answer):
    """The lowest and highest sample of equal parts of the recording."""

    low: list[float]
    """Lowest sample of each part, from -1 to 1."""
    high: list[float]
    """Highest sample of each part, from -1 to 1."""


class MadeByAnswer(_Answer):
    """What made a score, so that it can be cited and made again."""

    asdf: str
    """Version of ASDF."""
    torch: str
    """Version of PyTorch."""
    network_sha256: str | None
    """SHA-256 of the network's file, as `sha256sum` prints it; for a fused system that of its own
    file, which states those of its networks."""
    date: str
    """Date and time of the score in UTC, in ISO 8601."""
    options: dict[str, Any]
    """Options that the score depends on."""
    command: str
    """Command that reproduces this where the files have these names."""


class PartSearchAnswer(_Answer):
    """How long recordings are searched for parts that sound spoofed."""

    window_s: float
    """Seconds of a window."""
    hop_s: float
    """Seconds from the start of a window to that of the next."""
    threshold: float
    """Score below which a window is in a part."""
    note: str
    """Effect of the number of windows on the rate of false alarms."""


class ScoreAnswer(_Answer):
    """What `python -m asdf score --json` writes, with one recording."""

    scores: str
    """Description of the part of a recording that is scored."""
    network: str
    """Name of the network's file, or its name on the hub."""
    kind: str
    """'llr' (natural log-likelihood ratio) or 'score'."""
    threshold: float | None
    """Lowest score that is called bona fide; null: no verdicts."""
    decision: str
    """The threshold in words; empty without one."""
    precision: str
    """Number format that the network computes in, as 'fp32'."""
    calibration: dict[str, Any] | None = None
    """Set, numbers and limits of the calibration, `origin` in words."""
    part_search: PartSearchAnswer | None = None
    """How long recordings are searched for parts; absent where they are not."""
    remark: str | None = None
    """A limitation of all scores of this detector in words; absent where none is known."""
    recordings: list[RecordingAnswer] = Field(min_length=1, max_length=1)
    """The recording, as a list of one."""
    speakers: list[SpeakerAnswer] | None = None
    """A score per speaker, where the form has turns of speakers as `rttm`."""
    complete: bool
    """Always true: no recording is missing from the list."""
    made_by: MadeByAnswer
    """Versions, digest, date and options."""
    outline: OutlineAnswer | None = None
    """The waveform for a picture, where the query has `outline`."""


class RefusalAnswer(_Answer):
    """Why there is no score."""

    error: str
    """The reason and what to do, in a sentence."""


class HealthAnswer(_Answer):
    """Whether the service takes recordings."""

    ready: bool
    """Whether a recording that is sent now would be scored."""
    problem: str
    """Why not; empty if it would."""
    seconds_left: float | None
    """Estimated seconds until this process has scored all that waits; null before it is known."""


class LiveAnswer(_Answer):
    """Whether the service works."""

    live: bool
    """Whether the network is responsive: no forward pass hangs."""
    problem: str
    """Why a restart would help; empty if it would not."""


class ReadyAnswer(HealthAnswer):
    """Whether the service takes recordings, and which network scores them."""

    network_sha256: str | None
    """SHA-256 of the file of the network that answers new requests."""


class VersionAnswer(_Answer):
    """Versions, and the network."""

    asdf: str
    """Version of ASDF."""
    torch: str
    """Version of PyTorch."""
    network: str
    """Name of the network's file, or its name on the hub."""
    network_sha256: str | None
    """SHA-256 of the network's file, as `sha256sum` prints it."""
