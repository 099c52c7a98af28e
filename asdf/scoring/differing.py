"""Verdicts on recordings whose channels, or sound tracks, are not the same sound.

Invariant: each channel is scored like a recording of its own, and the recording has the verdict of
none of them: 'mixed' if theirs differ, unless one of them cannot be told and no other is spoofed;
else 'undecided'. Its trial score is that of the mean, as in lists; its score as a whole is the
lowest of its channels.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from asdf.places import split_part
from asdf.scoring.columns import UNDECIDED, Request, ScoreColumn
from asdf.scoring.scored import BONA_FIDE, MIXED, SPOOF, Score, Scored, decide_verdict

_ROW_FIELDS = ("score", "verdict", "seconds", "seconds_scored")


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
    """The scores of channels or sound tracks that differ, which `describe_channels` adds."""

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


def describe_channels(result: Scored, why: str, sides: Sequence[Scored], is_trial: bool) -> Scored:
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
