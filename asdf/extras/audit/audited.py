"""Findings of an audit: results of features, and groups of recordings or values.

Invariant: nothing is computed here; text, JSON and page are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from asdf.arrays import Flags
from asdf.extras.audit.features import Feature
from asdf.extras.audit.measuring import Measured
from asdf.extras.audit.single import Separation, Values
from asdf.metrics.bootstrap import Interval


@dataclass(frozen=True)
class Row:
    """A recording of a list."""

    split: str
    id: str
    label: int
    columns: Mapping[str, str]
    names: Mapping[str, float | str]
    measured: Measured


@dataclass(frozen=True)
class Result:
    """The performance of a detector that uses one feature.

    Attributes:
        p_value: Corrected p-value, over all features of its kind (Holm); None for the detector of
            all features, which is judged by its interval.
        is_shortcut: Whether it separates the classes better than the limit allows.
        published: EER in a paper, and the paper; None if none is known.
        values: Values of the feature, for plots.
    """

    feature: Feature
    separation: Separation
    p_value: float | None
    is_shortcut: bool
    published: tuple[float, str] | None
    values: Values

    @property
    def is_joint(self) -> bool:
        """Whether it is the detector of all features."""
        return self.p_value is None


@dataclass(frozen=True)
class Group:
    """Recordings or values that a finding concerns, with the finding."""

    title: str
    advice: str
    members: Sequence[str]


@dataclass(frozen=True)
class Audit:
    """All findings of an audit.

    Attributes:
        names: Names of the lists.
        counts: Numbers of audited recordings, bona fide ones and spoofs.
        speakers: Number of speakers; None if unknown.
        limit: EER below which a feature is a shortcut.
        chance: EER of random scores.
        results: Results of features that a network can hear, lowest EER first.
        unheard: Results of names and tags.
        groups: Further findings.
        labels: Whether each recording is bona fide.
        papers: Sentences from papers on shortcuts in the corpus.
    """

    names: Sequence[str]
    counts: tuple[int, int, int]
    speakers: int | None
    limit: float
    chance: Interval
    results: Sequence[Result]
    unheard: Sequence[Result]
    groups: Sequence[Group]
    labels: Flags = field(repr=False)
    papers: Sequence[str] = ()

    @property
    def shortcuts(self) -> list[Result]:
        """Features that reveal labels to a network."""
        return [result for result in self.results if result.is_shortcut]

    @property
    def is_clean(self) -> bool:
        """Whether nothing was found that a network could learn from, or that spoils a test."""
        return not self.shortcuts and not self.groups


def as_record(audit: Audit) -> dict[str, Any]:
    """Return an audit as plain values."""
    total, bona_fide, spoof = audit.counts
    return {
        "lists": list(audit.names),
        "recordings": total,
        "bona_fide": bona_fide,
        "spoof": spoof,
        "speakers": audit.speakers,
        "limit": audit.limit,
        "chance_eer": [audit.chance.low, audit.chance.high],
        "is_clean": audit.is_clean,
        "features": list(map(_result_record, audit.results)),
        "names": list(map(_result_record, audit.unheard)),
        "papers": list(audit.papers),
        "findings": [
            {"finding": group.title, "advice": group.advice, "members": list(group.members)}
            for group in audit.groups
        ],
    }


def _result_record(result: Result) -> dict[str, Any]:
    eer = result.separation.eer
    return {
        "feature": result.feature.key,
        "eer": eer.value,
        "interval": [eer.low, eer.high],
        "auc": result.separation.auc,
        "p_value": result.p_value,
        "is_shortcut": result.is_shortcut,
        "advice": result.feature.advice if result.is_shortcut else "",
        "settings": result.feature.settings if result.is_shortcut else "",
        "published": list(result.published) if result.published else None,
    }
