"""The score of a recording, with further information.

Invariant: only `decide_verdict` makes verdicts, which columns may change; both kinds of result have
the same fields of `Known`, and what columns know of a recording by its key.

Of a recording whose channels, or sound tracks, are not the same sound, each is scored like a
recording of its own, and it has the verdict of none of them: 'mixed' if theirs differ, unless one
of them cannot be told and no other is spoofed; else 'undecided'. Its trial score is that of the
mean, as in lists; its score as a whole is the lowest of its channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from asdf.places import split_part
from asdf.scoring.columns import UNDECIDED, Request, ScoreColumn, find_columns, join_placed

MIN_SPEECH_S = 0.5
"""Shorter speech is scored, as every trial must be, but not judged.

A word says little, and repeated it says no more."""
MIN_SPEECH_SHARE = 0.5
"""If less of the windows has speech, the verdict is 'undecided'."""

BONA_FIDE = "bona fide"
SPOOF = "spoof"
MIXED = "mixed"
"""Verdict if the whole recording does not score as a spoof, but a part of it clearly does."""
_ROW_FIELDS = ("score", "verdict", "seconds", "seconds_scored")


@dataclass(frozen=True)
class WindowScore:
    """The score of a part of a recording, computed as for a recording by itself.

    Attributes:
        judged: Whether the score says anything about the part; False for silence, for example.
        unbounded_llr: Value of the calibration's map, if its set supports only `score`; else None.
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
        """Value that is compared with thresholds: what a set supports changes no decision."""
        return self.score if self.unbounded_llr is None else self.unbounded_llr

    def entry(self) -> dict[str, float]:
        """Return times and score as plain values, for JSON."""
        entry = {"start_s": self.start_s, "end_s": self.end_s, "score": self.score}
        if self.unbounded_llr is not None:
            entry["unbounded_llr"] = self.unbounded_llr
        return entry


@dataclass(frozen=True, kw_only=True)
class Known:
    """Information about a score.

    Attributes:
        verdict: 'bona fide', 'spoof', 'mixed' or 'undecided' (`decide_verdict`); None without a
            threshold, or if `judged` is False.
        threshold: Lowest score of the verdict 'bona fide'; None: no verdicts.
        raw: Score of the network before calibration; None if the recording could not be scored.
        seconds: Length of the recording, in seconds.
        seconds_scored: Length of the audio that the score covers, in seconds, excluding what speech
            activity detection removes.
        windows: Number of windows whose scores are averaged; 1 if the recording was heard at once.
        speech_share: Share with speech of the windows that are not digital silence: of those
            searched for parts, else of those scored; 1 if not checked.
        lowest: Window with the lowest score, if there are several. Its times are those of the
            recording, or of its speech if speech activity detection is on.
        level_dbfs: Level of what was heard in dB of full scale, without the constant offset; of
            several windows, the mean of their powers.
        offset: Constant offset of its samples, whose full scale is 1.
        remark: Sentence of caution about the score; ''.
        judged: Whether the score says anything about the recording; False for silence, for example.
            `remark` then states the reason.
        extras: Further outputs of the network, by key: 'embedding', 'frames', 'sources', or the key
            of a task of your own.
        values: Values of the columns that apply, by key (`asdf.scoring.columns`). What they say of
            the recording is an attribute of the result too: `llr`, `parts`, `searched`, `frames`,
            which cover the whole recording, `sources` ...
        columns: Classes of these columns, by key.
    """

    verdict: str | None = None
    threshold: float | None = None
    raw: float | None = None
    seconds: float | None = None
    seconds_scored: float | None = None
    windows: int = 0
    speech_share: float = 1.0
    lowest: WindowScore | None = None
    level_dbfs: float | None = None
    offset: float | None = None
    remark: str = ""
    judged: bool = True
    extras: Mapping[str, Any] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, type[ScoreColumn]] = field(default_factory=dict, repr=False)

    def __getattr__(self, name: str) -> Any:
        """Return what a column says of the recording; only for names that are not fields."""
        if not name.startswith("_") and name not in ("values", "columns"):
            for key, column in {**find_columns(), **self.columns}.items():
                if name != key and name not in column.attributes:
                    continue
                value = self.values.get(key)
                if value is None:
                    return column.attributes.get(name)
                return getattr(value, name) if name in column.attributes else value
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def known(self) -> dict[str, Any]:
        """Return the information by the names of its fields."""
        return {each.name: getattr(self, each.name) for each in fields(Known)}

    @property
    def llr(self) -> float | None:
        """Score, if it is a natural-log likelihood ratio, as of a calibrated network; else None."""
        return getattr(self.values.get("llr"), "llr", None)

    @property
    def unbounded_llr(self) -> float | None:
        """Value of the calibration's map, if its set supports only `llr`; else None."""
        return getattr(self.values.get("llr"), "unbounded_llr", None)

    @property
    def parts(self) -> tuple[WindowScore, ...]:
        """Parts that sound spoofed by themselves, in their order, each with its lowest score."""
        return getattr(self.values.get("parts"), "parts", ())

    @property
    def compared(self) -> float | None:
        """Value that is compared with thresholds: what a set supports changes no decision."""
        score: float | None = self if isinstance(self, float) else getattr(self, "score", None)
        return score if self.unbounded_llr is None else self.unbounded_llr

    @property
    def is_doubted(self) -> bool:
        """Whether a column says that the score is not valid for the recording."""
        return any(self.columns[key].doubts(value) for key, value in self.values.items())

    @property
    def embedding(self) -> np.ndarray | None:
        """Embedding, (dimension,) float32, if requested; the mean over several windows."""
        return self.extras.get("embedding")


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
        ['level_dbfs', 'offset', 'path', 'score', 'seconds', 'seconds_scored', 'verdict']
    """

    index: int
    path: Path | None
    score: float | None = None
    error: str = ""
    name: str = ""

    def placed(self) -> list[tuple[int, dict[str, Any]]]:
        """Return the result as plain values, with the places of these among those of others."""
        # These keys are always present, so that a reader need not check for each.
        scored: dict[str, Any] = {
            "score": self.score,
            "verdict": self.verdict,
            "seconds": self.seconds,
            "seconds_scored": self.seconds_scored,
        }
        if self.level_dbfs is not None:
            scored |= {"level_dbfs": self.level_dbfs, "offset": self.offset}
        placed: list[tuple[int, dict[str, Any]]] = [(0, {"path": self.name}), (10, scored)]
        if self.lowest:
            placed.append((50, {"lowest": self.lowest.entry()}))
        if self.remark:
            placed.append((70, {"remark": self.remark}))
        if self.error:
            placed.append((70, {"error": self.error}))
        for key, value in self.values.items():
            placed += self.columns[key].placed(value)
        return placed

    def entry(self) -> dict[str, Any]:
        """Return the result as plain values, for JSON; what does not apply is null or omitted."""
        return join_placed(self.placed())


class Score(float, Known):
    """The score of a recording as a float, with further information as attributes."""

    def __new__(cls, score: float, **known: Any) -> Score:
        return float.__new__(cls, score)

    def __init__(self, score: float, **known: Any) -> None:
        Known.__init__(self, **known)


def decide_verdict(result: Scored | Score) -> str | None:
    """Return the verdict on a recording; None without a threshold, or if it is not judged.

    It is 'bona fide' from the threshold on, else 'spoof'; but 'undecided' if less than half of the
    windows have speech, or if the likelihood ratio does not tell (`Calibration.is_clear`) or its
    interval contains 1. Parts that are clearly spoofed turn 'bona fide' and 'undecided' into
    'mixed'; parts whose own ratio does not tell turn 'bona fide' into 'undecided'. Channels that
    differ, and columns of one's own, come after that.
    """
    compared, threshold = result.compared, result.threshold
    if compared is None or threshold is None or not result.judged:
        return None
    verdict = BONA_FIDE if compared >= threshold else SPOOF
    if result.speech_share < MIN_SPEECH_SHARE:
        verdict = UNDECIDED
    # In the order of their keys in JSON: the ratio, then parts, then channels.
    for key in sorted(result.values, key=lambda key: result.columns[key].place[1]):
        verdict = result.columns[key].veto(result.values[key], verdict) or verdict
    return verdict


@dataclass(frozen=True)
class Differing:
    """Channels, or sound tracks, that were scored each.

    Attributes:
        why: Description of how they differ.
        channels: Plain values of each result, with the number of its 'channel' or 'track'.
    """

    why: str
    channels: tuple[Mapping[str, Any], ...]


class ChannelColumn(ScoreColumn):
    """The scores of channels or sound tracks that differ, which `join_channels` adds."""

    key = "channels"
    kind = Differing
    place = (55, 75)
    answer: ClassVar[Mapping[str, tuple[Any, str]]] = {
        "channels": (
            list[dict[str, Any]],
            "Scores of its channels or sound tracks, where these are not the same sound.",
        )
    }

    def __init__(self, threshold: float | None) -> None:
        self._threshold = threshold

    @classmethod
    def wanted(cls, request: Request) -> ChannelColumn:
        return cls(request.threshold)

    @classmethod
    def entry(cls, value: Differing) -> dict[str, Any]:
        return {cls.key: [dict(each) for each in value.channels]}

    @classmethod
    def rows(cls, value: Differing, name: str) -> list[dict[str, Any]]:
        joint = "&" if split_part(name)[1] else "#"
        rows = []
        for each in value.channels:
            kind = "track" if "track" in each else "channel"
            known = {field: each.get(field) for field in _ROW_FIELDS}
            remark = each.get("remark", "")
            rows.append({**known, "remark": remark, "name": f"{name}{joint}{kind}={each[kind]}"})
        return rows

    @classmethod
    def veto(cls, value: Differing, verdict: str) -> str:
        verdicts = {each["verdict"] for each in value.channels if each["verdict"] is not None}
        return MIXED if len(verdicts) > 1 and verdicts != {BONA_FIDE, UNDECIDED} else UNDECIDED

    def restored(self, saved: Mapping[str, Any]) -> Differing:
        channels = []
        for each in saved["channels"]:
            verdict = each["verdict"]
            # The threshold may be another one.
            if verdict in (BONA_FIDE, SPOOF) and self._threshold is not None:
                is_below = each.get("unbounded_llr", each["score"]) < self._threshold
                verdict = SPOOF if is_below else BONA_FIDE
            channels.append({**each, "verdict": verdict})
        return Differing(saved["why"], tuple(channels))


def join_channels(result: Scored, why: str, sides: Sequence[Scored], is_trial: bool) -> Scored:
    """Return the result of a recording with those of its channels or tracks, which differ.

    Args:
        result: Result of the mean of its channels.
        why: Description of how they differ.
        sides: Their results, one or more, named by `part_path`.
        is_trial: Whether the score stays that of the mean.
    """
    judged = [side for side in sides if side.judged]
    remark = f"{why}: each is scored by itself"
    if not is_trial:
        lowest = min(judged or sides, key=lambda side: side.compared or 0.0)
        result = replace(lowest, index=result.index, path=result.path, name=result.name)
    if result.judged or not judged:
        remark = "; ".join(filter(None, [remark, result.remark]))
    channels = []
    for side in sides:
        _, part = split_part(side.name)
        assert part is not None
        number = {"channel": part.channel}
        if part.channel is None:
            number = {"track": part.track}
        channels.append({**number, **side.entry()})
        del channels[-1]["path"]
    key = ChannelColumn.key
    result = replace(
        result,
        judged=bool(judged),
        remark=remark,
        values={**result.values, key: Differing(why, tuple(channels))},
        columns={**result.columns, key: ChannelColumn},
    )
    return replace(result, verdict=decide_verdict(result))


def as_score(result: Scored) -> Score:
    """Return the result of a recording as a number with further information."""
    assert result.score is not None
    return Score(result.score, **result.known())
