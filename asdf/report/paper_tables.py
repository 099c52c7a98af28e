"""Summaries as aligned text and as LaTeX, and the tables of runs for papers.

Invariant: numbers are rounded as in the catalogue of metrics, and each is shown with the trials
that it is computed from. A mean is bold only if a test over seeds shows that it is significantly
the lowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from asdf.metrics.detection import ASVSPOOF5
from asdf.metrics.intervals import Interval
from asdf.metrics.metric_columns import METRICS, metric_columns
from asdf.metrics.summary import Summary
from asdf.report.gathering import Gathered, Result, TaskResult, by_set
from asdf.report.result_tables import (
    columns_of,
    eer_columns,
    macro_f1_columns,
    set_column,
    system_columns,
    system_labels,
    task_table,
    value_heading,
)
from asdf.tables.renderers import BEST, PACKAGES, as_latex, as_lines, as_sheet, as_text, bracketed
from asdf.tables.table import RATE, Column, Columns, Table, counts, each, labels_of, rate, texts
from asdf.tasks.localisation.located_measures import located_columns
from asdf.tasks.studies.generalisation import generalisation_to_latex
from asdf.tasks.studies.left_out import left_out_latex
from asdf.tasks.studies.seed_results import SEEDS_LEAD, seed_sentences, seed_values
from asdf.tasks.tracing.source_measures import source_columns

LEADS = "significantly better than the next one (paired bootstrap, p < 0.05)"
_LABEL = 24
_AGAINST = {
    "all": "spoofs of each value against all bona fide trials",
    "same": "trials of each value among themselves",
}
# Columns that fit into a row of 80 characters.
_DECISION_NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced",
    "macro_f1": "macro-F1",
    "f1_bona_fide": "F1 bona fide",
    "f1_spoof": "F1 spoof",
}
_MEANS = "EER in per cent: mean and standard deviation over seeds"


def summary_text(summary: Summary) -> str:
    """Return all results of one system on one set, without a final line break."""
    result = summary.result
    trials = result.bona_fide + result.spoof
    columns: Columns = [
        texts("trials", [f"{trials}: {result.bona_fide} bona fide, {result.spoof} spoof"]),
        texts("scored", [summary.scored.describe()]),
    ]
    for metric, (value,) in metric_columns([summary], {}):
        if metric.key == "threshold" and summary.decisions:
            value = replace(value, remark=f"   {summary.decisions.threshold.source}")
        columns.append((metric, [value]))
    if summary.tandem is not None:
        asv_eer, threshold = summary.tandem.asv_eer, summary.tandem.asv_threshold
        columns.append(rate("asv_eer", "ASV EER", 3).with_values([asv_eer]))
        columns.append(Column("asv_threshold", "ASV threshold").with_values([threshold]))
    if summary.cost != ASVSPOOF5:
        columns.append(texts("costs", [summary.cost.describe()]))
    # The set may have no name.
    title = f"{summary.name} on {summary.set}" if summary.set else summary.name
    lines = as_sheet(Table([title], columns))
    for column in summary.columns:
        against = _AGAINST[summary.of_column(column)[0].bona_fide]
        lines += ["", f"  by {column}: {against}"]
        # Not indented, so that the table fits into 80 characters.
        if not summary.is_hard:
            lines += condition_lines(summary, column)
        if summary.decisions:
            lines += ["", *decision_lines(summary, column)]
    return "\n".join(lines)


def systems_text(summaries: Sequence[Summary], leading: Mapping[str, int]) -> str:
    """Return systems in rows, in blocks of columns that fit into 80 characters.

    Args:
        leading: Index of the system that is significantly the best, by metric (see
            `summary.leaders`).
    """
    names = labels_of(each(summaries, "name"), _LABEL)
    lengths = [summary.scored.describe() for summary in summaries]
    columns: Columns = [*metric_columns(summaries, leading)]
    # Values that all systems share are stated in a line below the table.
    if len(set(lengths)) > 1:
        columns.append(texts("scored", lengths))
    parts = as_text(Table(names, columns))
    if len(set(lengths)) == 1:
        parts.append(f"scored: {lengths[0]}")
    for column in columns_of([summary for summary in summaries if not summary.is_hard]):
        eers = as_text(Table(names, eer_columns(summaries, column, "mean")))
        parts.append("\n\n".join([f"EER % by {column}", *eers]))
    if leading:
        parts.append(f"{BEST} {LEADS}")
    return "\n\n".join(parts)


def condition_lines(summary: Summary, column: str) -> list[str]:
    """Return the metrics of the scores of each value of a column."""
    conditions = summary.of_column(column)
    results = each(conditions, "result")
    rows = [*results, summary.average(column), summary.result]
    # Only metrics with a mean over conditions; no test says which condition is the best.
    shown = [replace(metric, marked=False) for metric in METRICS if hasattr(rows[-2], metric.key)]
    columns: Columns = [metric.with_values(each(rows, metric.key)) for metric in shown]
    for name, key in (("bona fide", "bona_fide"), ("spoof", "spoof")):
        columns.append(texts(name, [str(getattr(row, key, "")) for row in rows]))
    names = [value_heading(condition.value) for condition in conditions]
    return as_lines(Table([*names, "mean", "pooled"], columns, column))


def decision_lines(summary: Summary, column: str) -> list[str]:
    """Return the metrics of the decisions about each value of a column, in per cent."""
    rows: dict[str, Mapping[str, float]] = {}
    for condition in summary.of_column(column):
        if condition.decisions is not None:
            rows[value_heading(condition.value)] = condition.decisions.values()
    rows["mean"] = summary.average_decisions(column)
    if summary.decisions is not None:
        rows["pooled"] = summary.decisions.confusion.values()
    columns: Columns = []
    # In the order of the metrics of all tables.
    for key, heading in _DECISION_NAMES.items():
        shown = rate(key, heading, states_unit=not heading.startswith("F1"))
        columns.append(shown.with_values(values[key] for values in rows.values()))
    return as_lines(Table(list(rows), columns, column))


def to_latex(summaries: Sequence[Summary], leading: Mapping[str, int]) -> str:
    """Return a table of systems by metric and, for each column, one of EERs by condition.

    Args:
        leading: Index of the system that is significantly the best, by metric (see
            `summary.leaders`); its value is bold.
    """
    names = labels_of(each(summaries, "name"), _LABEL)
    columns: Columns = [*metric_columns(summaries, leading)]
    lengths = [summary.scored.describe() for summary in summaries]
    scored = f"scored: {'; '.join(dict.fromkeys(lengths))}"
    notes = [scored]
    if summaries[0].cost != ASVSPOOF5:
        notes.append(f"minDCF and actDCF with {summaries[0].cost.describe()}")
    notes += _interval_notes(columns)
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


def _interval_notes(columns: Columns) -> list[str]:
    """Return what the intervals in brackets are over; [] without any."""
    drawn: dict[str, None] = {}
    for _, values in columns:
        for value in values:
            over = bracketed(value)
            bounds = value.intervals.get(over)
            if isinstance(bounds, Interval):
                drawn[bounds.describe_groups(over)] = None
    return [f"in brackets: 95 % intervals over {' or '.join(drawn)}"] if drawn else []


def runs_to_latex(gathered: Gathered) -> str:
    """Return a table of all systems by set, with the seeds of a configuration in one row.

    Systems outside of any group have an interval instead of a deviation. A second table
    shows sets of corpora not used in training, with averages. Tables of left-out values, source
    tracing and localisation follow.
    """
    tables = []
    for set_name, traced in by_set(gathered.tasks.traced).items():
        columns = source_columns(each(traced, "result"))
        tables.append(_task_latex(traced, columns, [f"source tracing on {set_name}"]))
    for set_name, located in by_set(gathered.tasks.located).items():
        columns = located_columns(each(located, "result"), set_name)
        origins = dict.fromkeys(each(located, "result.threshold_of"))
        note = f"F1 and IoU of seconds, at the threshold of {', '.join(origins)}"
        tables.append(_task_latex(located, columns, [f"localisation on {set_name}", note]))
    if gathered.left_out:
        tables.insert(0, left_out_latex(gathered.left_out))
    # Each fold has its own set: a table by set would have values only on its diagonal.
    if tables and (gathered.has_folds_alone or not gathered.measurements):
        return PACKAGES + "\n".join(tables)
    latex = [PACKAGES + as_latex(table_of_sets(gathered))]
    if gathered.generalisation is not None:
        leading = {}
        for set_name, known in gathered.leading.items():
            if "eer" in known:
                leading[set_name] = gathered.on(set_name)[known["eer"]].system
        over = gathered.over_seeds
        latex.append(generalisation_to_latex(gathered.generalisation, over, leading))
    return "\n".join([*latex, *tables])


def table_of_sets(gathered: Gathered) -> Table:
    """Return the EERs by set, of configurations, or of systems if there are none."""
    over = gathered.over_seeds
    lengths = dict.fromkeys(m.summary.scored.describe_computing() for m in gathered.measurements)
    sizes = []
    remarks = []
    for set_name in gathered.sets:
        pooled = gathered.on(set_name)[0].summary.result
        sizes.append(f"{set_name} {pooled.bona_fide} + {pooled.spoof}")
        known = gathered.set_remarks(set_name)
        remarks += [f"double dagger, {set_name}: {remark}" for remark in known]
    scored = f"scored: {'; '.join(lengths)}"
    notes = [scored, f"bona fide + spoof trials: {'; '.join(sizes)}", *remarks]
    if not over.has_groups:
        columns = system_columns(gathered)
        notes.append("; ".join(["EER in per cent", *_interval_notes(columns)]))
        if any("eer" in leading for leading in gathered.leading.values()):
            notes.append(f"bold: {LEADS}")
        labels = labels_of(gathered.systems, _LABEL)
        return Table(gathered.systems, columns, "System", notes, labels)
    names = each(over.configurations, "name")
    columns = [counts("Seeds", [len(known.systems) for known in over.configurations])]
    for set_name in gathered.sets:
        columns.append((set_column(gathered, set_name), seed_values(over, names, set_name)))
    notes.append(_MEANS)
    if any(len(result.seeds) < len(result.configuration.systems) for result in over.results()):
        notes.append("[n]: of n seeds alone")
    if any(over.is_leading(results[0]) for results in over.by_set.values() if results):
        notes.append(f"bold: {SEEDS_LEAD}")
    for set_name in gathered.sets:
        bounds = [(known.name, known.eer.interval) for known in over.by_set[set_name]]
        drawn = [f"{name} {RATE.format_bounds(known, '--')}" for name, known in bounds if known]
        if drawn:
            notes.append(f"95 % intervals of the means on {set_name}: {'; '.join(drawn)}")
    notes += seed_sentences(over)
    return Table(names, columns, "System", notes, labels_of(names, _LABEL))


def _task_latex(
    on_set: Sequence[TaskResult[Result]], columns: Columns, notes: Sequence[str]
) -> str:
    if any(entry.result.intervals for entry in on_set):
        notes = [*notes, "in brackets: 95 % intervals"]
    return as_latex(task_table(on_set, columns, system_labels(on_set, _LABEL), notes))
