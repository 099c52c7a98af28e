"""The metrics of a summary, each with its names and its unit; tables of all kinds draw on it.

Invariant: a metric has the same name, unit and order in every output. Text is rounded to what
people read; files for programs have all digits, those of the official packages among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from asdf.metrics.bootstrap import Interval
from asdf.metrics.summary import Summary


@dataclass(frozen=True)
class Metric:
    """One metric of pooled trials.

    Attributes:
        key: its name for programs.
        heading: its name in text.
        value: reads it from a summary; None where it is not defined.
        percent: whether it is a fraction that people read in per cent.
        ranked: whether systems are better or worse by it.
        digits: decimals in text, those of a per cent value if it is one.
        paper_digits: decimals in publications.
        lower_is_better: Direction in which systems are ranked.
    """

    key: str
    heading: str
    value: Callable[[Summary], float | None]
    percent: bool = False
    ranked: bool = True
    digits: int = 4
    paper_digits: int = 4
    lower_is_better: bool = True

    def text(self, summary: Summary, *, paper: bool = False) -> str:
        """Return the value in the unit of the heading; '-' where it is not defined."""
        value = self.value(summary)
        if value is None:
            return "-"
        shown = 100 * value if self.percent else value
        digits = self.paper_digits if paper else self.digits
        return f"{shown:.{digits}f}"


def _soft(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    """Return a metric of scores, which is not defined where they are decisions."""
    return lambda summary: None if summary.is_hard else value(summary)


def _decided(name: str) -> Callable[[Summary], float | None]:
    """Return a metric of decisions, which is not defined without a threshold."""
    return lambda summary: None if summary.decisions is None else summary.decisions.value(name)


def _threshold(summary: Summary) -> float | None:
    # That between the decisions 1 and 0 says nothing.
    if summary.decisions is None or summary.is_hard:
        return None
    return summary.decisions.threshold.value


def _decision(key: str, heading: str) -> Metric:
    return Metric(
        key,
        heading,
        _decided(key),
        percent=True,
        digits=2,
        paper_digits=2,
        lower_is_better=False,
    )


METRICS = (
    Metric("eer", "EER %", _soft(lambda s: s.result.eer), percent=True, digits=3, paper_digits=2),
    Metric("eer_threshold", "EER threshold", _soft(lambda s: s.result.eer_threshold), ranked=False),
    Metric("min_dcf", "minDCF", _soft(lambda s: s.result.min_dcf)),
    Metric("act_dcf", "actDCF", _soft(lambda s: s.result.act_dcf)),
    Metric("cllr", "Cllr", _soft(lambda s: s.result.cllr)),
    Metric("min_cllr", "min Cllr", _soft(lambda s: s.min_cllr)),
    Metric("auc", "AUC", _soft(lambda s: s.auc), lower_is_better=False),
    Metric("tdcf_2019", "min t-DCF 2019", lambda s: s.tdcf_2019),
    Metric("tdcf_2021", "min t-DCF 2021", lambda s: s.tdcf_2021),
    Metric("t_eer", "t-EER %", lambda s: s.t_eer, percent=True, digits=3, paper_digits=2),
    Metric("threshold", "threshold", _threshold, ranked=False),
    _decision("accuracy", "accuracy %"),
    _decision("balanced_accuracy", "balanced accuracy %"),
    _decision("macro_f1", "macro-F1 %"),
    _decision("f1_bona_fide", "F1 bona fide %"),
    _decision("f1_spoof", "F1 spoof %"),
    _decision("precision_bona_fide", "precision bona fide %"),
    _decision("recall_bona_fide", "recall bona fide %"),
    _decision("precision_spoof", "precision spoof %"),
    _decision("recall_spoof", "recall spoof %"),
)


@dataclass(frozen=True)
class MetricIntervals:
    """The intervals of a metric over trials and over speakers; None where there is none."""

    trials: Interval | None
    speakers: Interval | None


def intervals_of(metric: Metric, summary: Summary) -> MetricIntervals:
    """Return the 95 % intervals of a metric of the pooled trials."""
    decisions = summary.decisions
    if decisions is not None and metric.key in decisions.intervals:
        return MetricIntervals(
            trials=decisions.intervals[metric.key],
            speakers=decisions.speaker_intervals.get(metric.key),
        )
    # Intervals of scores have a field for each metric that is drawn.
    return MetricIntervals(
        trials=getattr(summary.intervals, metric.key, None),
        speakers=getattr(summary.speaker_intervals, metric.key, None),
    )


def defined(summaries: Sequence[Summary]) -> list[Metric]:
    """Return the metrics that at least one of the summaries has."""
    metrics = []
    for metric in METRICS:
        if any(metric.value(summary) is not None for summary in summaries):
            metrics.append(metric)
    return metrics
