"""Summaries as aligned text: all of one system, or systems one below the other.

Invariant: no digit that an official package prints is rounded away, and what a number is of (which trials, against
which bona fide) stands beside it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asdf.metrics.bootstrap import Interval, Intervals
from asdf.metrics.catalogue import METRICS, defined
from asdf.metrics.summary import Average, Result, Summary
from asdf.report.names import labels_of

BEST = "*"
LEADS = "significantly better than the next one (paired bootstrap, p < 0.05)"
_WIDTH = 80
_LABEL = 24
_AGAINST = {
    "all": "spoofs of each value against all bona fide trials",
    "same": "trials of each value among themselves",
}


def summary_text(summary: Summary) -> str:
    """All of one system on one set; ends without a line break."""
    result = summary.result
    rows = [
        (
            "trials",
            f"{result.bona_fide + result.spoof}: {result.bona_fide} bona fide, {result.spoof} spoof",
        ),
        ("scored", summary.scored.describe()),
    ]
    units = {"eer": "%", "t_eer": "%", "cllr": "bits", "min_cllr": "bits"}
    for metric in METRICS:
        if metric.value(summary) is None:
            continue
        value = f"{metric.text(summary)} {units.get(metric.key, '')}".rstrip()
        rows.append(
            (metric.heading.removesuffix(" %"), value + _interval_text(metric.key, summary))
        )
    if summary.tandem is not None:
        rows.append(("ASV EER", f"{100 * summary.tandem.asv_eer:.9f} %"))
        rows.append(("ASV threshold", f"{summary.tandem.asv_threshold:.10f}"))
    width = max(len(name) for name, _ in rows)
    lines = [heading(summary), *(f"  {name:<{width}}  {value}" for name, value in rows)]
    for column in summary.columns:
        lines += ["", f"  by {column}: {_AGAINST[summary.of_column(column)[0].bona_fide]}"]
        # Not indented: so they have 80 characters.
        lines += _condition_lines(summary, column)
    return "\n".join(lines)


def systems_text(summaries: Sequence[Summary], leading: Mapping[str, int]) -> str:
    """Systems one below the other, in blocks of columns that 80 characters hold: metrics, EERs by condition.

    `leading` has the index of the system that is significantly the best by a metric (see `leading.leaders`).
    """
    table = [["", *labels_of([summary.name for summary in summaries], _LABEL)]]
    for metric in defined(summaries):
        best = leading.get(metric.key)
        cells = [
            metric.text(one) + (BEST if index == best else " ")
            for index, one in enumerate(summaries)
        ]
        table.append([f"{metric.heading} ", *cells])
        if metric.key == "eer":
            table += _interval_columns(summaries)
    lengths = [summary.scored.describe() for summary in summaries]
    if len(set(lengths)) > 1:
        table.append(["scored", *lengths])
    parts = _blocks(table)
    if len(set(lengths)) == 1:
        parts.append(f"scored: {lengths[0]}")
    for column in dict.fromkeys(column for summary in summaries for column in summary.columns):
        blocks = _blocks([table[0], *_eer_columns(summaries, column)])
        parts.append("\n\n".join([f"EER % by {column}", *blocks]))
    if leading:
        parts.append(f"{BEST} {LEADS}")
    return "\n\n".join(parts)


def _interval_columns(summaries: Sequence[Summary]) -> list[list[str]]:
    kinds = {
        "trials": [summary.intervals for summary in summaries],
        "speakers": [summary.speaker_intervals for summary in summaries],
    }
    return [
        [f"95 %, {over} ", *(f"{_of(one, 'eer')} " if one else "- " for one in drawn)]
        for over, drawn in kinds.items()
        if any(drawn)
    ]


def _blocks(table: Sequence[Sequence[str]]) -> list[str]:
    """Columns, the first with the names of the rows, as lines of at most 80 characters; names begin each block."""
    names, *others = table
    blocks: list[list[Sequence[str]]] = []
    room = 0
    for column in others:
        needed = 2 + max(map(len, column))
        if not blocks or needed > room:
            blocks.append([names])
            room = _WIDTH - max(map(len, names))
        blocks[-1].append(column)
        room -= needed
    return ["\n".join(columns(list(zip(*block, strict=True)), 1)) for block in blocks]


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
        rows.append(
            [
                value_heading(condition.value),
                *_numbers(result),
                str(result.bona_fide),
                str(result.spoof),
            ]
        )
    pooled = summary.result
    rows.append(["mean", *_numbers(summary.average(column)), "", ""])
    rows.append(["pooled", *_numbers(pooled), str(pooled.bona_fide), str(pooled.spoof)])
    return columns(rows, 1)


def _numbers(of: Result | Average) -> list[str]:
    return [f"{100 * of.eer:.9f}", f"{of.min_dcf:.10f}", f"{of.act_dcf:.10f}", f"{of.cllr:.10f}"]


def _eer_columns(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    """A column for each value, and one of the means; a row for each system."""
    eers = [{one.value: one.result.eer for one in s.of_column(column)} for s in summaries]
    table = []
    for value in sorted({value for known in eers for value in known}):
        table.append([value_heading(value), *(_percent(known.get(value)) for known in eers)])
    means = [
        summary.average(column).eer if summary.of_column(column) else None for summary in summaries
    ]
    return [*table, ["mean", *map(_percent, means)]]


def value_heading(value: str) -> str:
    """The value of a condition as the heading of its results; in quotes if it is called as one of ours."""
    return f"'{value}'" if value in ("mean", "pooled") else value


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.9f}"


def _interval_text(key: str, summary: Summary) -> str:
    if key not in ("eer", "min_dcf"):
        return ""
    texts = []
    for over, intervals in (("trials", summary.intervals), ("speakers", summary.speaker_intervals)):
        if intervals is not None:
            texts.append(f"{_of(intervals, key)} over {over}")
    return f"   95 %: {', '.join(texts)}" if texts else ""


def _of(intervals: Intervals, key: str) -> str:
    return _bounds(intervals.eer, 100, 4) if key == "eer" else _bounds(intervals.min_dcf, 1, 5)


def _bounds(interval: Interval, unit: float, digits: int) -> str:
    return f"{unit * interval.low:.{digits}f} .. {unit * interval.high:.{digits}f}"
