"""Tables of runs for papers: configurations by set, as mean and standard deviation over seeds.

Invariant: as for all tables in LaTeX, see `latex`; a mean is bold only where a test over seeds says
that it is significantly the lowest.
"""

from __future__ import annotations

from collections.abc import Sequence

from asdf.metrics.summary import Summary
from asdf.report.gathering import Gathered
from asdf.report.generalisation_tables import generalisation_to_latex
from asdf.report.latex_cells import SEEDS_LEAD, bold, spread_cell, with_dashes
from asdf.report.latex_tasks import task_tables
from asdf.report.left_out_tables import left_out_latex
from asdf.report.names import labels_of
from asdf.report.seed_results import OverSeeds, SeedResult
from asdf.report.seeds import seed_sentences
from asdf.report.tables import LEADS
from asdf.tables.latex import latex_text, tabulars
from asdf.tables.page import interval_text

_LABEL = 24
_MEANS = "EER in per cent: mean and standard deviation over seeds"


def runs_to_latex(gathered: Gathered) -> str:
    """Return a table of all systems by set; seeds of one configuration are one row.

    Systems in no group have their interval over trials instead of a deviation. Sets of other
    corpora than the training's have a second table, with averages. Tables of what was left out of
    training, of source tracing and of localisation follow.
    """
    tables = task_tables(gathered.tasks)
    if gathered.left_out:
        tables.insert(0, left_out_latex(gathered.left_out))
    # Folds have a set each: by set, their table would be empty but for its diagonal.
    if tables and (gathered.has_folds_alone or not gathered.measurements):
        return "% \\usepackage{booktabs}\n" + "\n".join(tables)
    return "\n".join([_detection_tables(gathered), *tables])


def _detection_tables(gathered: Gathered) -> str:
    latex = _sets_table(gathered)
    if gathered.generalisation is None:
        return latex
    known = gathered.generalisation
    return latex + "\n" + generalisation_to_latex(known, gathered.over_seeds, gathered.leading)


def _sets_table(gathered: Gathered) -> str:
    if not gathered.over_seeds.has_groups:
        return _systems_table(gathered)
    over = gathered.over_seeds
    names = [known.name for known in over.configurations]
    columns = [["Seeds", *(str(len(known.systems)) for known in over.configurations)]]
    for set_name in gathered.sets:
        by_name = {result.name: result for result in over.by_set[set_name]}
        column = [_set_heading(gathered, set_name)]
        for name in names:
            column.append(seed_cell(over, by_name.get(name)))
        columns.append(column)
    notes = [*_scored_notes(gathered), _MEANS]
    on_sets = [result for results in over.by_set.values() for result in results]
    if any(len(result.seeds) < len(result.configuration.systems) for result in on_sets):
        notes.append("[n]: of n seeds alone")
    if any(over.is_leading(results[0]) for results in over.by_set.values() if results):
        notes.append(f"bold: {SEEDS_LEAD}")
    notes += _interval_notes(over, gathered.sets)
    notes += seed_sentences(gathered)
    return _document(names, columns, notes)


def _interval_notes(over: OverSeeds, sets: Sequence[str]) -> list[str]:
    """Return the intervals of the means on each set, where they are known."""
    notes = []
    for set_name in sets:
        intervals = []
        for result in over.by_set[set_name]:
            if result.eer.interval is not None:
                shown = with_dashes(interval_text(result.eer.interval))
                intervals.append(f"{result.name} {shown}")
        if intervals:
            notes.append(f"95 % intervals of the means on {set_name}: {'; '.join(intervals)}")
    return notes


def _systems_table(gathered: Gathered) -> str:
    columns = []
    for set_name in gathered.sets:
        leader = gathered.leading.get(set_name, {}).get("eer")
        by_system = {measured.system: measured.summary for measured in gathered.on(set_name)}
        column = [_set_heading(gathered, set_name)]
        for system in gathered.systems:
            column.append(_system_cell(by_system.get(system), is_best=system == leader))
        columns.append(column)
    notes = [*_scored_notes(gathered), "EER in per cent; in brackets: 95 % intervals over trials"]
    if any("eer" in leading for leading in gathered.leading.values()):
        notes.append(f"bold: {LEADS}")
    return _document(gathered.systems, columns, notes)


def _set_heading(gathered: Gathered, set_name: str) -> str:
    """Return the name of a set, with a mark where the numbers of a system on it are no test."""
    mark = r"$^\ddagger$" if gathered.set_remarks(set_name) else ""
    return latex_text(set_name) + mark


def _document(names: Sequence[str], columns: Sequence[Sequence[str]], notes: Sequence[str]) -> str:
    labels = map(latex_text, labels_of(names, _LABEL))
    return "% \\usepackage{booktabs}\n" + tabulars(["System", *labels], columns, notes)


def _scored_notes(gathered: Gathered) -> list[str]:
    """Return how much was scored, and how many trials each set has."""
    lengths = dict.fromkeys(m.summary.scored.describe_computing() for m in gathered.measurements)
    sizes = []
    remarks = []
    for set_name in gathered.sets:
        result = gathered.on(set_name)[0].summary.result
        sizes.append(f"{set_name} {result.bona_fide} + {result.spoof}")
        for remark in gathered.set_remarks(set_name):
            remarks.append(f"double dagger, {set_name}: {remark}")
    scored = f"scored: {'; '.join(lengths)}"
    return [scored, f"bona fide + spoof trials: {'; '.join(sizes)}", *remarks]


def _system_cell(summary: Summary | None, *, is_best: bool) -> str:
    if summary is None:
        return "--"
    value = bold(f"{100 * summary.result.eer:.2f}", is_best)
    if summary.intervals is None:
        return value
    return f"{value} ({with_dashes(interval_text(summary.intervals.eer))})"


def seed_cell(over: OverSeeds, result: SeedResult | None) -> str:
    """Return '4.10 ± 0.32' in LaTeX, bold where the result leads."""
    if result is None:
        return "--"
    cell = spread_cell(result.eer, is_best=over.is_leading(result))
    if len(result.seeds) < len(result.configuration.systems):
        # The column of seeds has the number of all.
        return f"{cell} [{len(result.seeds)}]"
    return cell
