"""Tables of results on values left out of training: on a terminal, on the page, in LaTeX.

Invariant: all three have the same cells, with means before their values, because wide tables wrap.
Below each table stand its numbers of trials, folds and networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.tables.booktabs import as_latex
from asdf.tables.labels import labels_of
from asdf.tables.page_cells import PageTable, as_page
from asdf.tables.plain_text import as_text
from asdf.tables.table import RATE, Columns, Table, Value, counts, each, rate, texts
from asdf.tasks.studies.left_out import LeftOutSystem

_LABEL = 28


@dataclass(frozen=True)
class LeftOutSection:
    """A section of the page: a table and sentences for each left-out column."""

    table: PageTable
    sentences: list[str]


def left_out_text(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables as text, each followed by its sentences; '' without a system."""
    parts = []
    for column, of_column in _by_column(systems).items():
        table = _table(of_column, ["seeds", "mean", "worst"])
        title = f"EER % by {column}, left out of training"
        parts.append("\n\n".join([title, *as_text(table), *table.notes]))
    return "\n\n".join(parts)


def left_out_sections(systems: Sequence[LeftOutSystem]) -> list[LeftOutSection]:
    """Return the tables of the page, a row per system."""
    sections = []
    for column, of_column in _by_column(systems).items():
        table = _table(of_column, ["Seeds", "Mean", "Worst"], column)
        page = as_page(table, f"EER in % by {column}, left out of training", "heat")
        sections.append(LeftOutSection(page, list(table.notes)))
    return sections


def left_out_latex(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables in LaTeX, with booktabs; '' without a system."""
    parts = []
    for column, of_column in _by_column(systems).items():
        table = as_latex(_table(of_column, ["Seeds", "Mean", "Worst"]))
        parts.append(f"% EER in per cent by {column}, left out of training\n{table}")
    return "\n".join(parts)


def _table(systems: Sequence[LeftOutSystem], headings: list[str], worst_of: str = "") -> Table:
    """Return the EERs of systems that left out values of the same column.

    Args:
        headings: Names of the columns before those of the values.
        worst_of: Column whose worst value has its own column; '': the value stands next to its EER.
    """
    seeds, mean, worst = headings
    columns: Columns = [
        counts(seeds, [len(system.seeds) for system in systems]),
        (rate(mean), [Value.of_spread(system.mean) for system in systems]),
    ]
    names = each(systems, "worst.value")
    # The page sorts by columns, which takes a column of numbers alone.
    if worst_of:
        columns.append(rate(worst, is_shaded=True).with_values(each(systems, "worst.eer")))
        columns.append(texts(f"Worst {worst_of}", names))
    else:
        shown = [f"{RATE.format(system.worst.eer)} ({system.worst.value})" for system in systems]
        columns.append(texts(worst, shown))
    for value in sorted({value for system in systems for value in system.values}):
        known = []
        for system in systems:
            known.append(Value(system.eer(value) if value in system.results else None))
        columns.append((rate(value, is_shaded=True), known))
    rows = each(systems, "name")
    heading = "" if seeds == "seeds" else "System"
    return Table(rows, columns, heading, left_out_sentences(systems), labels_of(rows, _LABEL))


def left_out_sentences(systems: Sequence[LeftOutSystem]) -> list[str]:
    """Return sentences on the trials and networks, given once if they hold for all systems."""
    by_sentence: dict[str, list[str]] = {}
    for system in systems:
        by_sentence.setdefault(_sentence(system), []).append(system.name)
    if len(by_sentence) == 1:
        return list(by_sentence)
    return [f"{', '.join(names)}: {sentence}" for sentence, names in by_sentence.items()]


def _sentence(system: LeftOutSystem) -> str:
    values = len(system.values)
    seeds = len(system.seeds)
    over_seeds = "of one seed" if seeds == 1 else f"means over {seeds} seeds"
    bona_fide = _range(list(system.folds.values()))
    # With any seed, the spoofs of a value are the same trials.
    spoofs = [next(iter(by_seed.values())).spoof for by_seed in system.results.values()]
    sentence = (
        f"Each of {values} values of {system.column} is left out of training in one of "
        f"{len(system.folds)} folds, and its spoofs ({_range(spoofs)} per value) are "
        f"scored against the bona fide trials that the fold left out ({bona_fide} per fold), "
        f"with {system.network}. EERs are {over_seeds}; mean: of the EERs of the {values} "
        "values, ± the standard deviation over seeds; worst: the highest EER."
    )
    missing = [seed for seed in system.seeds if seed not in system.whole_seeds]
    if missing:
        sentence += (
            f" Seeds {', '.join(missing)} lack folds and are excluded from mean and deviation."
        )
    return sentence


def _range(counts: Sequence[int]) -> str:
    low = min(counts)
    high = max(counts)
    return f"{low}" if low == high else f"{low} to {high}"


def _by_column(systems: Sequence[LeftOutSystem]) -> dict[str, list[LeftOutSystem]]:
    by_column: dict[str, list[LeftOutSystem]] = {}
    for system in systems:
        by_column.setdefault(system.column, []).append(system)
    return by_column
