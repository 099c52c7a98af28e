"""The metrics of a summary with names and units, from which all kinds of tables are built.

Invariant: a metric has the same name, unit and order in every output. Text is rounded for reading;
files for programs have all digits, including those of the official packages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from asdf.metrics.bootstrap import Interval
from asdf.metrics.summary import TESTED, Summary
from asdf.tables.table import Column, Value


@dataclass(frozen=True, kw_only=True)
class Metric(Column):
    """A column of the pooled trials of a system.

    Attributes:
        of: Function that reads the value from a summary; None if it is undefined.
    """

    of: Callable[[Summary], float | None]
    marked: bool = True


def _soft(value: Callable[[Summary], float]) -> Callable[[Summary], float | None]:
    """Return a metric of scores, which is undefined if the scores are decisions."""
    return lambda summary: None if summary.is_hard else value(summary)


def _threshold(summary: Summary) -> float | None:
    # A threshold between the decisions 1 and 0 has no meaning.
    if summary.decisions is None or summary.is_hard:
        return None
    return summary.decisions.threshold.value


def _rate(key: str, name: str, of: Callable[[Summary], float | None]) -> Metric:
    """Return an error rate, in per cent with three decimals, or two in papers."""
    return Metric(key=key, name=name, of=of, percent=True, digits=3, paper_digits=2)


def _threshold_of(key: str, name: str, of: Callable[[Summary], float | None]) -> Metric:
    """Return a column for a threshold, by which systems are not ranked."""
    return Metric(key=key, name=name, of=of, in_papers=False, lower_is_better=None)


def _decision(key: str, name: str) -> Metric:
    return Metric(
        key=key,
        name=name,
        of=lambda summary: None if summary.decisions is None else summary.decisions.value(key),
        percent=True,
        digits=2,
        paper_digits=2,
        lower_is_better=False,
    )


EER = replace(
    _rate("eer", "EER", _soft(lambda s: s.result.eer)),
    over={"trials": "95 %, trials", "speakers": "95 %, speakers"},
)

MIN_DCF = Metric(key="min_dcf", name="minDCF", of=_soft(lambda s: s.result.min_dcf))

METRICS = (
    EER,
    _threshold_of("eer_threshold", "EER threshold", _soft(lambda s: s.result.eer_threshold)),
    MIN_DCF,
    Metric(key="act_dcf", name="actDCF", of=_soft(lambda s: s.result.act_dcf)),
    Metric(key="cllr", name="Cllr", unit="bits", of=_soft(lambda s: s.result.cllr)),
    Metric(key="min_cllr", name="min Cllr", unit="bits", of=_soft(lambda s: s.min_cllr)),
    Metric(key="auc", name="AUC", of=_soft(lambda s: s.auc), lower_is_better=False),
    Metric(
        key="tdcf_2019", name="min t-DCF 2019", of=lambda s: getattr(s.tandem, "tdcf_2019", None)
    ),
    Metric(
        key="tdcf_2021", name="min t-DCF 2021", of=lambda s: getattr(s.tandem, "tdcf_2021", None)
    ),
    _rate("t_eer", "t-EER", lambda s: getattr(s.tandem, "t_eer", None)),
    _threshold_of("threshold", "threshold", _threshold),
    _decision("accuracy", "accuracy"),
    _decision("balanced_accuracy", "balanced accuracy"),
    _decision("macro_f1", "macro-F1"),
    _decision("f1_bona_fide", "F1 bona fide"),
    _decision("f1_spoof", "F1 spoof"),
    _decision("precision_bona_fide", "precision bona fide"),
    _decision("recall_bona_fide", "recall bona fide"),
    _decision("precision_spoof", "precision spoof"),
    _decision("recall_spoof", "recall spoof"),
)


def intervals_of(metric: Metric, summary: Summary) -> dict[str, Interval]:
    """Return the 95 % intervals of a metric of the pooled trials, over trials and over speakers."""
    decisions = summary.decisions
    if decisions is not None and metric.key in decisions.intervals:
        drawn = {
            "trials": decisions.intervals[metric.key],
            "speakers": decisions.speaker_intervals.get(metric.key),
        }
    else:
        # Intervals of scores have a field for each bootstrapped metric.
        drawn = {
            "trials": getattr(summary.intervals, metric.key, None),
            "speakers": getattr(summary.speaker_intervals, metric.key, None),
        }
    return {kind: interval for kind, interval in drawn.items() if interval is not None}


def metric_columns(
    summaries: Sequence[Summary], leading: Mapping[str, int]
) -> list[tuple[Metric, list[Value]]]:
    """Return a column for each metric that any of the summaries has.

    Args:
        leading: Index of the system that is significantly the best by each metric (see
            `summary.leaders`).
    """
    return [
        (metric, metric_values(metric, summaries, leading.get(metric.key)))
        for metric in defined(summaries)
    ]


def metric_values(metric: Metric, summaries: Sequence[Summary], leader: int | None) -> list[Value]:
    """Return the values of a metric; that of the system at `leader` is the best by a test."""
    numbers = [metric.of(summary) for summary in summaries]
    known = [number for number in numbers if number is not None]
    # Without a test none is marked, nor is a lowest value that several systems share.
    marks_lowest = metric.key in TESTED and len(known) > 1 and known.count(min(known)) == 1
    values = []
    for index, (number, summary) in enumerate(zip(numbers, summaries, strict=True)):
        intervals = {} if number is None else intervals_of(metric, summary)
        is_lowest = marks_lowest and number == min(known)
        values.append(Value(number, intervals, index == leader, is_lowest=is_lowest))
    return values


def defined(summaries: Sequence[Summary]) -> list[Metric]:
    """Return the metrics that at least one of the summaries has."""
    metrics = []
    for metric in METRICS:
        if any(metric.of(summary) is not None for summary in summaries):
            metrics.append(metric)
    return metrics
