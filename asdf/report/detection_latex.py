"""Results of detection as tables for papers; see `asdf.tables.booktabs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asdf.metrics.metric_columns import metric_columns
from asdf.metrics.summary import Summary
from asdf.report.by_condition import columns_of, eer_columns, macro_f1_columns
from asdf.report.detection_text import LEADS
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.labels import labels_of
from asdf.tables.table import Columns, Table, each, texts

_LABEL = 24


def to_latex(summaries: Sequence[Summary], leading: Mapping[str, int] | None = None) -> str:
    """Return a table of systems by metric and, for each column, one of their EERs by condition.

    Args:
        leading: metric -> index of the system that is significantly the best by it (see
            `leading.leaders`), whose value is bold.
    """
    leading = leading or {}
    names = labels_of(each(summaries, "name"), _LABEL)
    columns: Columns = [*metric_columns(summaries, leading)]
    lengths = [summary.scored.describe() for summary in summaries]
    scored = f"scored: {'; '.join(dict.fromkeys(lengths))}"
    notes = [scored]
    drawn_from = [(s.intervals, s.decisions and s.decisions.intervals) for s in summaries]
    if any(scores is not None or decisions for scores, decisions in drawn_from):
        notes.append("in brackets: 95 % intervals over trials")
    if leading:
        notes.append(f"bold: {LEADS}")
    if len(set(lengths)) > 1:
        columns.append(texts("Scored", lengths))
    parts = [as_latex(Table(names, columns, "System", notes))]
    for column in columns_of(summaries):
        if not all(summary.is_hard for summary in summaries):
            eers = eer_columns(summaries, column, "pooled", _LABEL)
            table = as_latex(Table(names, eers, "System", [scored]))
            parts.append(f"% EER in per cent by {column}\n{table}")
        if any(summary.decisions for summary in summaries):
            f1s = macro_f1_columns(summaries, column, _LABEL)
            table = as_latex(Table(names, f1s, "System", [scored]))
            parts.append(f"% macro-F1 in per cent by {column}\n{table}")
    return PACKAGES + "\n".join(parts)
