"""The answers of a service as in its OpenAPI description.

They describe the output of `python -m asdf score --json` for one recording.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow")


class WindowAnswer(_Part):
    """The score of a part of a recording."""

    start_s: float = Field(description="Where the part begins, in seconds of the recording.")
    end_s: float = Field(description="Where the part ends, in seconds of the recording.")
    score: float = Field(
        description="Score of this part by itself: the higher, the more bona fide."
    )
    unbounded_llr: float | None = Field(
        None, description="Value of the calibration's map, where the score is one of its bounds."
    )


class FalseAlarmsAnswer(_Part):
    """How often a genuine recording of as many windows has one below the threshold."""

    rate: float | None = Field(
        description="Proportion of the recordings counted; null where none was as long."
    )
    at_most: float = Field(description="Upper bound of the rate, one-sided, at 95 %.")
    recordings: int = Field(description="Number of genuine recordings counted.")


class SearchedAnswer(_Part):
    """How a recording was searched for parts that sound spoofed."""

    windows: int = Field(description="Number of windows that were compared with the threshold.")
    window_s: float = Field(description="Seconds of a window.")
    hop_s: float = Field(description="Seconds from the start of a window to that of the next.")
    threshold: float = Field(description="Score below which a window is in a part.")
    false_alarms: FalseAlarmsAnswer | None = Field(
        description="How often genuine recordings have such a part; null where the threshold was "
        "not estimated for windows."
    )


class RecordingAnswer(_Part):
    """The score of a recording; the higher, the more bona fide."""

    path: str = Field(description="Name of the uploaded file; '-' where it has none.")
    sha256: str = Field(description="SHA-256 of the uploaded file, as `sha256sum` prints it.")
    score: float = Field(description="The higher, the more bona fide; `kind` states what it is.")
    verdict: str | None = Field(
        description="'bona fide'; 'mixed', where it scores as bona fide but `parts` do not; or "
        "'spoof'; null without a threshold, or for the reason in `remark`."
    )
    llr: float | None = Field(
        None, description="The score, where it is a natural-log likelihood ratio."
    )
    log10_llr: float | None = Field(None, description="The same to the base of ten.")
    llr_words: str | None = Field(
        None,
        description="The same in the words of the ENFSI guideline of 2015; absent where the "
        "recording is not judged or `unlike`.",
    )
    llr_interval: list[float] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="Its interval at 95 %, from the bootstrap of the calibration set.",
    )
    unbounded_llr: float | None = Field(
        None,
        description="Unbounded value of the calibration's map, where its set supports only `llr`.",
    )
    unlike: bool | None = Field(
        None,
        description="Whether the recording is unlike the calibration set, so that `llr` does not "
        "apply to it; absent where the calibration cannot test it.",
    )
    distance: float | None = Field(
        None,
        description="Distance of the recording's embedding from the calibration set; unlike above "
        "1.",
    )
    seconds: float = Field(description="Length of the recording.")
    seconds_scored: float = Field(description="Seconds of the recording that were scored.")
    lowest: WindowAnswer | None = Field(
        None,
        description="The window with the lowest score, where the score is the mean of "
        "several windows.",
    )
    parts: list[WindowAnswer] | None = Field(
        None,
        description="Parts that sound spoofed by themselves, each with its lowest score; only for "
        "recordings that were searched for them.",
    )
    searched: SearchedAnswer | None = Field(
        None, description="How parts were searched for; absent where they were not."
    )
    remark: str | None = Field(
        None, description="A limitation of this score in words, such as too little speech."
    )
    windows: list[WindowAnswer] | None = Field(
        None, description="Scores over time, where the query has `window`."
    )


class SpeakerAnswer(_Part):
    """The score of a speaker of a conversation; other fields are as of a recording."""

    speaker: str = Field(description="Name of the speaker in the RTTM.")
    score: float | None = Field(
        description="Score of the speech of this speaker alone; null if there is none."
    )
    verdict: str | None = Field(description="As for a recording; null for the reason in `remark`.")
    alone: list[tuple[float, float]] = Field(
        description="Stretches in which nobody else speaks, in seconds."
    )
    overlapped_s: float = Field(description="Seconds of the speaker's turns with others' speech.")


class OutlineAnswer(_Part):
    """The lowest and highest sample of equal parts of the recording."""

    low: list[float] = Field(description="Lowest sample of each part, from -1 to 1.")
    high: list[float] = Field(description="Highest sample of each part, from -1 to 1.")


class MadeByAnswer(_Part):
    """What made a score, so that it can be cited and made again."""

    asdf: str = Field(description="Version of ASDF.")
    torch: str = Field(description="Version of PyTorch.")
    network_sha256: str | None = Field(
        description="SHA-256 of the network's file, as `sha256sum` prints it; for a fused system "
        "that of its own file, which states those of its networks."
    )
    date: str = Field(description="Date and time of the score in UTC, in ISO 8601.")
    options: dict[str, Any] = Field(description="Options that the score depends on.")
    command: str = Field(
        description="Command that reproduces this where the files have these names."
    )


class PartSearchAnswer(_Part):
    """How long recordings are searched for parts that sound spoofed."""

    window_s: float = Field(description="Seconds of a window.")
    hop_s: float = Field(description="Seconds from the start of a window to that of the next.")
    threshold: float = Field(description="Score below which a window is in a part.")
    note: str = Field(description="Effect of the number of windows on the rate of false alarms.")


class ScoreAnswer(_Part):
    """What `python -m asdf score --json` writes, with one recording."""

    scores: str = Field(description="Description of the part of a recording that is scored.")
    network: str = Field(description="Name of the network's file, or its name on the hub.")
    kind: str = Field(description="'llr' (natural log-likelihood ratio) or 'score'.")
    threshold: float | None = Field(
        description="Lowest score that is called bona fide; null: no verdicts."
    )
    decision: str = Field(description="The threshold in words; empty without one.")
    precision: str = Field(description="Number format that the network computes in, as 'fp32'.")
    calibration: dict[str, Any] | None = Field(
        None, description="Set, numbers and limits of the calibration, `origin` in words."
    )
    part_search: PartSearchAnswer | None = Field(
        None, description="How long recordings are searched for parts; absent where they are not."
    )
    recordings: list[RecordingAnswer] = Field(
        min_length=1, max_length=1, description="The recording, as a list of one."
    )
    speakers: list[SpeakerAnswer] | None = Field(
        None, description="A score per speaker, where the form has turns of speakers as `rttm`."
    )
    complete: bool = Field(description="Always true: no recording is missing from the list.")
    made_by: MadeByAnswer = Field(description="Versions, digest, date and options.")
    outline: OutlineAnswer | None = Field(
        None, description="The waveform for a picture, where the query has `outline`."
    )


class RefusalAnswer(BaseModel):
    """Why there is no score."""

    error: str = Field(description="The reason and what to do, in a sentence.")


class HealthAnswer(BaseModel):
    """Whether the service takes recordings."""

    ready: bool = Field(description="Whether a recording that is sent now would be scored.")
    problem: str = Field(description="Why not; empty if it would.")


class LiveAnswer(BaseModel):
    """Whether the service works."""

    live: bool = Field(description="Whether the network is responsive: no forward pass hangs.")
    problem: str = Field(description="Why a restart would help; empty if it would not.")


class ReadyAnswer(HealthAnswer):
    """Whether the service takes recordings, and which network scores them."""

    network_sha256: str | None = Field(
        description="SHA-256 of the file of the network that answers new requests."
    )


class VersionAnswer(BaseModel):
    """Versions, and the network."""

    asdf: str = Field(description="Version of ASDF.")
    torch: str = Field(description="Version of PyTorch.")
    network: str = Field(description="Name of the network's file, or its name on the hub.")
    network_sha256: str | None = Field(
        description="SHA-256 of the network's file, as `sha256sum` prints it."
    )
