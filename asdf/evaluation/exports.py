"""Summaries for programs and for papers: JSON, CSV and LaTeX.

Invariant: JSON and CSV keep all digits and have EERs as fractions; LaTeX rounds as the field publishes, EERs in per
cent with two digits, costs with four.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from asdf.evaluation.bootstrap import Intervals
from asdf.evaluation.metrics import METRICS, Metric, defined
from asdf.evaluation.summary import Summary

_RESULT = ("eer", "eer_threshold", "min_dcf", "act_dcf", "cllr")
_POOLED = tuple(metric.key for metric in METRICS if metric.key not in _RESULT)
_BOUNDS = ("eer_low", "eer_high", "min_dcf_low", "min_dcf_high")
CSV_COLUMNS = (
    *("system", "set", "kind", "column", "value", "against", "bona_fide", "spoof", *_RESULT, *_POOLED),
    *_BOUNDS,
    *(f"speaker_{name}" for name in _BOUNDS),
)
_ESCAPED = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


def to_json(summaries: Sequence[Summary]) -> str:
    """A list with a record for each summary."""
    return json.dumps([record(summary) for summary in summaries], indent=2, ensure_ascii=False) + "\n"


def record(summary: Summary) -> dict[str, Any]:
    """A summary without its scores, made of what JSON has."""
    return {
        "system": summary.name,
        "set": summary.set,
        **asdict(summary.result),
        "auc": summary.auc,
        "min_cllr": summary.min_cllr,
        "tandem": asdict(summary.tandem) if summary.tandem else None,
        "intervals_95": {
            "trials": _interval_record(summary.intervals),
            "speakers": _interval_record(summary.speaker_intervals),
        },
        "conditions": [
            {"column": one.column, "value": one.value, "against": one.bona_fide, **asdict(one.result)}
            for one in summary.conditions
        ],
        "means": {column: asdict(summary.average(column)) for column in summary.columns},
        "warnings": [finding.message for finding in summary.findings],
    }


def to_csv(summaries: Sequence[Summary]) -> str:
    """A row for each system and condition; `kind` is pooled, condition or mean, and what a kind has not is empty."""
    text = io.StringIO()
    writer = csv.DictWriter(text, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for summary in summaries:
        both = {"system": summary.name, "set": summary.set}
        pooled = {metric.key: metric.value(summary) for metric in METRICS}
        bounds = _bounds(summary.intervals, "") | _bounds(summary.speaker_intervals, "speaker_")
        writer.writerow({**both, "kind": "pooled", **asdict(summary.result), **pooled, **bounds})
        for column in summary.columns:
            conditions = summary.of_column(column)
            for one in conditions:
                named = {"kind": "condition", "column": column, "value": one.value, "against": one.bona_fide}
                writer.writerow({**both, **named, **asdict(one.result)})
            named = {"kind": "mean", "column": column, "against": conditions[0].bona_fide}
            writer.writerow({**both, **named, **asdict(summary.average(column))})
    return text.getvalue()


def to_latex(summaries: Sequence[Summary]) -> str:
    """A table of systems and, for each column, one of their EERs by condition, best in bold; needs booktabs."""
    metrics = [metric for metric in defined(summaries) if metric.better]
    best = [metric.best(summaries) for metric in metrics]
    rows = [
        [_latex(summary.name), *(_cell(m, summary, index in chosen) for m, chosen in zip(metrics, best, strict=True))]
        for index, summary in enumerate(summaries)
    ]
    parts = [_tabular(["System", *(_latex(metric.heading) for metric in metrics)], rows)]
    for column in dict.fromkeys(column for summary in summaries for column in summary.columns):
        parts.append(_eers_of_systems(summaries, column))
    return "% \\usepackage{booktabs}\n" + "\n".join(parts)


def _eers_of_systems(summaries: Sequence[Summary], column: str) -> str:
    eers = [{one.value: one.result.eer for one in summary.of_column(column)} for summary in summaries]
    for found, summary in zip(eers, summaries, strict=True):
        found |= {"pooled": summary.result.eer} if found else {}
    values = [*sorted({value for found in eers for value in found if value != "pooled"}), "pooled"]
    least = {value: min(found[value] for found in eers if value in found) for value in values}
    rows = []
    for found, summary in zip(eers, summaries, strict=True):
        cells = []
        for value in values:
            text = f"{100 * found[value]:.2f}" if value in found else "--"
            best = len(summaries) > 1 and found.get(value) == least[value]
            cells.append(f"\\textbf{{{text}}}" if best else text)
        rows.append([_latex(summary.name), *cells])
    return f"% EER in per cent by {column}\n" + _tabular(["System", *map(_latex, values)], rows)


def _tabular(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"\\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}", "\\toprule", " & ".join(head) + r" \\", "\\midrule"]
    lines += [" & ".join(row) + r" \\" for row in rows]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}"]) + "\n"


def _cell(metric: Metric, summary: Summary, best: bool) -> str:
    text = metric.text(summary, paper=True)
    return "--" if text == "-" else f"\\textbf{{{text}}}" if best else text


def _latex(text: str) -> str:
    return "".join(_ESCAPED.get(character, character) for character in text)


def _interval_record(intervals: Intervals | None) -> dict[str, dict[str, float]] | None:
    if intervals is None:
        return None
    return {name: {"low": one.low, "high": one.high} for name, one in vars(intervals).items()}


def _bounds(intervals: Intervals | None, prefix: str) -> dict[str, float]:
    if intervals is None:
        return {}
    ends = (intervals.eer.low, intervals.eer.high, intervals.min_dcf.low, intervals.min_dcf.high)
    return {f"{prefix}{name}": value for name, value in zip(_BOUNDS, ends, strict=True)}
