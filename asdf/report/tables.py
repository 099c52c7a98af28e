"""Summaries as aligned text: everything of one system, or systems one below the other.

Invariant: numbers are rounded for people, as in the catalogue of metrics, and next to each stands
what it is computed from: which trials, against which bona fide trials.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asdf.metrics.bootstrap import Interval
from asdf.metrics.catalogue import METRICS, Metric, defined, intervals_of
from asdf.metrics.results import Result
from asdf.metrics.summary import Average, Summary
from asdf.report.by_condition import columns_of, condition_table
from asdf.report.names import labels_of
from asdf.text import aligned

BEST = "*"
LEADS = "significantly better than the next one (paired bootstrap, p < 0.05)"
_WIDTH = 80
_GAP = 2
_LABEL = 24
_UNITS = {"cllr": "bits", "min_cllr": "bits"}
_AGAINST = {
    "all": "spoofs of each value against all bona fide trials",
    "same": "trials of each value among themselves",
}
_DECISION_HEAD = {
    "accuracy": "accuracy %",
    "balanced_accuracy": "balanced %",
    "macro_f1": "macro-F1 %",
    "f1_bona_fide": "F1 bona fide",
    "f1_spoof": "F1 spoof",
}
_CONDITION_HEAD = ["EER %", "minDCF", "actDCF", "Cllr", "bona fide", "spoof"]


def summary_text(summary: Summary) -> str:
    """Return everything of one system on one set; it ends without a line break."""
    rows = _metric_rows(summary)
    width = max(map(len, rows))
    lines = [_title(summary)]
    for name, value in rows.items():
        lines.append(f"  {name:<{width}}  {value}")
    for column in summary.columns:
        against = _AGAINST[summary.of_column(column)[0].bona_fide]
        lines += ["", f"  by {column}: {against}"]
        # Not indented, so that the table fits into 80 characters.
        if not summary.is_hard:
            lines += _condition_lines(summary, column)
        if summary.decisions:
            lines += ["", *_decision_lines(summary, column)]
    return "\n".join(lines)


def _title(summary: Summary) -> str:
    """Return the system and, if the set has a name, the set."""
    return f"{summary.name} on {summary.set}" if summary.set else summary.name


def _metric_rows(summary: Summary) -> dict[str, str]:
    """Return what is known of the pooled trials, by the name in its row."""
    result = summary.result
    trials = result.bona_fide + result.spoof
    rows = {
        "trials": f"{trials}: {result.bona_fide} bona fide, {result.spoof} spoof",
        "scored": summary.scored.describe(),
    }
    for metric in METRICS:
        if metric.value(summary) is None:
            continue
        unit = "%" if metric.percent else _UNITS.get(metric.key, "")
        value = f"{metric.text(summary)} {unit}".rstrip()
        # The unit stands behind the value here, not in the name.
        name = metric.heading.removesuffix(" %")
        rows[name] = value + _interval_text(metric, summary)
        if metric.key == "threshold" and summary.decisions:
            rows[name] += f"   {summary.decisions.threshold.source}"
    if summary.tandem is not None:
        rows["ASV EER"] = f"{100 * summary.tandem.asv_eer:.3f} %"
        rows["ASV threshold"] = f"{summary.tandem.asv_threshold:.4f}"
    return rows


def systems_text(summaries: Sequence[Summary], leading: Mapping[str, int]) -> str:
    """Return systems one below the other, in blocks of columns that 80 characters hold.

    Args:
        leading: metric -> index of the system that is significantly the best by it (see
            `leading.leaders`).
    """
    systems = [summary.name for summary in summaries]
    names = ["", *labels_of(systems, _LABEL)]
    lengths = [summary.scored.describe() for summary in summaries]
    columns = _metric_columns(summaries, leading)
    # What all systems have in common is a line below the table.
    if len(set(lengths)) > 1:
        columns.append(["scored", *lengths])
    parts = column_blocks(names, columns)
    if len(set(lengths)) == 1:
        parts.append(f"scored: {lengths[0]}")
    soft = [summary for summary in summaries if not summary.is_hard]
    for column in columns_of(soft):
        eers = _eer_columns(summaries, column)
        blocks = [f"EER % by {column}", *column_blocks(names, eers)]
        parts.append("\n\n".join(blocks))
    if leading:
        parts.append(f"{BEST} {LEADS}")
    return "\n\n".join(parts)


def group_columns(widths: Sequence[float], room: float) -> list[list[int]]:
    """Return the indices of columns of these widths in groups, each of which `room` holds.

    A column that is wider than `room` has a group of its own.
    """
    groups: list[list[int]] = []
    left = 0.0
    for index, width in enumerate(widths):
        if not groups or width > left:
            groups.append([])
            left = room
        groups[-1].append(index)
        left -= width
    return groups


def value_heading(value: str) -> str:
    """Return the value of a condition as a heading, in quotes if a row of ours has its name."""
    return f"'{value}'" if value in ("mean", "pooled") else value


def _metric_columns(summaries: Sequence[Summary], leading: Mapping[str, int]) -> list[list[str]]:
    """Return a column for each metric, and those of the intervals behind that of the EER."""
    columns = []
    for metric in defined(summaries):
        # None where no system is significantly better than the next one.
        best = leading.get(metric.key)
        column = [f"{metric.heading} "]
        for index, summary in enumerate(summaries):
            mark = BEST if index == best else " "
            column.append(metric.text(summary) + mark)
        columns.append(column)
        if metric.key == "eer":
            columns += _interval_columns(summaries)
    return columns


def _interval_columns(summaries: Sequence[Summary]) -> list[list[str]]:
    """Return the intervals of the EER over trials and over speakers, where any system has them."""
    by_kind = {
        "trials": [summary.intervals for summary in summaries],
        "speakers": [summary.speaker_intervals for summary in summaries],
    }
    columns = []
    for kind, intervals in by_kind.items():
        if any(intervals):
            # The space at the end of each text stands below the mark of the best system.
            column = [f"95 %, {kind} "]
            for system in intervals:
                text = _range_text(system.eer, 100, 3) if system else "-"
                column.append(f"{text} ")
            columns.append(column)
    return columns


def column_blocks(names: Sequence[str], columns: Sequence[Sequence[str]]) -> list[str]:
    """Return columns as blocks of lines of at most 80 characters; the names begin each block."""
    widths = []
    for column in columns:
        widths.append(_GAP + _longest(column))
    room = _WIDTH - _longest(names)
    blocks = []
    for group in group_columns(widths, room):
        shown = [names]
        shown += [columns[index] for index in group]
        lines = _aligned_numbers(rows_of(shown))
        blocks.append("\n".join(lines))
    return blocks


def rows_of(columns: Sequence[Sequence[str]]) -> list[tuple[str, ...]]:
    """Return the rows of a table from its columns."""
    return list(zip(*columns, strict=True))


def _longest(cells: Sequence[str]) -> int:
    return max(map(len, cells))


def _aligned_numbers(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines, all columns but the first aligned to the right."""
    columns = len(rows[0])
    return aligned(rows, right=range(1, columns))


def _condition_lines(summary: Summary, column: str) -> list[str]:
    rows = [[column, *_CONDITION_HEAD]]
    for condition in summary.of_column(column):
        heading = value_heading(condition.value)
        rows.append([heading, *_result_cells(condition.result)])
    mean = summary.average(column)
    rows.append(["mean", *_metric_cells(mean), "", ""])
    rows.append(["pooled", *_result_cells(summary.result)])
    return _aligned_numbers(rows)


def _decision_lines(summary: Summary, column: str) -> list[str]:
    """Return the metrics of the decisions about each value of a column, in per cent."""
    rows = [[column, *_DECISION_HEAD.values()]]
    for condition in summary.of_column(column):
        if condition.decisions is not None:
            values = condition.decisions.values()
            rows.append([value_heading(condition.value), *_decision_cells(values)])
    rows.append(["mean", *_decision_cells(summary.average_decisions(column))])
    if summary.decisions is not None:
        rows.append(["pooled", *_decision_cells(summary.decisions.confusion.values())])
    return _aligned_numbers(rows)


def _decision_cells(values: Mapping[str, float]) -> list[str]:
    return [f"{100 * values[name]:.2f}" for name in _DECISION_HEAD]


def _result_cells(result: Result) -> list[str]:
    return [*_metric_cells(result), str(result.bona_fide), str(result.spoof)]


def _metric_cells(result: Result | Average) -> list[str]:
    return [
        f"{100 * result.eer:.3f}",
        f"{result.min_dcf:.4f}",
        f"{result.act_dcf:.4f}",
        f"{result.cllr:.4f}",
    ]


def _eer_columns(summaries: Sequence[Summary], column: str) -> list[list[str]]:
    """Return a column for each value, and one of the means; a row for each system."""
    conditions = condition_table(summaries, column)
    columns = []
    for value in conditions.values:
        heading = value_heading(value)
        eers = conditions.eers(value)
        columns.append([heading, *map(_percent, eers)])
    means = ["mean"]
    for summary in summaries:
        mean = None
        # Other systems may lack the column: the mean over no value is not defined.
        if column in summary.columns:
            mean = summary.average(column).eer
        means.append(_percent(mean))
    columns.append(means)
    return columns


def _percent(rate: float | None) -> str:
    return "-" if rate is None else f"{100 * rate:.3f}"


def _interval_text(metric: Metric, summary: Summary) -> str:
    """Return the intervals of a metric, with the space before them; '' where it has none."""
    intervals = intervals_of(metric, summary)
    unit = 100 if metric.percent else 1
    digits = metric.digits
    texts = []
    if intervals.trials is not None:
        texts.append(f"{_range_text(intervals.trials, unit, digits)} over trials")
    if intervals.speakers is not None:
        over = intervals.speakers.describe_groups("speakers")
        texts.append(f"{_range_text(intervals.speakers, unit, digits)} over {over}")
    if not texts:
        return ""
    return f"   95 %: {', '.join(texts)}"


def _range_text(interval: Interval, unit: float, digits: int) -> str:
    low = unit * interval.low
    high = unit * interval.high
    return f"{low:.{digits}f} .. {high:.{digits}f}"
