"""Tables for papers: results of detection by metric, and configurations of runs by set.

Invariant: as for all LaTeX tables, see `asdf.tables.booktabs`; a mean is bold only if a test over
seeds shows that it is significantly the lowest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from asdf.metrics.metric_columns import metric_columns
from asdf.metrics.summary import Summary
from asdf.report.by_condition import columns_of, eer_columns, macro_f1_columns
from asdf.report.detection_text import LEADS
from asdf.report.gathering import Gathered
from asdf.report.result_tables import set_column, system_columns
from asdf.report.task_results import TaskResult, TaskResults, sets_of
from asdf.report.task_results import Value as Result
from asdf.tables.booktabs import PACKAGES, as_latex
from asdf.tables.labels import labels_of
from asdf.tables.table import RATE, Columns, Table, counts, each, texts
from asdf.tasks.localisation.located_record import located_columns
from asdf.tasks.studies.generalisation_tables import generalisation_to_latex
from asdf.tasks.studies.left_out_tables import left_out_latex
from asdf.tasks.studies.seed_results import OverSeeds
from asdf.tasks.studies.seed_tables import SEEDS_LEAD, seed_sentences, seed_values
from asdf.tasks.tracing.source_tables import source_columns

_LABEL = 24
_MEANS = "EER in per cent: mean and standard deviation over seeds"


def to_latex(summaries: Sequence[Summary], leading: Mapping[str, int] | None = None) -> str:
    """Return a table of systems by metric and, for each column, one of EERs by condition.

    Args:
        leading: Index of the system that is significantly the best, by metric (see
            `several_systems.leaders`); its value is bold.
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


def runs_to_latex(gathered: Gathered) -> str:
    """Return a table of all systems by set, with the seeds of a configuration in one row.

    Systems outside of any group have an interval over trials instead of a deviation. A second table
    shows sets of corpora not used in training, with averages. Tables of left-out values, source
    tracing and localisation follow.
    """
    tables = _task_tables(gathered.tasks)
    if gathered.left_out:
        tables.insert(0, left_out_latex(gathered.left_out))
    # Each fold has its own set: a table by set would have values only on its diagonal.
    if tables and (gathered.has_folds_alone or not gathered.measurements):
        return PACKAGES + "\n".join(tables)
    latex = [PACKAGES + as_latex(_table_of_sets(gathered))]
    if gathered.generalisation is not None:
        known = gathered.generalisation
        latex.append(generalisation_to_latex(known, gathered.over_seeds, gathered.leading))
    return "\n".join([*latex, *tables])


def _table_of_sets(gathered: Gathered) -> Table:
    """Return the EERs by set, of configurations, or of systems if there are none."""
    over = gathered.over_seeds
    lengths = dict.fromkeys(m.summary.scored.describe_computing() for m in gathered.measurements)
    sizes = []
    remarks = []
    for set_name in gathered.sets:
        result = gathered.on(set_name)[0].summary.result
        sizes.append(f"{set_name} {result.bona_fide} + {result.spoof}")
        for remark in gathered.set_remarks(set_name):
            remarks.append(f"double dagger, {set_name}: {remark}")
    scored = f"scored: {'; '.join(lengths)}"
    notes = [scored, f"bona fide + spoof trials: {'; '.join(sizes)}", *remarks]
    if not over.has_groups:
        notes.append("EER in per cent; in brackets: 95 % intervals over trials")
        if any("eer" in leading for leading in gathered.leading.values()):
            notes.append(f"bold: {LEADS}")
        labels = labels_of(gathered.systems, _LABEL)
        return Table(gathered.systems, system_columns(gathered), "System", notes, labels)
    names = each(over.configurations, "name")
    columns: Columns = [counts("Seeds", [len(known.systems) for known in over.configurations])]
    for set_name in gathered.sets:
        columns.append((set_column(gathered, set_name), seed_values(over, names, set_name)))
    notes.append(_MEANS)
    if any(len(result.seeds) < len(result.configuration.systems) for result in over.results()):
        notes.append("[n]: of n seeds alone")
    if any(over.is_leading(results[0]) for results in over.by_set.values() if results):
        notes.append(f"bold: {SEEDS_LEAD}")
    notes += [*_interval_notes(over, gathered.sets), *seed_sentences(over)]
    return Table(names, columns, "System", notes, labels_of(names, _LABEL))


def _interval_notes(over: OverSeeds, sets: Sequence[str]) -> list[str]:
    """Return the intervals of the means on each set, if known."""
    notes = []
    for set_name in sets:
        intervals = []
        for result in over.by_set[set_name]:
            if result.eer.interval is not None:
                shown = RATE.format_bounds(result.eer.interval, "--")
                intervals.append(f"{result.name} {shown}")
        if intervals:
            notes.append(f"95 % intervals of the means on {set_name}: {'; '.join(intervals)}")
    return notes


def _task_tables(results: TaskResults) -> list[str]:
    """Return a table per task and set; [] if nothing was measured."""
    tables = []
    for set_name in sets_of(results.traced):
        traced = [entry for entry in results.traced if entry.set == set_name]
        columns = source_columns(each(traced, "result"))
        tables.append(_task_table(f"source tracing on {set_name}", traced, columns))
    for set_name in sets_of(results.located):
        located = [entry for entry in results.located if entry.set == set_name]
        columns = located_columns(each(located, "result"))
        origins = dict.fromkeys(entry.result.threshold_of for entry in located)
        note = f"F1 and IoU of seconds, at the threshold of {', '.join(origins)}"
        tables.append(_task_table(f"localisation on {set_name}", located, columns, note))
    return tables


def _task_table(
    title: str, on_set: Sequence[TaskResult[Result]], columns: Columns, *notes: str
) -> str:
    known = [title, *notes]
    if any(entry.result.intervals for entry in on_set):
        known.append("in brackets: 95 % intervals")
    names = labels_of(each(on_set, "system"), _LABEL)
    return as_latex(Table(names, columns, "System", known))
