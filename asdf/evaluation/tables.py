"""Summaries as aligned text: all of one system, or systems side by side.

Invariant: no digit that an official package prints is rounded away, and what a number is of (which trials, against
which bona fide) stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence

from asdf.evaluation.bootstrap import Interval, Intervals
from asdf.evaluation.metrics import METRICS, defined
from asdf.evaluation.summary import Average, Result, Summary

BEST = "*"
_AGAINST = {"all": "spoofs of each value against all bona fide trials", "same": "trials of each value among themselves"}


def summary_text(summary: Summary) -> str:
    """All of one system on one set; ends without a line break."""
    result = summary.result
    rows = [("trials", f"{result.bona_fide + result.spoof}: {result.bona_fide} bona fide, {result.spoof} spoof")]
    units = {"eer": "%", "t_eer": "%", "cllr": "bits", "min_cllr": "bits"}
    for metric in METRICS:
        if metric.value(summary) is None:
            continue
        value = f"{metric.text(summary)} {units.get(metric.key, '')}".rstrip()
        rows.append((metric.heading.removesuffix(" %"), value + _interval_text(metric.key, summary)))
    if summary.tandem is not None:
        rows.append(("ASV EER", f"{100 * summary.tandem.asv_eer:.9f} %"))
        rows.append(("ASV threshold", f"{summary.tandem.asv_threshold:.10f}"))
    width = max(len(name) for name, _ in rows)
    lines = [heading(summary), *(f"  {name:<{width}}  {value}" for name, value in rows)]
    for column in summary.columns:
        lines += ["", f"  by {column}: {_AGAINST[summary.of_column(column)[0].bona_fide]}"]
        lines += [f"    {line}" for line in _condition_lines(summary, column)]
    return "\n".join(lines)


def systems_text(summaries: Sequence[Summary]) -> str:
    """Systems side by side, a column each: their metrics, and their EERs by condition; the best are marked."""
    rows = [["", *(f"{summary.name} " for summary in summaries)]]
    for metric in defined(summaries):
        best = metric.best(summaries)
        rows.append([metric.heading, *(_marked(metric.text(s), i in best) for i, s in enumerate(summaries))])
        if metric.key == "eer":
            for over, drawn in (
                ("trials", [summary.intervals for summary in summaries]),
                ("speakers", [summary.speaker_intervals for summary in summaries]),
            ):
                if any(drawn):
                    rows.append([f"  95 %, {over}", *(f"{_of(one, 'eer')} " if one else "- " for one in drawn)])
    parts = ["\n".join(columns(rows, 1))]
    for column in dict.fromkeys(column for summary in summaries for column in summary.columns):
        parts.append(f"EER % by {column}\n" + "\n".join(columns(_eers_of_systems(summaries, column), 1)))
    return "\n\n".join([*parts, f"{BEST} the best"])


def heading(summary: Summary) -> str:
    """The system and, where it has a name, the set."""
    return f"{summary.name} on {summary.set}" if summary.set else summary.name


def columns(rows: Sequence[Sequence[str]], names: int) -> list[str]:
    """The rows as lines, the first `names` columns aligned to the left, the others to the right."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if place < names else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _condition_lines(summary: Summary, column: str) -> list[str]:
    rows = [[column, "EER %", "minDCF", "actDCF", "Cllr", "bona fide", "spoof"]]
    for condition in summary.of_column(column):
        result = condition.result
        rows.append([condition.value, *_numbers(result), str(result.bona_fide), str(result.spoof)])
    pooled = summary.result
    rows.append(["mean", *_numbers(summary.average(column)), "", ""])
    rows.append(["pooled", *_numbers(pooled), str(pooled.bona_fide), str(pooled.spoof)])
    return columns(rows, 1)


def _numbers(of: Result | Average) -> list[str]:
    return [f"{100 * of.eer:.9f}", f"{of.min_dcf:.10f}", f"{of.act_dcf:.10f}", f"{of.cllr:.10f}"]


def _eers_of_systems(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    """A row a value, and one of the means; a column a system."""
    eers = [{one.value: one.result.eer for one in summary.of_column(column)} for summary in summaries]
    rows = [
        [value, *_marked_eers([found.get(value) for found in eers])]
        for value in sorted({value for found in eers for value in found})
    ]
    means = [summary.average(column).eer if found else None for summary, found in zip(summaries, eers, strict=True)]
    return [[column, *(f"{summary.name} " for summary in summaries)], *rows, ["mean", *_marked_eers(means)]]


def _marked_eers(eers: Sequence[float | None]) -> list[str]:
    least = min(eer for eer in eers if eer is not None)
    return [_marked("-" if eer is None else f"{100 * eer:.9f}", eer == least) for eer in eers]


def _marked(text: str, best: bool) -> str:
    return text + (BEST if best else " ")


def _interval_text(key: str, summary: Summary) -> str:
    if key not in ("eer", "min_dcf"):
        return ""
    told = []
    for over, intervals in (("trials", summary.intervals), ("speakers", summary.speaker_intervals)):
        if intervals is not None:
            told.append(f"{_of(intervals, key)} over {over}")
    return f"   95 %: {', '.join(told)}" if told else ""


def _of(intervals: Intervals, key: str) -> str:
    return _bounds(intervals.eer, 100, 4) if key == "eer" else _bounds(intervals.min_dcf, 1, 5)


def _bounds(interval: Interval, unit: float, digits: int) -> str:
    return f"{unit * interval.low:.{digits}f} .. {unit * interval.high:.{digits}f}"
