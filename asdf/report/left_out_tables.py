"""Tables of what was left out of training: on a terminal, on the page, in LaTeX.

Invariant: all three have the same cells, means before the values that they are of, since wide
tables go on below; and below them stands what the numbers are of: trials, folds, networks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from asdf.metrics.over_seeds import Spread
from asdf.report.conditions import heat_cell
from asdf.report.latex_cells import spread_cell
from asdf.report.left_out import LeftOutSystem
from asdf.report.names import labels_of
from asdf.tables.latex import latex_text, tabulars
from asdf.tables.page import ABSENT, Cell, PageTable, head_cells, name_cell, percent
from asdf.tables.text import column_blocks

_LABEL = 28
_MEAN = "Mean"
_WORST = "Worst"


@dataclass(frozen=True)
class LeftOutSection:
    """A section of the page: a table per column that was left out, with its sentences."""

    table: PageTable
    sentences: list[str]


def left_out_text(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables as text, each with its sentences below it; '' without a system."""
    parts = []
    for column, of_column in _by_column(systems).items():
        names = ["", *_labels(of_column)]
        columns = [["seeds", *(str(len(system.seeds)) for system in of_column)]]
        columns.append(["mean", *(_mean_text(system.mean, "-") for system in of_column)])
        columns.append(["worst", *map(_worst_text, of_column)])
        for value in _values(of_column):
            columns.append([value, *(_eer_text(system, value, "-") for system in of_column)])
        blocks = column_blocks(names, columns)
        title = f"EER % by {column}, left out of training"
        parts.append("\n\n".join([title, *blocks, *left_out_sentences(of_column)]))
    return "\n\n".join(parts)


def left_out_sections(systems: Sequence[LeftOutSystem]) -> list[LeftOutSection]:
    """Return the tables of the page, a row per system."""
    sections = []
    for column, of_column in _by_column(systems).items():
        values = _values(of_column)
        rows = []
        for system, label in zip(of_column, _labels(of_column), strict=True):
            row = [name_cell(system.name, label), Cell(len(system.seeds))]
            worst = heat_cell(system.worst.eer)
            row += [_mean_cell(system.mean), worst, Cell(system.worst.value)]
            row += [_eer_cell(system, value) for value in values]
            rows.append(row)
        head = head_cells(["System", "Seeds", _MEAN, _WORST, f"Worst {column}", *values])
        table = PageTable(f"EER in % by {column}, left out of training", head, rows, "heat")
        sections.append(LeftOutSection(table, left_out_sentences(of_column)))
    return sections


def left_out_latex(systems: Sequence[LeftOutSystem]) -> str:
    """Return the tables in LaTeX, with booktabs; '' without a system."""
    parts = []
    for column, of_column in _by_column(systems).items():
        columns = [["Seeds", *(str(len(system.seeds)) for system in of_column)]]
        means = []
        for system in of_column:
            mean = system.mean
            means.append("--" if mean is None else spread_cell(mean, is_best=False))
        columns.append([_MEAN, *means])
        columns.append([_WORST, *(latex_text(_worst_text(system)) for system in of_column)])
        for value in _values(of_column):
            cells = [_eer_text(system, value, "--") for system in of_column]
            columns.append([latex_text(value), *cells])
        names = ["System", *map(latex_text, _labels(of_column))]
        table = tabulars(names, columns, left_out_sentences(of_column))
        parts.append(f"% EER in per cent by {column}, left out of training\n{table}")
    return "\n".join(parts)


def left_out_sentences(systems: Sequence[LeftOutSystem]) -> list[str]:
    """Return what the numbers are of; once where it is the same of all systems."""
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
            f" Seeds {', '.join(missing)} lack folds, and have no part in mean and deviation."
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


def _values(systems: Sequence[LeftOutSystem]) -> list[str]:
    return sorted({value for system in systems for value in system.values})


def _labels(systems: Sequence[LeftOutSystem]) -> list[str]:
    return labels_of([system.name for system in systems], _LABEL)


def _eer_text(system: LeftOutSystem, value: str, absent: str) -> str:
    return percent(system.eer(value)) if value in system.results else absent


def _eer_cell(system: LeftOutSystem, value: str) -> Cell:
    return heat_cell(system.eer(value)) if value in system.results else Cell(ABSENT)


def _mean_text(mean: Spread | None, absent: str) -> str:
    if mean is None:
        return absent
    if mean.deviation is None:
        return percent(mean.mean)
    return f"{percent(mean.mean)} ± {percent(mean.deviation)}"


def _mean_cell(mean: Spread | None) -> Cell:
    if mean is None:
        return Cell(ABSENT)
    return Cell(_mean_text(mean, ABSENT), 100 * mean.mean)


def _worst_text(system: LeftOutSystem) -> str:
    return f"{percent(system.worst.eer)} ({system.worst.value})"
